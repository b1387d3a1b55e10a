"""Copies of a volume, and handing it over."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from berth_cli import completing
from berth_cli.client import EXIT_NOT_FOUND, ApiError
from berth_cli.context import Session, options, session
from berth_cli.naming import confirm
from berth_cli.output import emit, moment
from berth_cli.volumes import ONE, base, find, used_words

_COPIES: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("SIZE", lambda r: used_words(r["size_bytes"])),
    ("MADE", lambda r: moment(r["created_at"])),
    ("STATE", lambda r: r["phase"]),
)
_OFFERS: Any = (
    ("ID", lambda r: r["id"]),
    ("VOLUME", lambda r: r["volume_name"]),
    ("FROM", lambda r: r["from_project"]),
    ("TO", lambda r: r["to"]),
    ("ENDS", lambda r: moment(r["expires_at"])),
    ("STATE", lambda r: r["state"]),
)


@click.group()
def snapshot() -> None:
    """Copies of a volume at one moment."""


@snapshot.command("list")
@click.argument("volume", shell_complete=completing.volumes)
@options
@click.pass_context
def snapshot_list(ctx: click.Context, volume: str) -> None:
    """List the snapshots of a volume."""
    s = session(ctx)
    rows = list(s.client.pages(f"{base(s)}/{find(s, volume)['id']}/snapshots"))
    emit(rows, fmt=s.fmt, columns=_COPIES)


@snapshot.command("create")
@click.argument("volume", shell_complete=completing.volumes)
@click.option("--name", default="", help="Made from the time if not given.")
@click.option("--description", default="", help="What it keeps.")
@options
@click.pass_context
def snapshot_create(ctx: click.Context, volume: str, name: str, description: str) -> None:
    """Keep a volume as it is now."""
    s = session(ctx)
    path = f"{base(s)}/{find(s, volume)['id']}/snapshots"
    made = s.client.post(path, {"name": name, "description": description})
    emit(made, fmt=s.fmt, columns=_COPIES)


@snapshot.command("restore")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for the volume's name.")
@options
@click.pass_context
def snapshot_restore(ctx: click.Context, volume: str, name: str, *, yes: bool) -> None:
    """Put a snapshot in place of what the volume holds now."""
    s = session(ctx)
    row, copy = _copy(s, volume, name)
    confirm(f"What {row['name']} holds now is lost.", row["name"], yes=yes)
    path = f"{base(s)}/{row['id']}/snapshots/{copy['id']}/restore"
    emit(s.client.post(path), fmt=s.fmt, columns=ONE)


@snapshot.command("delete")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("name")
@options
@click.pass_context
def snapshot_delete(ctx: click.Context, volume: str, name: str) -> None:
    """Remove a snapshot; the volume stays as it is."""
    s = session(ctx)
    row, copy = _copy(s, volume, name)
    answer = s.client.call("DELETE", f"{base(s)}/{row['id']}/snapshots/{copy['id']}")
    emit(answer, fmt=s.fmt, columns=_COPIES)


def _copy(s: Session, volume: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    row = find(s, volume)
    for copy in s.client.pages(f"{base(s)}/{row['id']}/snapshots"):
        if name in {copy["id"], copy["name"]}:
            return row, copy
    raise ApiError(f"{volume} has no snapshot called {name}.", EXIT_NOT_FOUND)


@click.group()
def transfer() -> None:
    """Hand a volume to another project; an owner on both sides agrees."""


@transfer.command("ask")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("to", metavar="PROJECT")
@click.option("--message", default="", help="For the owners there.")
@options
@click.pass_context
def transfer_ask(ctx: click.Context, volume: str, to: str, message: str) -> None:
    """Offer a volume to another project."""
    s = session(ctx)
    path = f"{base(s)}/{find(s, volume)['id']}/transfer"
    emit(s.client.post(path, {"to": to, "message": message}), fmt=s.fmt, columns=_OFFERS)


@transfer.command("withdraw")
@click.argument("volume", shell_complete=completing.volumes)
@options
@click.pass_context
def transfer_withdraw(ctx: click.Context, volume: str) -> None:
    """Take an offer back."""
    s = session(ctx)
    s.client.call("DELETE", f"{base(s)}/{find(s, volume)['id']}/transfer")
    click.echo("The offer is taken back.", err=True)


@transfer.command("inbox")
@options
@click.pass_context
def transfer_inbox(ctx: click.Context) -> None:
    """List what other projects offer to this one."""
    s = session(ctx)
    rows = list(s.client.pages(f"projects/{s.project}/volume-transfers"))
    emit(rows, fmt=s.fmt, columns=_OFFERS)


@transfer.command("accept")
@click.argument("offer", type=click.UUID)
@click.option("--as", "new_name", help="Another name, when its own is taken here.")
@options
@click.pass_context
def transfer_accept(ctx: click.Context, offer: UUID, new_name: str | None) -> None:
    """Take a volume over that was offered to this project."""
    s = session(ctx)
    body = {"name": new_name} if new_name else {}
    path = f"projects/{s.project}/volume-transfers/{offer}/accept"
    emit(s.client.post(path, body), fmt=s.fmt, columns=ONE)


@transfer.command("decline")
@click.argument("offer", type=click.UUID)
@options
@click.pass_context
def transfer_decline(ctx: click.Context, offer: UUID) -> None:
    """Leave an offered volume where it is."""
    s = session(ctx)
    path = f"projects/{s.project}/volume-transfers/{offer}/decline"
    emit(s.client.post(path), fmt=s.fmt, columns=_OFFERS)
