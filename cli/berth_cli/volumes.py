"""Volumes: make, share, resize, delete, bring back, copy, hand over."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_ERROR, EXIT_TIMEOUT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import (
    Kind,
    Waiting,
    apply_alone,
    emit_plan,
    file_option,
    patch,
    plan_option,
    register,
    waiting,
)
from berth_cli.following import patiently
from berth_cli.lazy import LazyGroup
from berth_cli.naming import confirm, given, one_of, why, without_none, yes_option
from berth_cli.output import age, mib, moment, printable, size

_UNITS = {"": 1024, "m": 1, "g": 1024, "t": 1024**2}
_SIZE = re.compile(r"\A(\d+(?:\.\d+)?)\s*([mgt]?)(?:i?b)?\Z", re.IGNORECASE)


def used_words(count: int | None, *, at_least: bool = False) -> str:
    if count is None:
        return "unknown"
    return f"{'at least ' if at_least else ''}{size(count)}"


def state_of(row: dict[str, Any]) -> str:
    if row["desired"] == "absent":
        return "being deleted"
    if row.get("moving"):
        return "being handed over"
    if row.get("restoring"):
        return "being restored"
    said = str(row["phase"])
    return f"{said}: {row['message']}" if row.get("message") else said


COLUMNS: Any = (
    ("NAME", lambda r: r["name"]),
    ("KIND", lambda r: r["kind"]),
    ("WHOSE", lambda r: r.get("owner") or r.get("created_by")),
    ("SIZE", lambda r: mib(r["size_limit_mib"])),
    ("USED", lambda r: used_words(r["used_bytes"], at_least=r.get("used_at_least", False))),
    ("CLASS", lambda r: r["volume_class"]),
    ("CLUSTER", lambda r: r["cluster"]),
    ("MOUNTED", lambda r: r["mounted"]),
    ("AGE", lambda r: age(r["created_at"])),
    ("STATE", state_of),
)
ONE: Any = (
    *COLUMNS,
    ("ID", lambda r: r["id"]),
    ("DESCRIPTION", lambda r: r["description"]),
    ("CACHE OF", lambda r: r.get("cache_of")),
    ("NEAR", lambda r: r.get("near")),
    ("WHO WRITES", lambda r: r["write_policy"]),
    ("MOUNTED BY", lambda r: [f"{h['name']} ({h['who']})" for h in r.get("mounted_by", [])]),
    ("LAST USED", lambda r: moment(r["last_used_at"])),
    ("REMOVED AFTER", lambda r: moment(r["delete_after"])),
)


class Size(click.ParamType):
    """100GiB, 1.5T, 512M; a plain number is GiB. Binary units, whatever is written."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _SIZE.match(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a size such as 100GiB", param, ctx)
        return max(1, round(float(found[1]) * _UNITS[found[2].lower()]))


@click.group(
    cls=LazyGroup,
    elsewhere={
        **{name: f"files:{name}" for name in ("download", "extract", "files", "upload")},
        **{name: f"volume_parts:{name}" for name in ("snapshot", "transfer")},
    },
)
def volumes() -> None:
    """Volumes: places for data that workspaces share."""


_description = click.option("--description", help="What it is for.")
_writers = click.option(
    "--writers",
    "write_policy",
    type=click.Choice(["everybody", "managers"]),
    help="Who may change files; the others read.",
)


def base(s: Session) -> str:
    return f"projects/{s.project}/volumes"


def find(s: Session, name: str) -> dict[str, Any]:
    """Return one volume by id, or by name when only one has it (one being deleted counts last)."""
    return one_of(s, base(s), name, "volume")


def _settle(s: Session, row: dict[str, Any], wanted: Waiting) -> None:
    if wanted.wait:
        row = _wait(s, row, wanted.timeout)
    s.show(row, ONE)


def _wait(s: Session, row: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Follow it until the engine has done what was asked; a failure is an error."""
    deadline = time.monotonic() + timeout
    while True:
        busy = row["moving"] or row["restoring"] or row["phase"] == "pending"
        if row["observed_generation"] >= row["generation"] and not busy:
            break
        if time.monotonic() > deadline:
            raise ApiError(
                f"Still {state_of(row)} after {timeout:.0f} s; it goes on.", EXIT_TIMEOUT
            )
        time.sleep(0.3)
        row = patiently(partial(s.client.get, f"{base(s)}/{row['id']}"), deadline=deadline)
    if row["phase"] == "failed":
        raise ApiError(f"{row['name']} failed: {printable(row['message'])}", EXIT_ERROR)
    return row


register("Volume", Kind("volumes", _settle))


@volumes.command("list")
@click.option("--mine", is_flag=True, help="Only those you made, and your homes.")
@click.option("--deleted", is_flag=True, help="Only those being deleted.")
@click.option("--kind", type=click.Choice(["home", "project", "data"]), help="Only of this kind.")
@click.option("--cluster", metavar="NAME", help="Only on this cluster.")
@with_session
def list_(s: Session, *, mine: bool, deleted: bool, kind: str | None, cluster: str | None) -> None:
    """List the volumes of the project."""
    asked = {"mine": 1 if mine else None, "deleted": 1 if deleted else None}
    s.show(list(s.client.pages(base(s), kind=kind, cluster=cluster, **asked)), COLUMNS)


@volumes.command("classes")
@with_session
def classes(s: Session) -> None:
    """List the classes of storage that can be chosen."""
    columns: Any = (
        ("CLASS", lambda r: r["key"]),
        ("NAME", lambda r: r["name"]),
        ("CLUSTER", lambda r: r["cluster"]),
        ("MEDIUM", lambda r: r["medium"]),
        ("SPEED", lambda r: r["speed"]),
        ("PRICE", lambda r: f"{r['price']} {r.get('currency', '')}".strip()),
        ("DEFAULT", lambda r: r["is_default"]),
    )
    s.show(list(s.client.pages(f"projects/{s.project}/volume-classes")), columns)


@volumes.command("create")
@click.argument("name", required=False)
@click.option("--size", "size_mib", type=Size(), help="For example 100GiB.")
@click.option("--class", "volume_class", help="Class of storage (berth volumes classes).")
@click.option("--cluster", metavar="NAME", help="Where it lies; chosen by itself if not given.")
@_description
@_writers
@file_option
@plan_option
@waiting
@with_session
def create(s: Session, *, file: str | None, plan: bool, wanted: Waiting, **said: Any) -> None:
    """Make a volume."""
    if file:
        apply_alone(s, file, plan=plan, wanted=wanted)
        return
    if not said["name"] or said["size_mib"] is None:
        raise ApiError("Give a name and --size, or --file.", EXIT_USAGE)
    body = without_none(said)
    if plan:
        emit_plan(s, s.client.post(base(s), body, plan=1))
        return
    _settle(s, s.client.post(base(s), body), wanted)


@volumes.command("show")
@click.argument("name", shell_complete=completing.volumes)
@with_session
def show(s: Session, name: str) -> None:
    """Show one volume."""
    s.show(find(s, name), ONE)


@volumes.command("edit")
@click.argument("which", metavar="NAME", shell_complete=completing.volumes)
@click.option("--name", help="Another name; refused while it is mounted.")
@_description
@_writers
@with_session
def edit(s: Session, which: str, **said: Any) -> None:
    """Rename or describe a volume, or say who writes."""
    _patch(s, which, without_none(said))


@volumes.command("resize")
@click.argument("name", shell_complete=completing.volumes)
@click.argument("size", type=Size())
@plan_option
@with_session
def resize(s: Session, name: str, size: int, *, plan: bool) -> None:
    """Make a volume larger, or smaller where its storage can."""
    _patch(s, name, {"size_limit_mib": size}, plan=plan)


def _patch(s: Session, name: str, body: dict[str, Any], *, plan: bool = False) -> None:
    patch(s, f"{base(s)}/{find(s, name)['id']}", body, ONE, plan=plan)


@volumes.command("delete")
@click.argument("name", shell_complete=completing.volumes)
@yes_option
@click.option("--now", is_flag=True, help="Without the days of undo; for managers.")
@why
@with_session
def delete(s: Session, name: str, *, yes: bool, now: bool, reason: str) -> None:
    """Delete a volume; `berth volumes restore` brings it back for some days, but no cache."""
    row = find(s, name)
    at_once = now or row.get("cache_of")  # of a cache: what it holds can be loaded again
    lost = "removes it with all files for good" if at_once else "deletes it"
    confirm(f"This {lost}: {row['name']}.", row["name"], yes=yes)
    path = f"{base(s)}/{row['id']}"
    if now:
        answer = s.client.post(f"{path}/purge", given(reason))
    else:
        answer = s.client.call("DELETE", path, params=given(reason))
    s.show(answer, ONE)


@volumes.command("restore")
@click.argument("name", shell_complete=completing.volumes)
@click.option("--as", "new_name", help="Another name, when its own was taken.")
@with_session
def restore(s: Session, name: str, new_name: str | None) -> None:
    """Bring back a volume that is being deleted."""
    gone = [r for r in s.client.pages(base(s), q=name, deleted=1) if r["name"] == name]
    row = gone[0] if len(gone) == 1 else find(s, name)
    body = {"name": new_name} if new_name else {}
    s.show(s.client.post(f"{base(s)}/{row['id']}/restore", body), ONE)
