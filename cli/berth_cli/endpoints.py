"""Endpoints: models that answer requests, their canaries, and the keys that may call them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_NOT_FOUND, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, register, waiting
from berth_cli.output import age, cpus, mib, moment
from berth_cli.work import Over, Row, Work, gpus

_STANDS = frozenset({"ready", "asleep", "stopped", "failed"})
_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("OWNER", lambda r: r["owner"]),
    ("STATE", lambda r: r["status"]["state"]),
    ("SERVES", lambda r: r["spec"]["model"] or r["spec"]["image"] or "-"),
    ("REPLICAS", lambda r: r["replicas"]),
    ("CANARY", lambda r: f"{r['canary_percent']} %" if r["canary_percent"] else "-"),
    ("GPUS", gpus),
    ("SIZE", lambda r: f"{cpus(r['spec']['cpu_milli'])} CPU, {mib(r['spec']['memory_mib'])}"),
    ("CALLED", lambda r: age(r["called_at"]) if r["called_at"] else "-"),
    ("REASON", lambda r: r["status"]["message"] or r["scaling_problem"]),
)
_ONE: Any = (
    *_COLUMNS,
    ("URL", lambda r: r["url"]),
    ("CLUSTER", lambda r: r["spec"]["cluster"]),
    ("BETWEEN", lambda r: f"{r['spec']['min_replicas']} and {r['spec']['max_replicas']}"),
    ("SINCE", lambda r: moment(r["status"]["since"])),
)
_REPLICAS: Any = (
    ("REPLICA", lambda r: r["index"]),
    ("STATE", lambda r: r["state"]),
    ("ADDRESS", lambda r: r["address"] or "-"),
    ("NODE", lambda r: r["node"]),
    ("RESTARTS", lambda r: r["restarts"]),
    ("STARTED", lambda r: moment(r["started_at"])),
    ("REASON", lambda r: r["reason"]),
)
_CANARY: Any = (
    ("CANARY", lambda r: r["model"] or r["image"]),
    ("STATE", lambda r: "leaves" if r["leaves"] else r["state"]),
    ("SHARE", lambda r: f"{r['percent']} %"),
    ("REPLICAS", lambda r: r["replicas"]),
    ("REASON", lambda r: r["why"]),
)
_SERVED: Any = (
    ("SERVED", lambda r: r["serves"]),
    ("SINCE", lambda r: moment(r["since"])),
    ("BY", lambda r: r["by"] or "-"),
    ("HOW", lambda r: r["how"]),
    ("START", lambda r: r["launch"]),
)
_KEYS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("KEY", lambda r: f"{r['prefix']}…"),
    ("A SECOND", lambda r: r["requests_per_second"] or "-"),
    ("AT ONCE", lambda r: r["concurrent"] or "-"),
    ("A DAY", lambda r: r["requests_per_day"] or "-"),
    ("EXPIRES", lambda r: moment(r["expires_at"]) or "-"),
    ("USED", lambda r: age(r["last_used_at"]) if r["last_used_at"] else "-"),
    ("STATE", lambda r: "revoked" if r["revoked_at"] else "live"),
)


@click.group()
def endpoint() -> None:
    """Endpoints: models that answer requests at one address."""


class _Endpoints(Work):
    word = "endpoint"
    ends = "endpoint stop"
    columns = _COLUMNS
    one = _ONE
    complete = staticmethod(completing.endpoints)
    settled = _STANDS
    group = endpoint
    wait_help = "Wait until it answers."
    wait_s = 600.0

    def line(self, row: Row) -> str:
        beside = row["canary"] and f"its canary: {row['canary']['state']}"
        return "; ".join(filter(None, (super().line(row), beside)))

    def end(self, s: Session, row: Row, *, ended: bool) -> None:  # noqa: ARG002
        state = self.state(row)
        if state in {"ready", "asleep"} or ended:
            return
        how = "failed" if state == "failed" else f"is {state}"
        said = ": ".join(filter(None, (f"{row['name']} {how}", self.why(row))))
        raise ApiError(said, EXIT_ERROR if state == "failed" else EXIT_CONFLICT)

    def show_more(self, s: Session, row: Row) -> None:
        if row["replica_states"]:
            click.echo()
            s.show(row["replica_states"], _REPLICAS)
        if row["canary"]:
            click.echo()
            s.show(row["canary"], _CANARY)


ENDPOINT = _Endpoints()
register("Endpoint", Kind("endpoints", ENDPOINT.settle))


@endpoint.command("create")
@ENDPOINT.creates()
@with_session
def create(s: Session, *, wanted: Waiting, **said: Any) -> None:
    """Serve a model. berth endpoint create --name digits --model digits/v1"""
    ENDPOINT.create(s, said, {}, wanted=wanted)


ENDPOINT.add_list(states="ready, queued, asleep, stopped or failed.")
ENDPOINT.add_show("Show one endpoint, its replicas and its canary.")
ENDPOINT.add_logs(
    "Print what a replica of an endpoint wrote.",
    click.option(
        "--replica", type=click.IntRange(0), default=0, show_default=True, help="Whose log."
    ),
    follow="Go on as lines come, until it has ended.",
)
ENDPOINT.add_act("start", "Start one that was stopped; its address and keys are the same.")
ENDPOINT.add_act("stop", "Stop it: it answers nobody until it is started.", ends=True)
ENDPOINT.add_act("sleep", "Put it to sleep: the next request wakes it.", ends=True)
ENDPOINT.add_act("takeover", "Make one of somebody else your own; it goes on answering.", ends=True)
ENDPOINT.add_act("park", "Park it: its GPUs go to others.", ends=True)
ENDPOINT.add_keep()
ENDPOINT.add_edit(
    "Change it; what it serves changes by a restart. Without a gap: berth endpoint canary"
)
ENDPOINT.add_delete("Delete an endpoint with its keys.", left="its keys are void")


@endpoint.command("canary")
@click.argument("which", metavar="NAME", shell_complete=completing.endpoints)
@ENDPOINT.describes(edits=True)
@click.option("--end", is_flag=True, help="Take it away; all requests go back at once.")
@partial(waiting, within=600.0, text="Wait until it answers; with --end: until it is gone.")
@with_session
def canary(s: Session, which: str, *, end: bool, wanted: Waiting, **said: Any) -> None:
    """Put a canary beside an endpoint, the same but for what is said: --model digits/v2

    It gets no request until berth endpoint split gives it a share.
    """
    path = f"{ENDPOINT.path(s, ENDPOINT.find(s, which))}/canary"
    if end:
        _show(s, s.client.call("DELETE", path), wanted, until=_is_alone)
        return
    row = _show(s, s.client.post(path, ENDPOINT.body(said)), wanted, until=_canary_stands)
    if wanted.wait and (row["canary"] is None or row["canary"]["state"] != "ready"):
        why = row["canary"]["why"] if row["canary"] else ""
        raise ApiError(f"Its canary does not answer. {why}".rstrip(), EXIT_ERROR)


@endpoint.command("split")
@click.argument("name", shell_complete=completing.endpoints)
@click.argument("percent", type=click.IntRange(0, 100))
@with_session
def split(s: Session, name: str, percent: int) -> None:
    """Have PERCENT of the requests go to its canary."""
    path = f"{ENDPOINT.path(s, ENDPOINT.find(s, name))}/canary/split"
    _show(s, s.client.post(path, {"percent": percent}), Waiting())


@endpoint.command("rollback")
@click.argument("name", shell_complete=completing.endpoints)
@partial(waiting, within=600.0, text="Wait until it serves what it served before.")
@with_session
def rollback(s: Session, name: str, *, wanted: Waiting) -> None:
    """Take all requests back from its canary. That stays; where there is none it serves what it
    served before, without a gap.
    """
    path = ENDPOINT.path(s, ENDPOINT.find(s, name))
    if s.client.get(path)["canary"]:
        _show(s, s.client.post(f"{path}/canary/split", {"percent": 0}), Waiting())
    else:
        _change(s, s.client.post(f"{path}/roll-back"), wanted)


@endpoint.command("history")
@click.argument("name", shell_complete=completing.endpoints)
@with_session
def history(s: Session, name: str) -> None:
    """What it served when, and by whom."""
    s.show(list(s.client.pages(f"{ENDPOINT.path(s, ENDPOINT.find(s, name))}/served")), _SERVED)


@endpoint.command("promote")
@click.argument("name", shell_complete=completing.endpoints)
@partial(waiting, within=600.0, text="Wait until the canary is gone.")
@with_session
def promote(s: Session, name: str, *, wanted: Waiting) -> None:
    """Serve what its canary serves, without a gap. The canary goes afterwards."""
    path = ENDPOINT.path(s, ENDPOINT.find(s, name))
    _change(s, s.client.post(f"{path}/canary/promote"), wanted)


def _change(s: Session, row: Row, wanted: Waiting) -> None:
    """Follow a promotion, or the way back, to its end; say where it was broken off."""
    canary = row["canary"]
    row = _show(s, row, wanted, until=_is_over)
    if not wanted.wait:
        return
    if row["canary"] is not None:
        said = f"That was broken off: {row['name']} has its canary still. {row['canary']['why']}"
        raise ApiError(said.rstrip(), EXIT_CONFLICT)
    if canary and any(row["spec"][word] != canary[word] for word in ("model", "image")):
        serves = row["spec"]["model"] or row["spec"]["image"] or "its own command"
        wants = canary["model"] or canary["image"] or "a command"
        said = f"That was broken off: {row['name']} serves {serves}, not {wants}."
        raise ApiError(said, EXIT_CONFLICT)


def _is_alone(row: Row) -> bool:
    return row["canary"] is None


def _is_over(row: Row) -> bool:
    """Whether nothing goes on by itself: its canary is gone, or stands beside it as it was."""
    canary = row["canary"]
    return canary is None or not (row["promoting"] or row["rolls_back"] or canary["leaves"])


def _canary_stands(row: Row) -> bool:
    return row["canary"] is None or row["canary"]["state"] in _STANDS


def _show(s: Session, row: Row, wanted: Waiting, *, until: Over = _is_alone) -> Row:
    """Print an endpoint with its canary, after it came as far as was asked; return it."""
    if wanted.wait:
        row = ENDPOINT.follow(s, row, timeout=wanted.timeout, until=until)
    s.show(row, _ONE)
    if s.fmt == "table" and row["canary"]:
        click.echo()
        s.show(row["canary"], _CANARY)
    return row


@endpoint.group("key")
def key() -> None:
    """Keys: secrets that may call one endpoint."""


@key.command("create")
@click.argument("endpoint_name", metavar="ENDPOINT", shell_complete=completing.endpoints)
@click.argument("name")
@click.option("--days", type=click.IntRange(1), help="Void after so many; else it stays.")
@click.option("--requests-per-second", type=click.IntRange(0), help="At most.")
@click.option("--concurrent", type=click.IntRange(0), help="At once, at most.")
@click.option("--requests-per-day", type=click.IntRange(0), help="At most.")
@with_session
def key_create(
    s: Session, endpoint_name: str, name: str, *, days: int | None, **limits: int | None
) -> None:
    """Make a key called NAME. It is shown this once."""
    said: Row = {"name": name, **{word: n for word, n in limits.items() if n is not None}}
    if days is not None:
        said["expires_at"] = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    made = s.client.post(_keys(s, endpoint_name), said)
    if s.fmt == "table":
        click.echo("Keep it now: it is shown this once.", err=True)
        click.echo(made["key"])
    else:
        s.show(made)


@key.command("list")
@click.argument("endpoint_name", metavar="ENDPOINT", shell_complete=completing.endpoints)
@with_session
def key_list(s: Session, endpoint_name: str) -> None:
    """List the keys of an endpoint, the newest first."""
    s.show(list(s.client.pages(_keys(s, endpoint_name))), _KEYS)


@key.command("revoke")
@click.argument("endpoint_name", metavar="ENDPOINT", shell_complete=completing.endpoints)
@click.argument("name")
@with_session
def key_revoke(s: Session, endpoint_name: str, name: str) -> None:
    """Revoke a key, by its name or id. It calls nothing more, and its streams end."""
    keys = _keys(s, endpoint_name)
    live = (one for one in s.client.pages(keys) if not one["revoked_at"])
    found = next((one for one in live if name in {one["id"], one["name"]}), None)
    if found is None:
        raise ApiError(f"There is no live key {name}.", EXIT_NOT_FOUND)
    s.client.call("DELETE", f"{keys}/{found['id']}")
    click.echo(f"{found['name']} is revoked.", err=True)


def _keys(s: Session, name: str) -> str:
    return f"{ENDPOINT.path(s, ENDPOINT.find(s, name))}/keys"
