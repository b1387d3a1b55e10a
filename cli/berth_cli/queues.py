"""The tree of queues: who is guaranteed how many GPUs, and what would follow from a change."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.client import EXIT_NOT_FOUND, ApiError
from berth_cli.context import Session, with_session
from berth_cli.output import emit

_TREE: Any = (
    ("PART", lambda r: r["name"]),
    ("PROJECT", lambda r: r["project"]),
    ("BELOW", lambda r: r["below"]),
    ("WEIGHT", lambda r: r["weight"]),
    ("GUARANTEED", lambda r: [_guaranteed(one) for one in r["guarantees"]]),
)
_USE: Any = (
    ("PART", lambda r: r["name"]),
    ("KIND", lambda r: r["kind"]),
    ("GUARANTEED", lambda r: r["guaranteed"]),
    ("MOST", lambda r: r["most"]),
    ("LENDS", lambda r: r["lends"]),
    ("HELD", lambda r: r["held"]),
    ("BORROWED", lambda r: r["borrowed"]),
    ("LENT", lambda r: r["lent"]),
    ("WAITING", lambda r: r["waiting"]),
)
_OWN: Any = (
    ("CLUSTER", lambda r: r["cluster"]),
    ("KIND", lambda r: r["kind"] or "any"),
    *(one for one in _USE if one[0] not in {"PART", "KIND", "LENT"}),
)


def _guaranteed(one: dict[str, Any]) -> str:
    beside = [f"{name} {one[name]}" for name in ("most", "lends") if one[name] is not None]
    said = f"{one['guaranteed']} {one['cluster']}/{one['kind']}"
    return f"{said} ({', '.join(beside)})" if beside else said


@click.group()
def queues() -> None:
    """Who is guaranteed how many GPUs, and what would follow from a change."""


@queues.command("list")
@with_session
def queues_list(s: Session) -> None:
    """List the tree: organisations and projects. For operators and auditors."""
    rows = list(s.client.pages("queues"))
    names = {row["key"]: row["name"] for row in rows}
    shown = [{**row, "below": names.get(row["parent"])} for row in rows]
    emit(shown if s.fmt == "table" else rows, fmt=s.fmt, columns=_TREE)


@queues.command("show")
@click.option("--cluster", help="Every part of the tree there; without it: your project's own.")
@with_session
def queues_show(s: Session, cluster: str | None) -> None:
    """Show what is guaranteed, held, borrowed and waited for."""
    if cluster is None:
        emit(s.client.get(f"projects/{s.project}/queue"), fmt=s.fmt, columns=_OWN)
        return
    found = s.client.get(f"queues/use/{cluster}")
    emit(found["parts"] if s.fmt == "table" else found, fmt=s.fmt, columns=_USE)


@queues.command("set")
@click.argument("part")
@click.option("--on", metavar="CLUSTER/KIND", help="The kind of GPU that the numbers are of.")
@click.option("--guaranteed", type=click.IntRange(min=0), help="How many it always gets.")
@click.option("--most", help="How many it may hold altogether; 'none': no limit.")
@click.option("--lends", help="How many of them others may use; 'all': every one.")
@click.option("--weight", type=float, help="Its part of what is borrowed, beside others.")
@click.option(
    "--each-gpus", type=click.IntRange(min=0), help="How many each person may hold; 0: no limit."
)
@click.option(
    "--longest",
    multiple=True,
    metavar="PURPOSE=MINUTES",
    help="How long work for build, train or inference runs at most; 0: no limit.",
)
@click.option("--below", help="The organisation that it stands below; '': at the top.")
@click.option("--plan", is_flag=True, help="Change nothing; say what would follow.")
@with_session
def queues_set(  # noqa: PLR0913, PLR0917 - an option each
    s: Session,
    part: str,
    on: str | None,
    guaranteed: int | None,
    most: str | None,
    lends: str | None,
    weight: float | None,
    each_gpus: int | None,
    longest: tuple[str, ...],
    below: str | None,
    *,
    plan: bool,
) -> None:
    """Change what PART has: a project by its name in addresses, or an organisation by its name.

    What is not said stays. --plan tells who would start and who would be asked to give back.
    """
    tree = list(s.client.pages("queues"))
    row = _found(tree, part)
    body: dict[str, Any] = {}
    if weight is not None:
        body["weight"] = str(weight)
    if each_gpus is not None:
        body["each_gpus"] = each_gpus
    if longest:
        body["longest"] = dict(_minutes_of(said) for said in longest)
    if below is not None:
        body["parent"] = _found(tree, below)["key"] if below else None
    numbers = {"guaranteed": guaranteed, "most": most, "lends": lends}
    if any(value is not None for value in numbers.values()):
        body["guarantees"] = [_share(row, on, numbers)]
    if not body:
        raise click.UsageError("Say what is to be otherwise, such as --guaranteed 2.")
    params = {"plan": "1"} if plan else None
    made = s.client.call("PATCH", f"queues/{row['key']}", json_body=body, params=params)
    if s.fmt != "table":
        emit(made, fmt=s.fmt)
        return
    _tell(s, made, plan=plan)


def _found(tree: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a part by the slug of its project, the name of an organisation, or its key."""
    for field in ("project", "key", "name"):
        rows = [row for row in tree if row[field] == name]
        if field == "name" and len(rows) > 1:
            said = f"Several are called {name!r}; say the key instead."
            raise click.UsageError(said)
        if rows:
            return rows[0]
    raise ApiError(f"There is no part of the tree called {name!r}.", EXIT_NOT_FOUND)


def _minutes_of(said: str) -> tuple[str, int]:
    purpose, _sign, minutes = said.partition("=")
    if not minutes.isdecimal():
        raise click.BadParameter(f"{said!r} is not PURPOSE=MINUTES.", param_hint="longest")
    return purpose, int(minutes)


def _share(row: dict[str, Any], on: str | None, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the share that is to be, with what was not said as it is."""
    cluster, slash, kind = (on or "").partition("/")
    if not slash:
        raise click.UsageError("Say which kind of GPU with --on CLUSTER/KIND.")
    known = [g for g in row["guarantees"] if (g["cluster"], g["kind"]) == (cluster, kind)]
    share = known[0] if known else {"guaranteed": 0, "most": None, "lends": None}
    share = {**share, "cluster": cluster, "kind": kind}
    for name, value in numbers.items():
        if value is None:
            continue
        if value in {"none", "all"}:
            share[name] = None
            continue
        try:
            share[name] = int(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} is not a number.", param_hint=name) from error
    return share


def _tell(s: Session, made: dict[str, Any], *, plan: bool) -> None:
    """Say the effect in sentences, then what waits of the past differ."""
    for one in made["above"]:
        has = f"{one['user']} has {one['gpus']} GPUs of {one['limit']}"
        click.echo(f"{one['project']}: {has}; what runs goes on, nothing more starts.")
    if not made["effects"] and not made["above"]:
        click.echo("Nothing follows: no GPU is shared otherwise.")
    for effect in made["effects"]:
        for promise in effect["promised"]:
            over = "  MORE THAN THERE ARE" if promise["over"] else ""
            counts = f"{promise['promised']} of {promise['exists']} promised"
            click.echo(f"{effect['cluster']}/{promise['kind']}: {counts}{over}")
        words = (("starts", "start"), ("asked", "asked to give back"), ("waits", "wait longer"))
        for key, said in words:
            if effect[key]:
                names = ", ".join(f"{one['name']} ({one['project']})" for one in effect[key])
                click.echo(f"  {len(effect[key])} {said}: {names}")
        past = [one for one in effect["past"] if one["before"] != one["after"]]
        if past:
            click.echo("  The last 30 days again, before and after:")
            emit(past, fmt=s.fmt, columns=_PAST)
    click.echo("Nothing was changed." if plan else "Saved.")


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 60:.0f} min"


def _both(name: str) -> Any:
    def told(row: dict[str, Any]) -> str:
        return f"{_minutes(row['before'][name])} → {_minutes(row['after'][name])}"

    return told


_PAST: Any = (
    ("PART", lambda r: r["name"]),
    ("HALF WAITED", _both("p50")),
    ("90% WAITED", _both("p90")),
    ("ASKED BACK", lambda r: f"{r['before']['reclaims']} → {r['after']['reclaims']}"),
)
