"""Loads: copy a bucket into a volume or back, and watch it; the same object as in the page."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_TIMEOUT, EXIT_USAGE, ApiError
from berth_cli.context import Session, options, session
from berth_cli.documents import Kind, Waiting, emit_plan, register
from berth_cli.following import patiently
from berth_cli.logs import show as show_log
from berth_cli.naming import confirm, given, one_of, telling_credentials_apart, why
from berth_cli.output import age, emit, printable, size
from berth_cli.volumes import Size

_RESTS = frozenset({"paused", "cancelled", "stopped"})
_SETTLED = {"done", "partial", "failed", *_RESTS}
_NOWHERE: frozenset[str] = frozenset()
_STORES = ("s3", "s3-compatible", "gcs", "hdfs")  # kinds of credentials that a load can use
_EVERY_S = 0.5
_BAR = 24


def _done(row: dict[str, Any]) -> str:
    percent = row["status"]["percent"]
    return "" if percent is None else f"{percent} %"


def _target(row: dict[str, Any]) -> str:
    spec = row["spec"]
    place = "/".join(part for part in (spec["volume_name"], spec["folder"]) if part)
    ends = (spec["url"], place) if spec["direction"] == "in" else (place, spec["url"])
    return f"{ends[0]} -> {ends[1]}"


_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("STATE", lambda r: r["status"]["state"]),
    ("DONE", _done),
    ("SIZE", lambda r: size(r["status"]["bytes"]["found"] or None)),
    ("AGE", lambda r: age(r["created_at"])),
    ("FROM AND TO", _target),
    ("OWNER", lambda r: r["owner"]),
    ("MESSAGE", lambda r: r["status"]["message"]),
)


@click.group()
def loads() -> None:
    """Copy data between object stores and volumes, without a GPU."""


def _base(s: Session) -> str:
    return f"projects/{s.project}/loads"


def _find(s: Session, name: str) -> dict[str, Any]:
    """Return one load by id or by name."""
    return one_of(s, _base(s), name, "load")


def line_of(row: dict[str, Any]) -> str:
    """Return how far it is in one line."""
    status = row["status"]
    files, copied = status["files"], status["bytes"]
    percent = status["percent"]
    full = int(_BAR * (percent or 0) / 100)
    bar = "#" * full + "." * (_BAR - full)
    parts = [f"{status['state']:<9}", f"[{bar}]" if percent is not None else "[listing]"]
    if percent is not None:
        parts.append(f"{percent:3d} %")
    there = files["done"] + files["unchanged"]
    parts.append(f"{there}/{files['found']} files, {size(copied['done'])}/{size(copied['found'])}")
    if status["rate_bytes_s"]:
        parts.append(f"{size(status['rate_bytes_s'])}/s")
    if status["eta_s"] is not None and status["state"] not in _SETTLED:
        parts.append(f"{status['eta_s']} s left")
    if files["failed"] or files["skipped"]:
        parts.append(f"{files['failed'] + files['skipped']} left out")
    return "  ".join(parts)


def watch(s: Session, row: dict[str, Any], *, timeout: float) -> dict[str, Any]:
    """Follow a load until it stands still; one line that is written over on a terminal."""
    deadline = time.monotonic() + timeout
    live, last = sys.stderr.isatty(), ""
    while True:
        state, message = row["status"]["state"], row["status"]["message"]
        line = f"{state}: {message}" if state in {"waiting", "queued"} else line_of(row)
        if line != last:
            shown = printable(line)
            click.echo(f"\r\x1b[K{shown}" if live else shown, err=True, nl=not live)
            last = line
        if state in _SETTLED:
            break
        if time.monotonic() > deadline:
            raise ApiError(f"Still {state} after {timeout:.0f} s; it goes on.", EXIT_TIMEOUT)
        time.sleep(_EVERY_S)
        row = patiently(partial(s.client.get, f"{_base(s)}/{row['id']}"), deadline=deadline)
    if live:
        click.echo(err=True)
    return row


def settle(
    s: Session, row: dict[str, Any], *, wait: bool, timeout: float, rests: frozenset[str] = _RESTS
) -> None:
    """Print it, after it stands still where that was asked.

    Partial and failed are errors; ``rests``: where else it may end besides done.
    """
    if wait:
        row = watch(s, row, timeout=timeout)
    emit(row, fmt=s.fmt, columns=_COLUMNS)
    state = row["status"]["state"]
    if not wait or state == "done" or state in rests:
        return
    cut = state in _RESTS  # by somebody, meanwhile
    if not cut:
        _tell_errors(s, row)
    message = "" if s.fmt == "table" else row["status"]["message"]  # the table has it
    why = " ".join(filter(None, (message, row["status"]["advice"])))
    said = ": ".join(filter(None, (f"{row['name']} is {state}", why)))
    raise ApiError(said, EXIT_CONFLICT if cut else EXIT_ERROR)


def _tell_errors(s: Session, row: dict[str, Any]) -> None:
    for error in s.client.get(f"{_base(s)}/{row['id']}/errors"):
        said = f"  {error['code']}: {error['key']}  {error['message']}"
        click.echo(printable(said.rstrip()), err=True)


def _applied(s: Session, row: dict[str, Any], wanted: Waiting) -> None:
    settle(s, row, wait=wanted.wait, timeout=wanted.timeout)


register("Load", Kind("loads", _applied))


def _waiting(command: Any) -> Any:
    command = click.option("--wait", is_flag=True, help="Follow it until it is over.")(command)
    return click.option(
        "--timeout", type=float, default=86400.0, show_default=True, help="Seconds to wait at most."
    )(command)


def _described(command: Any) -> Any:
    """Add the options that describe a load."""
    for option in reversed(_DESCRIPTION):
        command = option(command)
    return command


_DESCRIPTION = (
    click.option("--name", help="Made from the path if not given."),
    click.option("--credential", help="Name or id; without one the bucket must be public."),
    click.option(
        "--volume", help="Name or id; the project's own if not given; cache:[POOL] keeps a cache."
    ),
    click.option(
        "--cache-size", "cache_size_mib", type=Size(), help="Of a cache that is not there yet."
    ),
    click.option("--folder", help="Folder in the volume."),
    click.option("--export", is_flag=True, help="From the volume to the bucket."),
    click.option(
        "--mode",
        type=click.Choice(["copy", "sync"]),
        help="copy: add; sync: make the target the same.",
    ),
    click.option("--delete-extra", is_flag=True, help="With sync: delete what is not there."),
    click.option(
        "--include", multiple=True, metavar="PATTERN", help="Only what fits, like *.parquet."
    ),
    click.option("--exclude", multiple=True, metavar="PATTERN", help="Not what fits."),
    click.option("--object", "objects", multiple=True, metavar="KEY", help="These and no others."),
    click.option(
        "--objects-from", type=click.Path(exists=True, dir_okay=False), help="One key a line."
    ),
    click.option("--bandwidth", type=int, metavar="BYTES", help="At most so many a second."),
    click.option("--version", "version", help="A word of yours for this state of the source."),
    click.option("--schedule", help="Five fields: minute hour day month weekday."),
    click.option("--time-zone", help="Of the schedule, like Europe/Berlin."),
    click.option("--endpoint", help="Address of a public S3-compatible store."),
    click.option("--region", help="Of a public bucket."),
    click.option("--path-style", is_flag=True, help="Of a public S3-compatible store."),
)


def _body(url: str, said: dict[str, Any]) -> dict[str, Any]:
    objects = list(said.pop("objects"))
    if file := said.pop("objects_from"):
        objects += [line for line in _text(Path(file)).splitlines() if line]
    body: dict[str, Any] = {
        "url": url,
        "direction": "out" if said.pop("export") else None,
        "bandwidth_bytes_s": said.pop("bandwidth"),
        "objects": objects or None,
        "include": list(said.pop("include")) or None,
        "exclude": list(said.pop("exclude")) or None,
        "delete_extra": said.pop("delete_extra") or None,
        "path_style": said.pop("path_style") or None,
        **said,
    }
    return {key: value for key, value in body.items() if value is not None}


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except UnicodeDecodeError as error:
        raise ApiError(f"{file} is not text.", EXIT_USAGE) from error


@loads.command("create")
@click.argument("url")
@_described
@click.option("--dry-run", is_flag=True, help="Count first; nothing is copied.")
@click.option("--no-start", is_flag=True, help="Only make it.")
@_waiting
@options
@click.pass_context
def create(
    ctx: click.Context,
    url: str,
    *,
    dry_run: bool,
    no_start: bool,
    wait: bool,
    timeout: float,
    **said: Any,
) -> None:
    """Load URL (s3://bucket/folder, gs://bucket/folder or hdfs:///folder) into a volume."""
    s = session(ctx)
    body = _body(url, said)
    if dry_run or no_start:
        body["start"] = "dry-run" if dry_run else "no"
    wait = wait and not no_start
    settle(s, _post(s, body), wait=wait, timeout=timeout, rests=_NOWHERE)


def _post(s: Session, body: dict[str, Any], **query: Any) -> dict[str, Any]:
    with telling_credentials_apart(s, [body.get("credential", "")], _STORES):
        return dict(s.client.post(_base(s), body, **query))


@loads.command("plan")
@click.argument("url")
@_described
@options
@click.pass_context
def plan(ctx: click.Context, url: str, **said: Any) -> None:
    """Say what a load of URL would do; make nothing."""
    s = session(ctx)
    answer = _post(s, _body(url, said), plan=1)
    if s.fmt == "table":
        for warning in answer["warnings"]:
            click.echo(f"Note: {printable(warning)}")
    emit_plan(s, answer)


@loads.command("list")
@click.option("--all", "everyone", is_flag=True, help="Also those of others in the project.")
@click.option("--state", help="running, waiting, done, partial, failed, paused, cancelled …")
@options
@click.pass_context
def list_(ctx: click.Context, *, everyone: bool, state: str | None) -> None:
    """List loads of the project."""
    s = session(ctx)
    rows = list(s.client.pages(_base(s), mine=None if everyone else 1, state=state))
    emit(rows, fmt=s.fmt, columns=_COLUMNS)


@loads.command("show")
@click.argument("name", shell_complete=completing.loads)
@options
@click.pass_context
def show(ctx: click.Context, name: str) -> None:
    """Show one load, and what it could not copy."""
    s = session(ctx)
    row = _find(s, name)
    emit(row, fmt=s.fmt, columns=_COLUMNS)
    if s.fmt == "table":
        click.echo(printable(line_of(row)))
        _tell_errors(s, row)


@loads.command("watch")
@click.argument("name", shell_complete=completing.loads)
@click.option(
    "--timeout", type=float, default=86400.0, show_default=True, help="Seconds to wait at most."
)
@options
@click.pass_context
def watch_(ctx: click.Context, name: str, *, timeout: float) -> None:
    """Follow a load until it is over: a bar, files, bytes, rate and what is left."""
    s = session(ctx)
    settle(s, _find(s, name), wait=True, timeout=timeout, rests=_NOWHERE)


@loads.command("logs")
@click.argument("name", shell_complete=completing.loads)
@click.option("--run", type=click.IntRange(1), help="Which run; the latest if not given.")
@click.option("--follow", "-f", is_flag=True, help="Go on as lines come, until the run is over.")
@options
@click.pass_context
def logs(ctx: click.Context, name: str, *, run: int | None, follow: bool) -> None:
    """Print what a run of a load wrote."""
    s = session(ctx)
    path = f"{_base(s)}/{_find(s, name)['id']}/logs"
    show_log(s, path, follow=follow, is_over=lambda part: part["over"], run=run)


def _verb(word: str, text: str, *, path: str = "") -> click.Command:
    ends = word in {"pause", "cancel"}

    @click.argument("name", shell_complete=completing.loads)
    @_waiting
    @options
    @click.pass_context
    def run(ctx: click.Context, name: str, *, wait: bool, timeout: float, reason: str = "") -> None:
        s = session(ctx)
        row = _find(s, name)
        answer = s.client.post(f"{_base(s)}/{row['id']}/{path or word}", given(reason))
        rests = _RESTS if ends else _NOWHERE
        settle(s, answer, wait=wait, timeout=timeout, rests=rests)

    return loads.command(word, help=text)(why(run) if ends else run)


_verb("start", "Run it again; what is there already is not copied again.")
_verb("pause", "Stop it where it is.")
_verb("resume", "Go on with what was paused or cut off.")
_verb("cancel", "End it; what is copied stays.")
_verb("retry", "Try again what failed, and nothing else.")
_verb("verify", "Compare what was copied with its manifest.")
_verb("dry-run", "Count what it would copy.")


@loads.command("delete")
@click.argument("name", shell_complete=completing.loads)
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@why
@options
@click.pass_context
def delete(ctx: click.Context, name: str, *, yes: bool, reason: str) -> None:
    """Delete a load. The data it copied stays."""
    s = session(ctx)
    row = _find(s, name)
    confirm(f"This deletes the load {row['name']}.", row["name"], yes=yes, outcome="deleted")
    s.client.call("DELETE", f"{_base(s)}/{row['id']}", params=given(reason))
    click.echo(f"{row['name']} is being deleted; its data stays.", err=True)
