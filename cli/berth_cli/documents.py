"""Things as YAML: ``berth apply`` reads a file and hands each document to its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import click
from click.core import ParameterSource

from berth_cli.client import EXIT_CONFLICT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.output import Column, printable


@dataclass(frozen=True)
class Waiting:
    """Whether to wait until it is done, and how long."""

    wait: bool = False
    timeout: float = 300.0


@dataclass(frozen=True)
class Kind:
    """Where documents of a kind go below a project, and how the answer is printed."""

    path: str
    settle: Callable[[Session, dict[str, Any], Waiting], None]


KINDS: dict[str, Kind] = {}
REFUSED: dict[str, str] = {}  # kinds that have no place in a file, and what to do instead
_BESIDE_A_FILE = {"file", "plan", "wait", "timeout"}
USUAL = "Workspace"  # the portal says what is wrong with a kind that nobody knows


def register(name: str, kind: Kind) -> None:
    KINDS[name] = kind


def timeout_option(within: float) -> Any:
    return click.option(
        "--timeout", type=float, default=within, show_default=True, help="Seconds to wait at most."
    )


def waiting(command: Any, *, within: float = 300.0, text: str = "Wait until it is done.") -> Any:
    """Add the options of waiting to a command; it takes what they say as ``wanted``."""

    @wraps(command)
    def run(*, wait: bool, timeout: float, **said: Any) -> Any:
        return command(wanted=Waiting(wait, timeout), **said)

    return timeout_option(within)(click.option("--wait", is_flag=True, help=text)(run))


def emit_plan(s: Session, plan: dict[str, Any]) -> None:
    """Print what an apply would do."""
    if s.fmt != "table":
        s.show(plan)
    else:
        click.echo(f"Would {plan['action']}: {plan['name']}")
        for change in plan.get("changes", []):
            before, after = _value(change.get("from")), _value(change["to"])
            if before != after:  # nothing stays nothing, in whatever words
                shown = f"{before} -> {after or '-'}" if before else after
                click.echo(f"  {change['field']}: {shown}")
        for line in plan.get("sentences", []):
            click.echo(f"  {printable(line)}")
    if not plan.get("allowed", True):
        raise ApiError("This would be refused.", EXIT_CONFLICT)


def patch(
    s: Session, path: str, body: dict[str, Any], columns: Sequence[Column], *, plan: bool
) -> None:
    """Change the thing at ``path`` and print it, or only say what that would do."""
    answer = s.client.call("PATCH", path, json_body=body, params={"plan": 1} if plan else None)
    if plan:
        emit_plan(s, answer)
    else:
        s.show(answer, columns)


def _value(value: Any) -> str:
    """A value of a plan as people write it; "" for nothing."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return printable(str(value) if isinstance(value, str | int | float) else json.dumps(value))


_file: Any = partial(
    click.option,
    *("--file", "-f", "file"),
    type=click.Path(),
    help="A manifest; - for standard input.",
)
file_option = _file()
plan_option = click.option("--plan", is_flag=True, help="Only say what would happen.")


@click.command()
@_file(required=True)
@plan_option
@waiting
@with_session
def apply(s: Session, file: str, *, plan: bool, wanted: Waiting) -> None:
    """Make things as a YAML file says: create what is missing, change what differs."""
    apply_file(s, file, plan=plan, wanted=wanted)


def apply_alone(s: Session, file: str, *, plan: bool, wanted: Waiting) -> None:
    """Apply a file, and refuse what stands beside it and describes the thing too."""
    ctx = click.get_current_context()
    given = [
        param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        for param in ctx.command.params
        if param.expose_value
        and param.name not in _BESIDE_A_FILE
        and ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        said = f"The file says what to make. Say it there, or leave out --file: {', '.join(given)}"
        raise ApiError(said, EXIT_USAGE)
    apply_file(s, file, plan=plan, wanted=wanted)


def apply_file(s: Session, file: str, *, plan: bool, wanted: Waiting) -> None:
    # Only here: these read YAML, and register what a document can be.
    from berth_cli import (  # noqa: F401
        batches,
        credentials,
        endpoints,
        experiments,
        jobs,
        loads,
        volumes,
        workspaces,
    )
    from berth_cli.manifests import documents_of

    own = (s.project_option, s.profile.project)
    for number, document in enumerate(documents_of(file)):
        if number and s.fmt == "yaml":
            click.echo("---")
        s.project_option, s.profile.project = own  # of the document before only
        if instead := REFUSED.get(str(document.get("kind"))):
            raise ApiError(instead, EXIT_USAGE)
        kind = KINDS.get(str(document.get("kind")), KINDS[USUAL])
        metadata = document.get("metadata")  # anything: the portal says what is wrong with it
        named = metadata.get("project") if isinstance(metadata, dict) else None
        target = str(named or s.project)
        path = f"projects/{target}/{kind.path}/apply"
        if plan:
            emit_plan(s, s.client.post(path, document, plan=1))
        else:
            s.project_option = target
            s.profile.project = target
            kind.settle(s, s.client.post(path, document), wanted)
