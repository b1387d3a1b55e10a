"""Copies of a volume, and handing it over."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click

from berth_cli import completing
from berth_cli.context import Session, with_session
from berth_cli.naming import among, confirm
from berth_cli.output import moment
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
@with_session
def snapshot_list(s: Session, volume: str) -> None:
    """List the snapshots of a volume."""
    s.show(list(s.client.pages(f"{base(s)}/{find(s, volume)['id']}/snapshots")), _COPIES)


@snapshot.command("create")
@click.argument("volume", shell_complete=completing.volumes)
@click.option("--name", default="", help="Made from the time if not given.")
@click.option("--description", default="", help="What it keeps.")
@with_session
def snapshot_create(s: Session, volume: str, name: str, description: str) -> None:
    """Keep a volume as it is now."""
    path = f"{base(s)}/{find(s, volume)['id']}/snapshots"
    made = s.client.post(path, {"name": name, "description": description})
    s.show(made, _COPIES)


@snapshot.command("restore")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for the volume's name.")
@with_session
def snapshot_restore(s: Session, volume: str, name: str, *, yes: bool) -> None:
    """Put a snapshot in place of what the volume holds now."""
    row, copy = _copy(s, volume, name)
    confirm(f"What {row['name']} holds now is lost.", row["name"], yes=yes)
    path = f"{base(s)}/{row['id']}/snapshots/{copy['id']}/restore"
    s.show(s.client.post(path), ONE)


@snapshot.command("delete")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("name")
@with_session
def snapshot_delete(s: Session, volume: str, name: str) -> None:
    """Remove a snapshot; the volume stays as it is."""
    row, copy = _copy(s, volume, name)
    answer = s.client.call("DELETE", f"{base(s)}/{row['id']}/snapshots/{copy['id']}")
    s.show(answer, _COPIES)


def _copy(s: Session, volume: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    row = find(s, volume)
    copies = s.client.pages(f"{base(s)}/{row['id']}/snapshots")
    none = f"{volume} has no snapshot called {name}."
    return row, among(copies, name, what="snapshot", none=none)


@click.group()
def transfer() -> None:
    """Hand a volume to another project; an owner on both sides agrees."""


@transfer.command("ask")
@click.argument("volume", shell_complete=completing.volumes)
@click.argument("to", metavar="PROJECT")
@click.option("--message", default="", help="For the owners there.")
@with_session
def transfer_ask(s: Session, volume: str, to: str, message: str) -> None:
    """Offer a volume to another project."""
    path = f"{base(s)}/{find(s, volume)['id']}/transfer"
    s.show(s.client.post(path, {"to": to, "message": message}), _OFFERS)


@transfer.command("withdraw")
@click.argument("volume", shell_complete=completing.volumes)
@with_session
def transfer_withdraw(s: Session, volume: str) -> None:
    """Take an offer back."""
    s.client.call("DELETE", f"{base(s)}/{find(s, volume)['id']}/transfer")
    click.echo("The offer is taken back.", err=True)


@transfer.command("inbox")
@with_session
def transfer_inbox(s: Session) -> None:
    """List what other projects offer to this one."""
    s.show(list(s.client.pages(f"projects/{s.project}/volume-transfers")), _OFFERS)


@transfer.command("accept")
@click.argument("offer", type=click.UUID)
@click.option("--as", "new_name", help="Another name, when its own is taken here.")
@with_session
def transfer_accept(s: Session, offer: UUID, new_name: str | None) -> None:
    """Take a volume over that was offered to this project."""
    body = {"name": new_name} if new_name else {}
    path = f"projects/{s.project}/volume-transfers/{offer}/accept"
    s.show(s.client.post(path, body), ONE)


@transfer.command("decline")
@click.argument("offer", type=click.UUID)
@with_session
def transfer_decline(s: Session, offer: UUID) -> None:
    """Leave an offered volume where it is."""
    path = f"projects/{s.project}/volume-transfers/{offer}/decline"
    s.show(s.client.post(path), _OFFERS)
