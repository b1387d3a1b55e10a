"""Budgets: how many GPU-hours may be spent, and what is spent of them."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.context import Session, with_session
from berth_cli.output import emit

_BUDGETS: Any = (
    ("OF", lambda r: r["name"]),
    ("SPENT", lambda r: f"{float(r['spent']):.1f} of {float(r['hours']):g}"),
    ("DAYS", lambda r: r["days"]),
    ("WHEN SPENT", lambda r: r["mode"] + (", stops what runs" if r["stops"] else "")),
    ("ENDS", lambda r: r["sentence"]),
    ("ID", lambda r: r["id"]),
)


@click.group()
def budgets() -> None:
    """How many GPU-hours may be spent, and what is spent of them."""


@budgets.command("list")
@click.option("--all", "every", is_flag=True, help="Of everybody. For operators and auditors.")
@with_session
def budgets_list(s: Session, *, every: bool) -> None:
    """List the budgets that hold for your work in the project."""
    where = "budgets" if every else f"projects/{s.project}/budgets"
    emit(list(s.client.pages(where)), fmt=s.fmt, columns=_BUDGETS)


@budgets.command("set")
@click.argument("hours", type=click.FloatRange(min=0))
@click.option("--id", "uid", help="Change this budget; without it: the one of the project.")
@click.option("--user", help="The budget of this member of the project.")
@click.option("--organisation", help="The budget of this organisation (its key).")
@click.option("--days", type=click.IntRange(1, 366), help="In so many days; 30 of a new one.")
@click.option("--hard/--soft", default=None, help="Nothing new starts, or it only borrows.")
@click.option("--stops/--leaves", default=None, help="Of a hard one: what runs then.")
@with_session
def budgets_set(  # noqa: PLR0913 - an option each
    s: Session,
    hours: float,
    uid: str | None,
    user: str | None,
    organisation: str | None,
    days: int | None,
    *,
    hard: bool | None,
    stops: bool | None,
) -> None:
    """Set how many GPU-HOURS may be spent. For operators."""
    body: dict[str, Any] = {"hours": f"{hours:.2f}", "days": days, "stops": stops}
    body["mode"] = None if hard is None else "hard" if hard else "soft"
    body = {name: value for name, value in body.items() if value is not None}
    whose = {"organisation": organisation} if organisation else {"project": s.project}
    whose |= {"user": user} if user else {}
    if uid is None:
        wanted = {"project": None, "user": None, "organisation": None, **whose}
        rows = s.client.pages("budgets")
        uid = next((r["id"] for r in rows if all(r[k] == v for k, v in wanted.items())), None)
    if uid is None:
        made = s.client.call("POST", "budgets", json_body={**whose, **body})
    else:
        made = s.client.call("PATCH", f"budgets/{uid}", json_body=body)
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_BUDGETS)


@budgets.command("delete")
@click.argument("uid", metavar="ID")
@with_session
def budgets_delete(s: Session, uid: str) -> None:
    """Delete a budget. For operators."""
    s.client.call("DELETE", f"budgets/{uid}")
    click.echo("Deleted.")
