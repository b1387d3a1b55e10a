"""GPU-hours: what was used and cost, what was requested, attached and utilised, what was lost."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.context import Session, with_session
from berth_cli.output import emit

_SHOWBACK: Any = (
    ("MONTH", lambda r: r["month"]),
    ("PROJECT", lambda r: r["project"]),
    ("PERSON", lambda r: r["owner"]),
    ("KIND", lambda r: r["kind"] or "any"),
    ("GPU-HOURS", lambda r: f"{float(r['gpu_hours']):.2f}"),
    ("COST", lambda r: f"{r['cost']} {r['currency']}"),
)
_BY = ("project", "person", "flavor", "kind", "cluster", "node")


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part * 100:.0f} %"


_RATIOS: Any = (
    ("", lambda r: r["label"] or "any"),
    ("REQUESTED", lambda r: _percent(r["ratio"]["requested_ratio"])),
    ("ATTACHED", lambda r: _percent(r["ratio"]["attached_ratio"])),
    ("UTILISED", lambda r: _percent(r["ratio"]["utilisation"])),
)
_WASTE: Any = (
    ("CAUSE", lambda r: r["cause"].replace("_", " ")),
    ("OF", lambda r: r["owner"] or "nobody"),
    ("GPU-HOURS", lambda r: f"{r['gpu_hours']:.2f}"),
    ("COST", lambda r: f"{r['cost']} {r['currency']}"),
)


def _span(command: Any) -> Any:
    for flags, kwargs in (
        (("--csv", "as_csv"), {"is_flag": True, "help": "As CSV."}),
        (
            ("--all", "every"),
            {"is_flag": True, "help": "All projects. For operators and auditors."},
        ),
        (("--until",), {"help": "The last day; today by default."}),
        (("--since",), {"help": "A day (2026-01-31); 30 days ago by default."}),
    ):
        command = click.option(*flags, **kwargs)(command)
    return command


@click.group(invoke_without_command=True)
@_span
@click.option("--intervals", is_flag=True, help="With --csv: each launch of the project.")
@with_session
def usage(
    s: Session, since: str | None, until: str | None, *, every: bool, as_csv: bool, intervals: bool
) -> None:
    """Show GPU-hours by person, kind and month, with what they cost at the prices of today."""
    if click.get_current_context().invoked_subcommand:
        return
    if intervals and (every or not as_csv):
        raise click.UsageError("--intervals goes with --csv, of one project.")
    where = "usage" if every else f"projects/{s.project}/usage"
    params = {k: v for k, v in (("since", since), ("until", until)) if v}
    if as_csv:
        path = f"{where}.csv" if intervals else f"{where}/showback.csv"
        click.echo(s.client.get(path, **params), nl=False)
        return
    emit(s.client.get(f"{where}/showback", **params), fmt=s.fmt, columns=_SHOWBACK)


def _asked(s: Session, word: str, **said: Any) -> tuple[str, dict[str, str]]:
    """Return where a report is, and what is asked of it."""
    every = said.pop("every")
    path = word if every else f"projects/{s.project}/{word}"
    return path, {name: value for name, value in said.items() if value}


@usage.command("ratios")
@_span
@click.option("--by", type=click.Choice(_BY), help="What groups are.")
@click.option("--month", is_flag=True, help="With --csv: a line a month, not a day.")
@with_session
def ratios(
    s: Session,
    since: str | None,
    until: str | None,
    by: str | None,
    *,
    every: bool,
    as_csv: bool,
    month: bool,
) -> None:
    """Show how much of the GPUs is requested, attached and utilised: now, and in a time."""
    path, params = _asked(s, "ratios", every=every, since=since, until=until, by=by)
    if as_csv:
        params |= {"step": "month"} if month else {}
        click.echo(s.client.get(f"{path}.csv", **params), nl=False)
        return
    found = s.client.get(path, **params)
    if s.fmt != "table":
        emit(found, fmt=s.fmt, columns=_RATIOS)
        return
    lines = [
        {"label": "now", "ratio": found["now"]["total"]},
        {"label": "in this time", "ratio": found["total"]},
    ]
    emit([*lines, *found["groups"]], fmt=s.fmt, columns=_RATIOS)


@usage.command("waste")
@_span
@click.option("--by", type=click.Choice(_BY), help="Whose it is.")
@with_session
def waste(
    s: Session, since: str | None, until: str | None, by: str | None, *, every: bool, as_csv: bool
) -> None:
    """Show lost GPU-hours by cause and owner, the most first."""
    path, params = _asked(s, "waste", every=every, since=since, until=until, by=by)
    if as_csv:
        click.echo(s.client.get(f"{path}.csv", **params), nl=False)
        return
    found = s.client.get(path, **params)
    emit(found["losses"] if s.fmt == "table" else found, fmt=s.fmt, columns=_WASTE)
