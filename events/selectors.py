"""Reading what happened, as rows or as a file: CSV for people, JSON lines for other systems."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from events.models import Event
from events.verbs import verbs_said_as

TOLD = 100  # on a page of one thing, of its events as of its steps


def nothing() -> QuerySet[Event]:
    return Event.objects.none()


def of_project(project_uid: UUID) -> QuerySet[Event]:
    """Return what members of a project may see of it, newest first.

    Refusals are for auditors: they tell of people, not of the project.
    """
    return Event.objects.filter(project_uid=project_uid).exclude(outcome="denied").order_by("-id")


def of_target(uid: object) -> QuerySet[Event]:
    return Event.objects.filter(target_uid=str(uid)).exclude(outcome="denied").order_by("-id")


def newest(rows: QuerySet[Any]) -> tuple[list[Any], bool]:
    """Return as many as a page tells, and whether there are more; nothing more is asked for it."""
    found = list(rows[: TOLD + 1])
    return found[:TOLD], len(found) > TOLD


def of_verb(verb: str) -> QuerySet[Event]:
    """Return every time that this was done. For services that go by what once was, not pages."""
    return Event.objects.filter(verb=verb, outcome="done").order_by("-id")


def audit(
    *,
    search: str = "",
    verb: str = "",
    actor: str = "",
    outcome: str = "",
    project_uid: UUID | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Event]:
    """Return the audit log, newest first; for operators and auditors only."""
    rows = Event.objects.order_by("-id")
    if search:
        rows = rows.filter(
            Q(target_name__icontains=search)
            | Q(message__icontains=search)
            | Q(target_uid=search)
            | Q(request_id=search)
        )
    if verb:
        rows = rows.filter(Q(verb__startswith=verb) | Q(verb__in=verbs_said_as(verb)))
    if actor:
        rows = rows.filter(actor_name=actor)
    if outcome:
        rows = rows.filter(outcome=outcome)
    if project_uid is not None:
        rows = rows.filter(project_uid=project_uid)
    if since is not None:
        rows = rows.filter(at__gte=since)
    return rows.filter(at__lt=until) if until is not None else rows


HEAD = (
    *("id", "at", "actor", "via", "ip", "request_id", "verb", "outcome"),
    *("project_uid", "target_kind", "target_uid", "target_name", "message"),
)


def row_of(event: Event) -> tuple[Any, ...]:
    said = {
        "id": event.pk,
        "at": event.at.isoformat(),
        "actor": event.actor_name,
        "project_uid": event.project_uid or "",
    }
    return tuple(said[name] if name in said else getattr(event, name) for name in HEAD)


def csv_rows(rows: QuerySet[Event]) -> Iterator[tuple[Any, ...]]:
    for event in rows.iterator(chunk_size=500):
        yield row_of(event)


def json_lines(rows: QuerySet[Event]) -> Iterator[str]:
    for event in rows.iterator(chunk_size=500):
        named = dict(zip(HEAD, row_of(event), strict=True))
        yield json.dumps({**named, "data": event.data}, default=str, ensure_ascii=False)
