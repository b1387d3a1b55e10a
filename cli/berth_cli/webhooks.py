"""Webhooks: addresses that are told what people are told."""

from __future__ import annotations

from typing import Any

import click

from berth_cli.context import Session, with_session
from berth_cli.naming import among, is_uid
from berth_cli.output import moment


def _state(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return "switched off by Berth" if row["given_up_at"] else "off"
    return "failing" if row["failing_since"] else "on"


_COLUMNS: Any = (
    ("NAME", lambda r: r["name"]),
    ("ADDRESS", lambda r: r["address"]),
    ("STATE", _state),
    ("IS TOLD", lambda r: ", ".join(r["kinds"]) or "everything"),
    ("ID", lambda r: r["id"]),
)
_MADE: Any = (*_COLUMNS, ("SECRET (told once)", lambda r: r["secret"]))
_DELIVERIES: Any = (
    ("WHEN", lambda r: moment(r["created_at"])),
    ("KIND", lambda r: r["kind"]),
    ("STATE", lambda r: r["state"]),
    ("ATTEMPTS", lambda r: r["attempts"]),
    ("HOW IT WENT", lambda r: r["message"]),
    ("EVENT", lambda r: r["event"]),
)


@click.group()
def webhooks() -> None:
    """Webhooks: tell your chat, or a program, what happens to the project's work."""


def _own(command: Any) -> Any:
    text = "Your own, told what you are told, instead of the project's."
    return click.option("--own", is_flag=True, help=text)(command)


def _base(s: Session, *, own: bool) -> str:
    return "me/webhooks" if own else f"projects/{s.project}/webhooks"


def _find(s: Session, name: str, *, own: bool) -> str:
    base = _base(s, own=own)
    if is_uid(name):
        return f"{base}/{name}"
    none = f"There is no webhook called {name}."
    return f"{base}/{among(s.client.pages(base), name, what='webhook', none=none)['id']}"


@webhooks.command("list")
@_own
@with_session
def webhooks_list(s: Session, *, own: bool) -> None:
    """List webhooks and whether they deliver."""
    s.show(list(s.client.pages(_base(s, own=own))), _COLUMNS)


@webhooks.command("create")
@click.argument("name")
@click.option("--kind", "kinds", multiple=True, help="Of what it is told; several times. Else all.")
@_own
@with_session
def webhooks_create(s: Session, name: str, kinds: tuple[str, ...], *, own: bool) -> None:
    """Make a webhook called NAME; its address is asked for, as it may open something by itself.

    The address can come through a pipe too. The secret that signs is printed this once.
    """
    url = click.prompt("Address", hide_input=True, err=True).strip()
    body = {"name": name, "url": url, "kinds": list(kinds)}
    made = s.client.call("POST", _base(s, own=own), json_body=body)
    s.show([made] if s.fmt == "table" else made, _MADE)


@webhooks.command("change")
@click.argument("name")
@click.option("--name", "new_name", help="Another name.")
@click.option("--address", is_flag=True, help="Ask for another address.")
@click.option("--kind", "kinds", multiple=True, help="Of what it is told; several times.")
@click.option("--everything", is_flag=True, help="It is told everything.")
@click.option("--on/--off", "enabled", default=None, help="Whether anything is sent.")
@_own
@with_session
def webhooks_change(  # noqa: PLR0913 - an option each
    s: Session,
    name: str,
    new_name: str | None,
    kinds: tuple[str, ...],
    *,
    address: bool,
    everything: bool,
    enabled: bool | None,
    own: bool,
) -> None:
    """Change the webhook NAME (or its id)."""
    if kinds and everything:
        raise click.UsageError("Either --kind or --everything.")
    body: dict[str, Any] = {"name": new_name, "enabled": enabled}
    body["kinds"] = list(kinds) if kinds or everything else None
    if address:
        body["url"] = click.prompt("Address", hide_input=True, err=True).strip()
    changes = {key: value for key, value in body.items() if value is not None}
    made = s.client.call("PATCH", _find(s, name, own=own), json_body=changes)
    s.show([made] if s.fmt == "table" else made, _COLUMNS)


@webhooks.command("rotate")
@click.argument("name")
@_own
@with_session
def webhooks_rotate(s: Session, name: str, *, own: bool) -> None:
    """Replace the secret of NAME and print the new one."""
    click.echo(s.client.call("POST", f"{_find(s, name, own=own)}/secret")["secret"])


@webhooks.command("test")
@click.argument("name")
@_own
@with_session
def webhooks_test(s: Session, name: str, *, own: bool) -> None:
    """Send a test; "berth webhooks deliveries NAME" tells how it went."""
    s.client.call("POST", f"{_find(s, name, own=own)}/test")
    click.echo("On its way.")


@webhooks.command("deliveries")
@click.argument("name")
@click.option("--last", type=click.IntRange(1, 1000), default=20, help="So many; else 20.")
@_own
@with_session
def webhooks_deliveries(s: Session, name: str, last: int, *, own: bool) -> None:
    """Show what was sent to NAME, the newest first."""
    rows = s.client.pages(f"{_find(s, name, own=own)}/deliveries")
    s.show([row for row, _n in zip(rows, range(last), strict=False)], _DELIVERIES)


@webhooks.command("delete")
@click.argument("name")
@_own
@with_session
def webhooks_delete(s: Session, name: str, *, own: bool) -> None:
    """Delete the webhook NAME (or its id)."""
    s.client.call("DELETE", _find(s, name, own=own))
    click.echo("Deleted.")
