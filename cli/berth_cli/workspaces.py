"""Workspaces: launch, look, open, stop, resume, delete; the same object as in the page."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import (
    EXIT_CONFLICT,
    EXIT_ERROR,
    EXIT_NOT_FOUND,
    EXIT_TIMEOUT,
    ApiError,
)
from berth_cli.context import Session, options, session
from berth_cli.documents import (
    Kind,
    Waiting,
    apply_file,
    emit_plan,
    only_file,
    register,
    waiting,
)
from berth_cli.following import Told, patiently
from berth_cli.lazy import LazyGroup
from berth_cli.logs import show as show_log
from berth_cli.naming import confirm, given, one_of, telling_credentials_apart, why
from berth_cli.output import age, cpus, emit, mib, moment
from berth_cli.program import Memory, program_body, program_options

_ON_ITS_WAY = {"stopped": "stopping", "absent": "deleting", "running": "starting"}


def state_of(row: dict[str, Any]) -> str:
    """Return how it is; of what was just asked for and is not seen yet, what is on its way."""
    phase, wish = str(row["status"]["phase"]), row["desired"]
    asked = row["status"]["observed_generation"] < row["generation"]
    stands = phase in _SETTLED or wish != "running"  # what waits to start says for what
    return _ON_ITS_WAY.get(wish, phase) if asked and stands and phase != wish else phase


_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("OWNER", lambda r: r["owner"]),
    ("STATE", state_of),
    ("REASON", lambda r: r["status"].get("message") or r["status"].get("reason")),
    ("GPUS", lambda r: r["spec"].get("gpus")),
    ("SIZE", lambda r: f"{cpus(r['spec']['cpu_milli'])} CPU, {mib(r['spec']['memory_mib'])}"),
    ("AGE", lambda r: age(r["created_at"])),
    ("ENDS", lambda r: moment(r.get("ends_at"))),
)
_ONE: Any = (
    *_COLUMNS,
    ("CLUSTER", lambda r: r["spec"]["cluster"]),
    ("NODE", lambda r: r["status"].get("node")),
    ("IMAGE", lambda r: r["spec"]["image"] or r["spec"]["environment"]),
    ("PINNED", lambda r: _pinned(r["spec"])),
    ("ADDRESS", lambda r: r["status"].get("url")),
    ("PORTS", lambda r: [f"{p['name']} {p['url']}" for p in r["status"]["ports"]]),
)
_ANY = "any"  # kind of GPU
_SETTLED = {"running", "stopped", "failed", "deleted"}


def _pinned(spec: dict[str, Any]) -> str:
    """Return which bytes its starts take, and since when."""
    words = (spec["image_digest"], moment(spec["image_pinned_at"]))
    return " since ".join(filter(None, words))


@click.group(
    cls=LazyGroup,
    elsewhere={
        "exec": "inside:exec_",
        **{name: f"inside:{name}" for name in ("files", "ssh", "terminal")},
    },
)
def workspace() -> None:
    """Workspaces: JupyterLab on the resources you ask for."""


def _base(s: Session) -> str:
    return f"projects/{s.project}/workspaces"


def find(s: Session, name: str) -> dict[str, Any]:
    """Return one workspace by id or by name."""
    return one_of(s, _base(s), name, "workspace")


def _wait(s: Session, row: dict[str, Any], *, timeout: float) -> dict[str, Any]:
    """Follow the state until it settles; print each change; a failure is an error."""
    with Told() as told:
        row = _follow(s, row, told, timeout=timeout)
    if row["status"]["phase"] == "failed":
        why = _why(row["status"], advised=True)
        raise ApiError(": ".join(filter(None, (f"{row['name']} failed", why))), EXIT_ERROR)
    return row


def _why(status: dict[str, Any], *, advised: bool) -> str:
    """Return what the portal says of the state and, where it is ``advised``, what can be done."""
    said = (status.get("message"), status.get("advice") if advised else "")
    return " ".join(filter(None, said))


def _follow(s: Session, row: dict[str, Any], told: Told, *, timeout: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout
    while True:
        status = row["status"]
        # of what is over, the last word of the command advises
        why = _why(status, advised=status["phase"] not in _SETTLED)
        line = state_of(row) + (f": {why}" if why and status["phase"] != "failed" else "")
        told.tell(line, counts_since=(status.get("pull") or {}).get("since"))
        fresh = status["observed_generation"] >= row["generation"]
        if fresh and status["phase"] in _SETTLED:
            return row
        if time.monotonic() > deadline:
            said = f"Still {status['phase']} after {timeout:.0f} s; it goes on. {why}"
            raise ApiError(said.rstrip(), EXIT_TIMEOUT)
        time.sleep(0.3)
        try:
            row = patiently(partial(s.client.get, f"{_base(s)}/{row['id']}"), deadline=deadline)
        except ApiError as error:
            if error.status == 404 and row["desired"] == "absent":  # noqa: PLR2004 - HTTP
                return {**row, "status": {**status, "phase": "deleted"}}
            raise


def _settle(s: Session, row: dict[str, Any], *, wait: bool, timeout: float) -> None:
    if wait:
        row = _wait(s, row, timeout=timeout)
    emit(row, fmt=s.fmt, columns=_ONE)


@workspace.command("launch")
@click.argument("preset", required=False, shell_complete=completing.presets)
@click.option("--name", help="Made from the preset if not given.")
@click.option("--environment", metavar="NAME", help="Packages on one machine: which set of them.")
@click.option("--cpu", type=float, help="Cores.")
@click.option("--memory", type=Memory(), help="Memory, such as 16G or 512M; a plain number is MiB.")
@click.option("--gpus", type=int, help="How many GPUs.")
@click.option(
    "--gpu",
    "flavor",
    multiple=True,
    metavar="KIND",
    help="Kind of GPU, or any; several: the first that is free.",
)
@program_options
@click.option("--time-limit", type=int, metavar="MINUTES", help="When it ends by itself.")
@click.option(
    "--env",
    "env",
    multiple=True,
    metavar="NAME=VALUE",
    help="Variable of its environment. May be repeated.",
)
@click.option("--file", "-f", "file", type=click.Path(), help="A manifest; - for standard input.")
@click.option("--plan", is_flag=True, help="Only say what would happen.")
@waiting
@options
@click.pass_context
def launch(  # noqa: PLR0913, PLR0917 - one parameter per option is what click is
    ctx: click.Context,
    preset: str | None,
    name: str | None,
    environment: str | None,
    cpu: float | None,
    memory: int | None,
    gpus: int | None,
    flavor: tuple[str, ...],
    time_limit: int | None,
    env: tuple[str, ...],
    file: str | None,
    *,
    plan: bool,
    wait: bool,
    timeout: float,
    **program: Any,
) -> None:
    """Launch a workspace from a PRESET (the first one if none is named)."""
    s = session(ctx)
    if file:
        only_file(ctx)
        apply_file(s, file, plan=plan, wanted=Waiting(wait, timeout))
        return
    body: dict[str, Any] = {
        "preset": preset,
        "name": name,
        "environment": environment,
        "cpu_milli": None if cpu is None else round(cpu * 1000),
        "memory_mib": memory,
        "gpus": gpus,
        "gpu_flavor": ",".join(k for k in flavor if k != _ANY) if flavor else None,
        "time_limit_minutes": time_limit,
        **program_body(program),
    }
    body = {key: value for key, value in body.items() if value is not None}
    if env:
        body["env"] = dict(_pair(item) for item in env)
    with telling_credentials_apart(s, program["credentials"]):
        answer = s.client.post(_base(s), body, **({"plan": 1} if plan else {}))
    if plan:
        emit_plan(s, answer)
    else:
        _settle(s, answer, wait=wait, timeout=timeout)


def _pair(item: str) -> tuple[str, str]:
    name, found, value = item.partition("=")
    if not found or not name:
        raise click.BadParameter(f"{item!r} is not NAME=VALUE", param_hint="--env")
    return name, value


def _applied(s: Session, row: dict[str, Any], wanted: Waiting) -> None:
    _settle(s, row, wait=wanted.wait, timeout=wanted.timeout)


register("Workspace", Kind("workspaces", _applied))


@workspace.command("list")
@click.option("--all", "everyone", is_flag=True, help="Also those of others in the project.")
@options
@click.pass_context
def list_(ctx: click.Context, *, everyone: bool) -> None:
    """List workspaces of the project."""
    s = session(ctx)
    rows = list(s.client.pages(_base(s), mine=None if everyone else 1))
    emit(rows, fmt=s.fmt, columns=_COLUMNS)


@workspace.command("show")
@click.argument("name", shell_complete=completing.workspaces)
@options
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show one workspace."""
    s = session(ctx)
    _settle(s, find(s, name), wait=False, timeout=0)


@workspace.command("logs")
@click.argument("name", shell_complete=completing.workspaces)
@click.option("--follow", "-f", is_flag=True, help="Go on as lines come.")
@options
@click.pass_context
def logs(ctx: click.Context, name: str, *, follow: bool) -> None:
    """Print what a workspace wrote."""
    s = session(ctx)
    path = f"{_base(s)}/{find(s, name)['id']}"

    def is_over(_part: dict[str, Any]) -> bool:
        return s.client.get(path)["status"]["phase"] in _SETTLED - {"running"}

    show_log(s, f"{path}/logs", follow=follow, is_over=is_over)


@workspace.command("open")
@click.argument("name", shell_complete=completing.workspaces)
@click.option("--print", "only_print", is_flag=True, help="Print the address, open nothing.")
@options
@click.pass_context
def open_(ctx: click.Context, name: str, *, only_print: bool) -> None:
    """Open a running workspace in the browser."""
    s = session(ctx)
    url = _address(find(s, name))
    click.echo(url)
    if not only_print:
        import webbrowser

        webbrowser.open(url)


def _address(row: dict[str, Any]) -> str:
    """Return where its page is, or say why there is none for whoever asks."""
    name, phase = row["name"], row["status"]["phase"]
    if row["access"] == "none":
        raise ApiError(
            f"{name} is not yours: only {row['owner']}, and the people they let in, may open it.",
            EXIT_NOT_FOUND,
        )
    if phase != "running":
        raise ApiError(f"{name} is {phase}. Run: berth workspace resume {row['id']}", EXIT_CONFLICT)
    if not row["status"]["url"]:
        raise ApiError(
            f"{name} has no page. Use: berth workspace terminal {row['id']}", EXIT_CONFLICT
        )
    return str(row["status"]["url"])


def _act(
    ctx: click.Context, name: str, verb: str, *, wait: bool, timeout: float, body: Any = None
) -> None:
    s = session(ctx)
    row = find(s, name)
    _settle(s, s.client.post(f"{_base(s)}/{row['id']}/{verb}", body), wait=wait, timeout=timeout)


@workspace.command("stop")
@click.argument("name", shell_complete=completing.workspaces)
@why
@waiting
@options
@click.pass_context
def stop(ctx: click.Context, name: str, *, reason: str, wait: bool, timeout: float) -> None:
    """Stop: files, packages and address are kept, GPUs go back."""
    _act(ctx, name, "stop", wait=wait, timeout=timeout, body=given(reason))


@workspace.command("resume")
@click.argument("name", shell_complete=completing.workspaces)
@waiting
@options
@click.pass_context
def resume(ctx: click.Context, name: str, *, wait: bool, timeout: float) -> None:
    """Start a stopped workspace again."""
    _act(ctx, name, "start", wait=wait, timeout=timeout)


@workspace.command("repin")
@click.argument("name", shell_complete=completing.workspaces)
@waiting
@options
@click.pass_context
def repin(ctx: click.Context, name: str, *, wait: bool, timeout: float) -> None:
    """Take the newest image of its tag; what runs or failed starts with it."""
    _act(ctx, name, "repin", wait=wait, timeout=timeout)


@workspace.command("extend")
@click.argument("name", shell_complete=completing.workspaces)
@click.argument("minutes", type=click.IntRange(1))
@options
@click.pass_context
def extend(ctx: click.Context, name: str, minutes: int) -> None:
    """Move the end of a workspace by MINUTES."""
    s = session(ctx)
    row = find(s, name)
    answer = s.client.post(f"{_base(s)}/{row['id']}/extend", {"minutes": minutes})
    _settle(s, answer, wait=False, timeout=0)


@workspace.command("delete")
@click.argument("name", shell_complete=completing.workspaces)
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@why
@waiting
@options
@click.pass_context
def delete(
    ctx: click.Context, name: str, *, yes: bool, reason: str, wait: bool, timeout: float
) -> None:
    """Delete a workspace and its installed packages. The home folder stays."""
    s = session(ctx)
    row = find(s, name)
    confirm(f"This deletes {row['name']}.", row["name"], yes=yes, outcome="deleted")
    answer = s.client.call("DELETE", f"{_base(s)}/{row['id']}", params=given(reason))
    _settle(s, answer or {**row, "desired": "absent"}, wait=wait, timeout=timeout)
