"""Names that a shell completes: asked of the portal, and nothing where it does not answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import click

from berth_cli.client import ApiError
from berth_cli.context import Session, session

MANY = 100  # more than anybody looks through


def _names(
    path: Callable[[Session], str], field: str = "name", *, asks: bool = True, **query: object
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Complete by ``field`` of the rows at ``path``; ``asks``: whether the list can be asked."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del param
        s = session(ctx)
        wanted = {**query, "q": incomplete or None} if asks else query
        try:
            s.client.be_quick()
            names = (str(row[field]) for row in s.client.pages(path(s), **wanted))
            found = {name for name in islice(names, MANY) if name.startswith(incomplete)}
        except ApiError:
            return []  # whoever presses Tab reads no errors
        return sorted(found)

    return complete


workspaces = _names(lambda s: f"projects/{s.project}/workspaces")
volumes = _names(lambda s: f"projects/{s.project}/volumes")
loads = _names(lambda s: f"projects/{s.project}/loads")
endpoints = _names(lambda s: f"projects/{s.project}/endpoints")
models = _names(lambda s: f"projects/{s.project}/models", asks=False)
jobs = _names(lambda s: f"projects/{s.project}/jobs")
credentials = _names(lambda s: f"projects/{s.project}/credentials", asks=False)
usable_credentials = _names(lambda s: f"projects/{s.project}/credentials/usable", asks=False)
own_tokens = _names(lambda _s: "me/tokens", "id", asks=False)
presets = _names(lambda _s: "presets", "slug", asks=False)
projects = _names(lambda _s: "projects", "slug", asks=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands, options and names.

    \b
    bash: echo 'eval "$(berth completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(berth completion zsh)"' >> ~/.zshrc
    fish: berth completion fish > ~/.config/fish/completions/berth.fish
    """  # noqa: D301 - a mark of click: what follows keeps its lines
    from click.shell_completion import get_completion_class

    from berth_cli.main import cli

    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - one of the choices
    click.echo(made(cli, {}, "berth", "_BERTH_COMPLETE").source())
