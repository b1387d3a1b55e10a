"""Things by their ids or names, and what is typed before one of them goes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

import click

from berth_cli.client import EXIT_NOT_FOUND, EXIT_USAGE, ApiError
from berth_cli.context import Session
from berth_cli.output import printable


def is_uid(word: str) -> bool:
    try:
        return bool(UUID(word))
    except ValueError:
        return False


def one_of(s: Session, path: str, name: str, what: str) -> dict[str, Any]:
    """Return one thing below ``path`` by id, or by name when only one has it.

    One that is being deleted counts last: its name may have been given anew.
    """
    if is_uid(name) and (found := _by_id(s, path, name)) is not None:
        return found
    rows = s.client.pages(path, q=name[:80])  # finds short ids too, refuses nobody
    none = f"There is no {what} called {name} in {s.project}."
    found = among(rows, name, what=what, none=none)
    return dict(s.client.get(f"{path}/{found['id']}"))  # a list may tell less


def among(rows: Iterable[dict[str, Any]], name: str, *, what: str, none: str) -> dict[str, Any]:
    """Return the one of that id or, if only one has it, of that name; ``none``: said of none."""
    rows = list(rows)
    same = [row for row in rows if row["id"] == name] or [r for r in rows if r["name"] == name]
    live = [row for row in same if row.get("desired") != "absent"] or same
    if not live:
        raise ApiError(none, EXIT_NOT_FOUND)
    if len(live) > 1:
        ids = ", ".join(row["id"] for row in live)
        raise ApiError(f"Several {what}s are called {name}: {ids}", EXIT_USAGE)
    return live[0]


def _by_id(s: Session, path: str, name: str) -> dict[str, Any] | None:
    try:
        return dict(s.client.get(f"{path}/{name}"))
    except ApiError as error:
        # not allowed: a name that is also a word of the API, as "apply"
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            raise
        return None


@contextlib.contextmanager
def telling_credentials_apart(
    s: Session, names: Sequence[str], kinds: Sequence[str | None] = (None,)
) -> Iterator[None]:
    """Name those that share a name, where the portal refuses to choose among them.

    One's own and a project's may be called the same. ``kinds``: None is what work can be given.
    """
    try:
        yield
    except ApiError as error:
        fields = error.problem.get("fields") or {}
        said = _same_names(s, names, kinds) if {"credential", "credentials"} & set(fields) else []
        if not said:
            raise
        words = "\n".join([str(error), *said])
        raise ApiError(
            words, error.exit_code, status=error.status, problem=error.problem
        ) from error


def _same_names(s: Session, names: Sequence[str], kinds: Sequence[str | None]) -> list[str]:
    path = f"projects/{s.project}/credentials/usable"
    try:
        usable = [row for kind in kinds for row in s.client.pages(path, kind=kind)]
    except ApiError:  # what the portal said first matters more
        return []
    called = [row["name"] for row in usable]
    return [
        f"  --credential {row['id']}: {'yours' if row['personal'] else 'of the project'}, "
        f"{row['kind']}, {row['name']}"
        for row in usable
        if row["name"] in names and called.count(row["name"]) > 1
    ]


def confirm(question: str, name: str, *, yes: bool, outcome: str = "changed") -> None:
    """Ask for the name, unless that was answered already by ``--yes``."""
    asked = f"{printable(question)} Type its name to confirm"
    if not yes and click.prompt(asked, err=True) != name:
        raise ApiError(f"The name differs; nothing was {outcome}.", EXIT_USAGE)


yes_option = click.option("--yes", is_flag=True, help="Do not ask for the name.")
# Ends work that may be somebody else's; the portal asks for a reason where it is.
why = click.option(
    "--reason", default="", metavar="TEXT", help="Why, where it is not yours: its owner is told."
)


def without_none(said: dict[str, Any]) -> dict[str, Any]:
    """Return what was said."""
    return {name: value for name, value in said.items() if value is not None}


def given(reason: str) -> dict[str, str] | None:
    """Return what a call takes that ends work."""
    return {"reason": reason} if reason else None
