"""What every command needs: the profile, the client, the output format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import click

from berth_cli import config
from berth_cli.client import EXIT_SIGN_IN, EXIT_USAGE, ApiError, Client
from berth_cli.output import Column, emit


@dataclass
class Session:
    """Options given before the command, resolved lazily so that --help never needs a server."""

    server_option: str | None
    project_option: str | None
    fmt: str

    @cached_property
    def profile(self) -> config.Profile:
        try:
            return config.resolve(server=self.server_option, project=self.project_option)
        except config.ConfigError as error:
            raise ApiError(str(error)) from error

    @cached_property
    def client(self) -> Client:
        if not self.profile.server:
            raise ApiError(
                "No portal is known yet. Run: berth login http://localhost:8000", EXIT_SIGN_IN
            )
        return Client(self.profile.server, self.profile.token)

    @property
    def project(self) -> str:
        """The project of this call: option, environment, default, or the only one there is."""
        if self.profile.project:
            return self.profile.project
        mine = [row["slug"] for row in self.client.pages("projects")]
        if len(mine) == 1:
            self.profile.project = str(mine[0])  # once: who waits asks at each look
            return self.profile.project
        if not mine:
            raise ApiError("You are not a member of any project yet.", EXIT_USAGE)
        raise ApiError(
            f"Which project? Say --project, or: berth project use NAME ({', '.join(mine)})",
            EXIT_USAGE,
        )

    def show(self, data: Any, columns: Sequence[Column] = ()) -> None:
        """Print ``data`` as it was asked for; a table has ``columns``."""
        emit(data, fmt=self.fmt, columns=columns)


def session(ctx: click.Context) -> Session:
    found: Any = ctx.find_object(Session)
    if found is None:  # a name is being completed: no command has run
        root = ctx.find_root()
        found = root.obj = Session(root.params.get("server"), root.params.get("project"), "table")
    return found


def general_options(command: Any) -> Any:
    """The same options before the command, where they are parameters."""
    for flags, name, kwargs in GENERAL:
        first: dict[str, Any] = {"default": "table"} if name == "fmt" else {}
        command = click.option(*flags, **first, **kwargs)(command)
    return command


def with_session(command: Any) -> Any:
    """Give a command its session, and options that may stand after it as well as before it."""

    @wraps(command)
    def run(**said: Any) -> Any:
        return command(session(click.get_current_context()), **said)

    def put(name: str) -> Any:
        def callback(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
            if value is not None:
                setattr(session(ctx), name, value)

        return callback

    found: Any = run
    for flags, name, kwargs in GENERAL:
        own = f"general_{name}"  # a field of the same word has a value of its own
        found = click.option(
            *flags, own, expose_value=False, callback=put(name), is_eager=True, **kwargs
        )(found)
    return found


def _projects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from berth_cli import completing

    return completing.projects(ctx, param, incomplete)


FORMATS = click.Choice(["table", "json", "yaml"])
GENERAL: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (("--output", "-o"), "fmt", {"type": FORMATS, "help": "How to print."}),
    (
        ("--project", "-p"),
        "project_option",
        {
            "metavar": "NAME",
            "help": "Project to act in (BERTH_PROJECT).",
            "shell_complete": _projects,
        },
    ),
    (("--server",), "server_option", {"metavar": "URL", "help": "Portal to talk to (BERTH_URL)."}),
)
