"""Loads: copy a bucket into a volume or back, and watch it; the same object as in the page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, emit_plan, register, timeout_option
from berth_cli.fields import field_body, field_options
from berth_cli.output import age, printable, size
from berth_cli.volumes import Size
from berth_cli.work import DAY_S, GONE, Row, Work

_RESTS = frozenset({"paused", "cancelled", "stopped"})
_SETTLED = frozenset({"done", "partial", "failed", *_RESTS})
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


class _Loads(Work):
    word = "load"
    ends = "loads cancel"
    columns = _COLUMNS
    one = _COLUMNS
    complete = staticmethod(completing.loads)
    settled = _SETTLED
    group = loads
    wait_help = "Follow it until it is over."
    wait_s = DAY_S
    in_place = True
    stores = ("s3", "s3-compatible", "gcs", "hdfs", "mlflow")

    def line(self, row: Row) -> str:
        waits = self.state(row) in {"waiting", "queued"}
        return super().line(row) if waits else line_of(row)

    def end(self, s: Session, row: Row, *, ended: bool) -> None:
        """Partial and failed are errors; so is one that somebody cut short meanwhile."""
        state = self.state(row)
        if state == "done" or (ended and state in _RESTS):
            return
        cut = state in {*_RESTS, GONE}
        if not cut:
            self.show_errors(s, row)
        message = "" if s.fmt == "table" else row["status"]["message"]  # the table has it
        why = " ".join(filter(None, (message, row["status"]["advice"])))
        said = ": ".join(filter(None, (f"{row['name']} is {state}", why)))
        raise ApiError(said, EXIT_CONFLICT if cut else EXIT_ERROR)

    def show_more(self, s: Session, row: Row) -> None:
        click.echo(printable(line_of(row)))
        self.show_errors(s, row)

    def show_errors(self, s: Session, row: Row) -> None:
        for error in s.client.get(f"{self.path(s, row)}/errors"):
            said = f"  {error['code']}: {error['key']}  {error['message']}"
            click.echo(printable(said.rstrip()), err=True)

    def describes(self, *, edits: bool = False) -> Any:
        own = (_BANDWIDTH,) if edits else (_BANDWIDTH, *_CHOSEN_ONCE)

        def add(command: Any) -> Any:
            for option in reversed(own):
                command = option(command)
            return field_options(self.word, but=_TAKEN_OTHERWISE, edits=edits)(command)

        return add

    def body(self, said: Row) -> Row:
        objects = list(said.get("objects") or ())
        if file := said.get("objects_from"):
            try:
                objects += [line for line in Path(file).read_text().splitlines() if line]
            except UnicodeDecodeError as error:
                raise ApiError(f"{file} is not text.", EXIT_USAGE) from error
        body = field_body(self.word, {**said, "objects": objects or None})
        return {**body, "direction": "out"} if said.get("export") else body


LOAD = _Loads()
# what a file makes may be meant to rest
register("Load", Kind("loads", partial(LOAD.settle, ended=True)))


# as an argument, in bytes, or with more than one way to say it
_TAKEN_OTHERWISE = ("url", "bandwidth_bytes_s", "cache_size_mib")
_BANDWIDTH = click.option(
    "--bandwidth",
    "bandwidth_bytes_s",
    type=int,
    metavar="BYTES",
    help="At most so many a second.",
)
_CHOSEN_ONCE = (
    click.option(
        "--cache-size", "cache_size_mib", type=Size(), help="Of a cache that is not there yet."
    ),
    click.option("--export", is_flag=True, help="From the volume to the bucket."),
    click.option(
        "--objects-from", type=click.Path(exists=True, dir_okay=False), help="One key a line."
    ),
)


@loads.command("create")
@click.argument("url")
@LOAD.describes()
@click.option("--dry-run", is_flag=True, help="Count first; nothing is copied.")
@click.option("--no-start", is_flag=True, help="Only make it.")
@LOAD.waits
@with_session
def create(s: Session, *, dry_run: bool, no_start: bool, wanted: Waiting, **said: Any) -> None:
    """Load URL (s3://bucket/folder, hdfs:///folder and the like) into a volume."""
    body = LOAD.body(said)
    if dry_run or no_start:
        body["start"] = "dry-run" if dry_run else "no"
    LOAD.settle(s, LOAD.post(s, body), Waiting() if no_start else wanted)


@loads.command("plan")
@click.argument("url")
@LOAD.describes()
@with_session
def plan(s: Session, **said: Any) -> None:
    """Say what a load of URL would do; make nothing."""
    answer = LOAD.post(s, LOAD.body(said), plan=1)
    if s.fmt == "table":
        for warning in answer["warnings"]:
            click.echo(f"Note: {printable(warning)}")
    emit_plan(s, answer)


@loads.command("watch")
@click.argument("name", shell_complete=completing.loads)
@timeout_option(DAY_S)
@with_session
def watch(s: Session, name: str, *, timeout: float) -> None:
    """Follow a load until it is over: a bar, files, bytes, rate and what is left."""
    LOAD.settle(s, LOAD.find(s, name), Waiting(wait=True, timeout=timeout))


LOAD.add_list(states="running, waiting, done, partial, failed, paused, cancelled …")
LOAD.add_show("Show one load, and what it could not copy.")
LOAD.add_logs(
    "Print what a run of a load wrote.",
    click.option("--run", type=click.IntRange(1), help="Which run; the latest if not given."),
    follow="Go on as lines come, until the run is over.",
)
LOAD.add_act("start", "Run it again; what is there already is not copied again.")
LOAD.add_act("pause", "Stop it where it is.", ends=True)
LOAD.add_act("resume", "Go on with what was paused or cut off.")
LOAD.add_act("cancel", "End it; what is copied stays.", ends=True)
LOAD.add_act("retry", "Try again what failed, and nothing else.")
LOAD.add_act("verify", "Compare what was copied with its manifest.")
LOAD.add_act("dry-run", "Count what it would copy.")
LOAD.add_edit("Change a load: its name, its rules, its schedule.")
LOAD.add_delete("Delete a load. The data it copied stays.", left="its data stays")
