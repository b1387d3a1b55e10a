"""Every GPU: where it stands, who holds it and what it does."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.context import Session, with_session
from berth_cli.output import age, emit

_NODES: Any = (
    ("CLUSTER", lambda r: r["cluster"]),
    ("NODE", lambda r: r["node"]),
    ("RACK", lambda r: r["rack"]),
    ("STATE", lambda r: r["state"]),
    ("GPUS", lambda r: len(r["devices"])),
    ("HELD", lambda r: sum(one["held"] for one in r["devices"])),
    ("USED", lambda r: _percent(r["devices"])),
    ("UNHEALTHY", lambda r: sum(not one["healthy"] for one in r["devices"]) or None),
)
_DEVICES: Any = (
    ("NODE", lambda r: r["node"]),
    ("GPU", lambda r: r["device"].rpartition("/")[2]),
    ("KIND", lambda r: r["kind"]),
    ("HELD BY", lambda r: r["work"] or ("another project" if r["held"] else None)),
    ("OWNER", lambda r: r["owner"]),
    ("PROJECT", lambda r: r["project"]),
    ("SINCE", lambda r: age(r["since"])),
    ("USED", lambda r: _percent([r])),
    ("MEMORY MIB", lambda r: r["memory_used_mib"]),
)


def _percent(devices: list[dict[str, Any]]) -> str | None:
    """The mean of what is held; unknown as soon as one of them is."""
    rates = [one["utilisation"] for one in devices if one["held"]]
    if not rates:
        return None
    return "unknown" if None in rates else f"{sum(rates) / len(rates):.0f} %"


@click.command()
@click.option("--cluster", help="Its key.")
@click.option("--kind", help="Kind of GPU.")
@click.option("--pool", help="Nodes of this pool.")
@click.option("--of", "project", help="What this project holds.")
@click.option("--at", help="A moment of the last 24 hours: 2026-01-31T12:00:00Z.")
@click.option("--gpus", is_flag=True, help="A line for each GPU, not for each node.")
@with_session
def fleet(s: Session, *, gpus: bool, **asked: str | None) -> None:
    """Show every GPU that your projects may use: where it stands, who holds it, what it does."""
    found = s.client.get("fleet", **asked)
    if s.fmt != "table":
        emit(found, fmt=s.fmt)
        return
    used = found["utilisation"]
    words = f"{found['supply']} GPUs: {found['requested']} requested, {found['attached']} attached"
    click.echo(f"{words}, {'unknown' if used is None else f'{used:g} %'} utilised")
    for cause in found["waiting"]:
        click.echo(f"  {cause['gpus']} waited for: {cause['text']}")
    if found["stale"] or found["silent_clusters"]:
        click.echo("What is shown may be old.", err=True)
    rows = found["nodes"]
    if gpus:
        rows = [{**one, "node": node["node"]} for node in rows for one in node["devices"]]
    emit(rows, fmt=s.fmt, columns=_DEVICES if gpus else _NODES)
