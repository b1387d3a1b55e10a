"""Batch jobs: run, follow, cancel, delete; the same object as in the page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_TIMEOUT, ApiError
from berth_cli.context import Session, options, session
from berth_cli.documents import (
    Kind,
    Waiting,
    apply_file,
    emit_plan,
    only_file,
    register,
)
from berth_cli.fields import field_body, field_options
from berth_cli.following import Told, patiently
from berth_cli.logs import show as show_log
from berth_cli.naming import confirm, given, one_of, telling_credentials_apart, why
from berth_cli.output import age, cpus, emit, mib, moment

_OVER = frozenset({"succeeded", "failed", "cancelled"})
_DAY_S = 86400.0
_EVERY_S = 0.5
_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("OWNER", lambda r: r["owner"]),
    ("STATE", lambda r: r["status"]["state"]),
    ("EXIT", lambda r: r["exit_code"]),
    ("REPLICAS", lambda r: r["spec"]["replicas"]),
    ("GPUS", lambda r: r["spec"]["gpus"]),
    ("SIZE", lambda r: f"{cpus(r['spec']['cpu_milli'])} CPU, {mib(r['spec']['memory_mib'])}"),
    ("AGE", lambda r: age(r["created_at"])),
    ("REASON", lambda r: r["status"]["message"]),
)
_ONE: Any = (
    *_COLUMNS,
    ("CLUSTER", lambda r: r["spec"]["cluster"]),
    ("IMAGE", lambda r: r["spec"]["image"] or r["spec"]["environment"]),
    ("STARTED", lambda r: moment(r["started_at"])),
    ("FINISHED", lambda r: moment(r["finished_at"])),
    ("ENDS", lambda r: moment(r["ends_at"])),
)
_REPLICAS: Any = (
    ("REPLICA", lambda r: r["index"]),
    ("STATE", lambda r: r["state"]),
    ("EXIT", lambda r: r["exit_code"]),
    ("NODE", lambda r: r["node"]),
    ("REASON", lambda r: r["reason"]),
)
_replica = click.option(
    "--replica", type=click.IntRange(0), default=0, show_default=True, help="Whose log."
)


@click.group()
def job() -> None:
    """Batch jobs: a program on one or several replicas that runs to its end."""


def _base(s: Session) -> str:
    return f"projects/{s.project}/jobs"


def _find(s: Session, name: str) -> dict[str, Any]:
    return one_of(s, _base(s), name, "job")


def _waiting(command: Any) -> Any:
    command = click.option(
        "--wait", is_flag=True, help="Follow its state; end with its own exit code."
    )(command)
    return click.option(
        "--timeout", type=float, default=_DAY_S, show_default=True, help="Seconds to wait at most."
    )(command)


@job.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@field_options("job", but=("command",))
@click.option("--file", "-f", "file", type=click.Path(), help="A manifest; - for standard input.")
@click.option("--plan", is_flag=True, help="Only say what would happen.")
@_waiting
@click.option("--follow", is_flag=True, help="As --wait, and print its log as lines come.")
@options
@click.pass_context
def run(
    ctx: click.Context,
    command: tuple[str, ...],
    *,
    file: str | None,
    plan: bool,
    wait: bool,
    follow: bool,
    timeout: float,
    **said: Any,
) -> None:
    """Run COMMAND to its end: berth job run --gpus 1 -- python train.py --epochs 3

    Without one the image's own program runs. Nothing of it is expanded, here or there.
    """
    s = session(ctx)
    if file:
        only_file(ctx)
        apply_file(s, file, plan=plan, wanted=Waiting(wait or follow, timeout))
        return
    body = field_body("job", said)
    if command:
        body["command"] = list(command)
    with telling_credentials_apart(s, said["credentials"]):
        answer = s.client.post(_base(s), body, **({"plan": 1} if plan else {}))
    if plan:
        emit_plan(s, answer)
    elif follow:
        _print_log(s, answer, timeout=timeout)
    else:
        _settle(s, answer, wait=wait, timeout=timeout)


def _settle(s: Session, row: dict[str, Any], *, wait: bool, timeout: float) -> None:
    """Print it, after it has ended where that was asked; then its own end is the command's."""
    if wait:
        with _going_on(row):
            row = _follow(s, row, timeout=timeout)
    emit(row, fmt=s.fmt, columns=_ONE)
    if wait:
        _end_as(row)


@contextmanager
def _going_on(row: dict[str, Any]) -> Iterator[None]:
    """Say that a job does not end with the command that follows it."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\n{row['name']} goes on. To end it: berth job cancel {row['id']}", err=True)
        raise


def _follow(
    s: Session, row: dict[str, Any], *, timeout: float, until: frozenset[str] = _OVER
) -> dict[str, Any]:
    """Tell each change of its state until it is one of ``until``."""
    deadline = time.monotonic() + timeout
    with Told() as told:
        while True:
            status = row["status"]
            state = status["state"]
            line = ": ".join(filter(None, (state, "" if state in _OVER else status["message"])))
            told.tell(line, counts_since=(status["pull"] or {}).get("since"))
            if state in until or row["desired"] == "absent":
                return row
            _require_time(row, deadline, timeout)
            time.sleep(_EVERY_S)
            row = patiently(partial(s.client.get, f"{_base(s)}/{row['id']}"), deadline=deadline)


def _require_time(row: dict[str, Any], deadline: float, timeout: float) -> None:
    if time.monotonic() > deadline:
        status = row["status"]
        said = f"Still {status['state']} after {timeout:.0f} s; it goes on. {status['message']}"
        raise ApiError(said.rstrip(), EXIT_TIMEOUT)


def _print_log(s: Session, row: dict[str, Any], *, timeout: float) -> None:
    """Print the log of its first replica until all has ended; of what never began there is none."""
    began, deadline = _OVER | {"running", "cancelling"}, time.monotonic() + timeout

    def is_over(part: dict[str, Any]) -> bool:
        if not part["over"]:
            _require_time(row, deadline, timeout)
        return bool(part["over"])

    with _going_on(row):
        row = _follow(s, row, timeout=timeout, until=began)
        if row["started_at"]:
            show_log(s, f"{_base(s)}/{row['id']}/logs", follow=True, is_over=is_over)
        row = _follow(s, row, timeout=deadline - time.monotonic())
    if s.fmt != "table":
        emit(row, fmt=s.fmt)
    _end_as(row)


def _end_as(row: dict[str, Any]) -> None:
    """End the command as the job's program ended; a job that had none as any error."""
    state, status = row["status"]["state"], row["status"]
    if state == "succeeded":
        return
    why = " ".join(filter(None, (status["message"], status["advice"])))
    how = "failed" if state == "failed" else f"is {state}"
    said = ": ".join(filter(None, (f"{row['name']} {how}", why)))
    otherwise = EXIT_ERROR if state == "failed" else EXIT_CONFLICT
    raise ApiError(said, row["exit_code"] if state == "failed" and row["exit_code"] else otherwise)


def _applied(s: Session, row: dict[str, Any], wanted: Waiting) -> None:
    _settle(s, row, wait=wanted.wait, timeout=wanted.timeout)


register("Job", Kind("jobs", _applied))


@job.command("list")
@click.option("--all", "everyone", is_flag=True, help="Also those of others in the project.")
@click.option("--state", help="queued, running, succeeded, failed or cancelled.")
@options
@click.pass_context
def list_(ctx: click.Context, *, everyone: bool, state: str | None) -> None:
    """List jobs of the project."""
    s = session(ctx)
    rows = list(s.client.pages(_base(s), mine=None if everyone else 1, state=state))
    emit(rows, fmt=s.fmt, columns=_COLUMNS)


@job.command("show")
@click.argument("name", shell_complete=completing.jobs)
@options
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show one job and how each of its replicas ended."""
    s = session(ctx)
    row = _find(s, name)
    emit(row, fmt=s.fmt, columns=_ONE)
    if s.fmt == "table" and row["replicas"]:
        click.echo()
        emit(row["replicas"], fmt=s.fmt, columns=_REPLICAS)


@job.command("logs")
@click.argument("name", shell_complete=completing.jobs)
@_replica
@click.option("--follow", "-f", is_flag=True, help="Go on as lines come, until it has ended.")
@options
@click.pass_context
def logs(ctx: click.Context, name: str, *, replica: int, follow: bool) -> None:
    """Print what a replica of a job wrote."""
    s = session(ctx)
    path = f"{_base(s)}/{_find(s, name)['id']}/logs"
    show_log(s, path, follow=follow, is_over=lambda part: part["over"], replica=replica)


@job.command("start")
@click.argument("name", shell_complete=completing.jobs)
@_waiting
@options
@click.pass_context
def start(ctx: click.Context, name: str, *, wait: bool, timeout: float) -> None:
    """Run one that has ended again, as it is set."""
    s = session(ctx)
    answer = s.client.post(f"{_base(s)}/{_find(s, name)['id']}/start")
    _settle(s, answer, wait=wait, timeout=timeout)


@job.command("cancel")
@click.argument("name", shell_complete=completing.jobs)
@why
@click.option("--wait", is_flag=True, help="Until it has ended.")
@click.option(
    "--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait at most."
)
@options
@click.pass_context
def cancel(ctx: click.Context, name: str, *, reason: str, wait: bool, timeout: float) -> None:
    """End it; what it wrote to volumes stays."""
    s = session(ctx)
    row = s.client.post(f"{_base(s)}/{_find(s, name)['id']}/cancel", given(reason))
    if wait:
        row = _follow(s, row, timeout=timeout)
    emit(row, fmt=s.fmt, columns=_ONE)


@job.command("delete")
@click.argument("name", shell_complete=completing.jobs)
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@why
@options
@click.pass_context
def delete(ctx: click.Context, name: str, *, yes: bool, reason: str) -> None:
    """Delete a job and its log. What it wrote to volumes stays."""
    s = session(ctx)
    row = _find(s, name)
    confirm(f"This deletes the job {row['name']}.", row["name"], yes=yes, outcome="deleted")
    s.client.call("DELETE", f"{_base(s)}/{row['id']}", params=given(reason))
    click.echo(f"{row['name']} is being deleted; what it wrote to volumes stays.", err=True)
