"""Idle work: who holds GPUs and does not use them, and the policies that give them back."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.client import EXIT_ERROR, ApiError
from berth_cli.context import Session, with_session
from berth_cli.output import age, emit, printable

_HOLDERS: Any = (
    ("NAME", lambda r: r["name"]),
    ("PROJECT", lambda r: r["project"]),
    ("OWNER", lambda r: r["owner"]),
    ("GPUS", lambda r: f"{r['gpus']} {r['flavor']}".strip()),
    ("SINCE", lambda r: age(r["since"])),
    ("GPU-HOURS", lambda r: f"{r['gpu_hours']:.1f}"),
    ("MEAN", lambda r: "" if r["mean"] is None else f"{r['mean']:.1f} %"),
    ("LAST USE", lambda r: age(r["used_at"])),
    ("THEN", lambda r: r["follows"]),
    ("ID", lambda r: r["id"]),
)
_POLICIES: Any = (
    ("FOR", lambda r: r["scope"]),
    ("KIND", lambda r: r["kind"] or "any"),
    ("IDLE", lambda r: f"GPU below {r['gpu_below']:g} % for {r['minutes']} min"),
    ("NOTICE", lambda r: f"{r['grace']} min"),
    ("THEN", lambda r: r["act"]),
    ("STATE", lambda r: r["state"]),
    ("ID", lambda r: r["id"]),
)
_LINES: Any = (
    ("OWNER", lambda r: r["owner"]),
    ("PROJECT", lambda r: r["project"]),
    ("GPU-HOURS", lambda r: f"{r['gpu_hours']:.1f}"),
    ("TIMES", lambda r: r["times"]),
)


def _where(s: Session, *, every: bool) -> str:
    return "patrol" if every else f"projects/{s.project}/patrol"


@click.group()
def patrol() -> None:
    """Who holds GPUs and does not use them. For those who manage a project, and operators."""


@patrol.command("show")
@click.option("--below", type=float, help="Percent of GPU use; 10 by default.")
@click.option("--hours", type=float, help="For so many hours; 2 by default.")
@click.option("--flavor", help="Only this kind of GPU.")
@click.option("--all", "every", is_flag=True, help="Everywhere. For operators and auditors.")
@with_session
def patrol_show(s: Session, *, every: bool, **said: Any) -> None:
    """List holders whose GPUs are below --below percent for --hours hours."""
    found = s.client.get(_where(s, every=every), **{k: v for k, v in said.items() if v})
    emit(found["holders"] if s.fmt == "table" else found, fmt=s.fmt, columns=_HOLDERS)
    if s.fmt == "table":
        lost = f"{found['gpus']} of {found['held']} held GPUs, {found['gpu_hours']:.0f} GPU-hours"
        click.echo(f"{lost}; {found['unmeasured']} GPUs are not measured.")


def _act(name: str, text: str, *, asks: str) -> None:
    @patrol.command(name, help=text)
    @click.argument("ids", nargs=-1, required=True, metavar="ID...")
    @click.option("--reason", "-m", required=asks == "always", default="", help="What to say.")
    @click.option("--all", "every", is_flag=True, help="Of any project. For operators.")
    @with_session
    def run(s: Session, ids: tuple[str, ...], *, reason: str, every: bool) -> None:
        body = {"act": name, "ids": list(ids), "said": reason}
        answer = s.client.post(_where(s, every=every), body)
        click.echo(f"{len(answer['done'])} done.", err=True)
        for uid, why in answer["refused"].items():
            click.echo(printable(f"{uid}: {why}"), err=True)
        if answer["refused"]:
            raise ApiError(f"{len(answer['refused'])} refused.", EXIT_ERROR)


_act("message", "Write to the owners.", asks="always")
_act("extend", "Put off what follows, by one extension of the policy.", asks="")
_act("park", "Park: stop it, give its GPUs back, keep everything else.", asks="always")


@click.group("idle-policies")
def policies() -> None:
    """When GPUs that nobody uses come back. For operators; auditors may read."""


@policies.command("list")
@with_session
def policies_list(s: Session) -> None:
    """List all idle policies."""
    emit(list(s.client.pages("idle-policies")), fmt=s.fmt, columns=_POLICIES)


@policies.command("set")
@click.option("--id", "uid", help="Change this one; without it a new one is made.")
@click.option("--here", is_flag=True, help="A new one of the project; else of the platform.")
@click.option("--organisation", help="A new one of this organisation (its id).")
@click.option("--kind", help="Only this kind of work.")
@click.option("--minutes", type=click.IntRange(1), help="Idle for so long.")
@click.option("--grace", type=click.IntRange(1), help="Minutes of notice.")
@click.option("--gpu-below", type=float, help="Percent.")
@click.option("--act", type=click.Choice(["park", "stop", "tell"]), help="What follows.")
@click.option("--state", type=click.Choice(["off", "dry-run", "on"]), help="Whether it does.")
@click.option("--extension", type=click.IntRange(0), help="Minutes of one extension.")
@click.option("--extensions", type=click.IntRange(0), help="So many need no reason.")
@with_session
def policies_set(s: Session, *, uid: str | None, here: bool, **said: Any) -> None:
    """Make an idle policy, or change one."""
    body = {k: v for k, v in said.items() if v is not None}
    body |= {"project": s.project} if here else {}
    if uid is None:
        made = s.client.call("POST", "idle-policies", json_body=body)
    else:
        made = s.client.call("PATCH", f"idle-policies/{uid}", json_body=body)
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_POLICIES)


@policies.command("dry-run")
@click.argument("uid", metavar="ID")
@click.option("--days", type=click.Choice(["2", "7", "30"]), default="7", help="The last days.")
@with_session
def policies_dry_run(s: Session, uid: str, *, days: str) -> None:
    """Say what a policy would have given back in the last days, and from whom."""
    found = s.client.get(f"idle-policies/{uid}/dry-run", days=days)
    emit(found["lines"] if s.fmt == "table" else found, fmt=s.fmt, columns=_LINES)
    if s.fmt == "table":
        click.echo(f"{found['gpu_hours']:.0f} of {found['held']:.0f} GPU-hours that were held.")


@policies.command("delete")
@click.argument("uid", metavar="ID")
@with_session
def policies_delete(s: Session, uid: str) -> None:
    """Delete an idle policy."""
    s.client.call("DELETE", f"idle-policies/{uid}")
    click.echo("Deleted.")
