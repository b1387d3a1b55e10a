"""Images: what is known of one before anything starts with it."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import click

from berth_cli.client import EXIT_ERROR, EXIT_TIMEOUT, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Waiting, waiting
from berth_cli.following import patiently
from berth_cli.output import size

_PAUSE_S = 3.0
_WORDS = {"good": "can be used", "bad": "can't be used", "unknown": "not checked"}


@click.group()
def images() -> None:
    """Images: look at one before anything starts with it."""


@images.command("check")
@click.argument("image")
@click.option(
    "--kind",
    type=click.Choice(["notebook", "container"]),
    default="notebook",
    show_default=True,
    help="What it is to be used for.",
)
@click.option("--cluster", help="Where it would run; chosen as a start would if not given.")
@waiting
@with_session
def check(s: Session, image: str, kind: str, cluster: str | None, *, wanted: Waiting) -> None:
    """Say whether IMAGE exists, fits the machines, and has what its kind needs.

    A notebook needs jupyterhub, for which the image itself is asked: --wait waits for that.
    """
    body = {"image": image, "kind": kind, "cluster": cluster or ""}
    found = _found(s, body, wanted)
    s.show(found, _COLUMNS)
    if found["verdict"] == "bad":
        sys.exit(EXIT_ERROR)  # why stands above


def _found(s: Session, body: dict[str, Any], wanted: Waiting) -> dict[str, Any]:
    """Ask, and again while the image's own program is asked."""
    deadline = time.monotonic() + wanted.timeout
    ask = partial(s.client.post, f"projects/{s.project}/images/check", body)
    while True:
        found: dict[str, Any] = patiently(ask, deadline=deadline)
        if not (wanted.wait and found["probing"]):
            return found
        if time.monotonic() > deadline:
            said = f"Still looking for jupyterhub in it after {wanted.timeout:.0f} s; it goes on."
            raise ApiError(said, EXIT_TIMEOUT)
        time.sleep(_PAUSE_S)


def _jupyterhub(found: dict[str, Any]) -> str:
    if found["probing"]:
        return "being looked for; --wait waits for it"
    return str(found["singleuser"])


_COLUMNS: Any = (
    ("IMAGE", lambda r: r["reference"]),
    ("VERDICT", lambda r: _WORDS.get(r["verdict"], r["verdict"])),
    ("WHY", lambda r: r["message"]),
    ("SIZE", lambda r: size(r["size_bytes"] or None)),
    ("MACHINES", lambda r: r["architectures"]),
    ("JUPYTERHUB", _jupyterhub),
    ("PINNED", lambda r: r["pinned"]),
    ("NOTES", lambda r: r["warnings"]),
)
