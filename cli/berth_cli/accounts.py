"""Signing in, who am I, tokens."""

from __future__ import annotations

import platform
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from berth_cli import completing, config
from berth_cli.client import EXIT_SIGN_IN, EXIT_TIMEOUT, ApiError, Client
from berth_cli.context import Session, session, with_session
from berth_cli.output import age, moment

_PENDING = (428, 429)  # nobody has approved it yet; asked too early


@click.command()
@click.argument("server", required=False)
@click.option("--token-stdin", is_flag=True, help="Read an API token from standard input.")
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@click.pass_context
def login(ctx: click.Context, server: str | None, *, token_stdin: bool, no_browser: bool) -> None:
    """Sign in to a portal: approve this terminal in the browser, or bring a token."""
    known = session(ctx).profile.server  # read first: where it is broken nothing can be kept
    address = (server or known or "http://localhost:8000").rstrip("/")
    if token_stdin:
        token = sys.stdin.readline().strip()
    else:
        token = _by_device(Client(address), open_browser=not no_browser)
    me = Client(address, token).get("me")
    config.remember(address, token=token)
    click.echo(f"Signed in to {address} as {me['username']}.")


def _by_device(client: Client, *, open_browser: bool) -> str:
    # the page shows it, so that one approves one's own terminal and no other
    asked = client.post("auth/device", {"client": f"berth on {platform.node()}"[:120]})
    click.echo(
        f"Open {asked['verification_uri_complete']}\nand confirm {asked['user_code']}", err=True
    )
    if open_browser:
        import webbrowser

        webbrowser.open(asked["verification_uri_complete"])
    deadline = time.monotonic() + float(asked["expires_in"])
    while time.monotonic() < deadline:
        time.sleep(float(asked["interval"]))
        try:
            return str(
                client.post("auth/device/token", {"device_code": asked["device_code"]})["token"]
            )
        except ApiError as error:
            if error.status not in _PENDING:
                raise
    raise ApiError("Nobody confirmed in time. Run berth login again.", EXIT_TIMEOUT)


@click.command()
@with_session
def logout(s: Session) -> None:
    """Forget the token of this portal (revoke it with `berth token revoke`)."""
    server = s.profile.server
    if not server:
        raise ApiError("You are not signed in anywhere.", EXIT_SIGN_IN)
    config.forget(server)
    click.echo(f"Signed out of {server}.")


@click.command()
@with_session
def whoami(s: Session) -> None:
    """Show who you are to this portal."""
    s.show(
        s.client.get("me"),
        (
            ("User", lambda r: r["username"]),
            ("Name", lambda r: r.get("display_name")),
            ("E-mail", lambda r: r.get("email")),
            ("Platform role", lambda r: r.get("platform_role")),
            ("Portal", lambda _r: s.profile.server),
        ),
    )


_TOKEN_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("PREFIX", lambda r: r["prefix"]),
    ("AGE", lambda r: age(r["created_at"])),
    ("READ-ONLY", lambda r: r["read_only"]),
    ("EXPIRES", lambda r: moment(r.get("expires_at"))),
    ("LAST USED", lambda r: moment(r.get("last_used_at"))),
)


@click.group()
def token() -> None:
    """API tokens: keys for scripts."""


@token.command("list")
@with_session
def token_list(s: Session) -> None:
    """List your tokens."""
    s.show(list(s.client.pages("me/tokens")), _TOKEN_COLUMNS)


@token.command("create")
@click.argument("name")
@click.option("--read-only", is_flag=True, help="The token may look and change nothing.")
@click.option("--scope", "scopes", multiple=True, help="Limit to a right; may be repeated.")
@click.option("--only-project", "projects", multiple=True, help="Limit to a project.")
@click.option(
    "--days",
    type=click.IntRange(1, 365),
    default=90,
    show_default=True,
    help="How long it is good.",
)
@with_session
def token_create(
    s: Session,
    name: str,
    *,
    read_only: bool,
    scopes: tuple[str, ...],
    projects: tuple[str, ...],
    days: int,
) -> None:
    """Make a token. It is shown once."""
    made = s.client.post(
        "me/tokens",
        {
            "name": name,
            "read_only": read_only,
            "scopes": list(scopes),
            "project_uids": [s.client.get(f"projects/{slug}")["id"] for slug in projects],
            "expires_at": (datetime.now(UTC) + timedelta(days=days)).isoformat(),
        },
    )
    if s.fmt == "table":
        click.echo(made["token"])
        click.echo("Keep it now: it is not shown again.", err=True)
    else:
        s.show(made)


@token.command("revoke")
@click.argument("token_id", shell_complete=completing.own_tokens)
@with_session
def token_revoke(s: Session, token_id: str) -> None:
    """Revoke a token at once."""
    s.client.call("DELETE", f"me/tokens/{token_id}")
    click.echo("Revoked.", err=True)
