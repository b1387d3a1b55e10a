"""The audit log as a file: CSV for people, JSON lines for other systems."""

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from events.models import Event

HEAD = (
    "id",
    "at",
    "actor",
    "via",
    "ip",
    "request_id",
    "verb",
    "outcome",
    "project_uid",
    "target_kind",
    "target_uid",
    "target_name",
    "message",
)


def row_of(event: Event) -> tuple[Any, ...]:
    return (
        event.pk,
        event.at.isoformat(),
        event.actor_name,
        event.via,
        event.ip,
        event.request_id,
        event.verb,
        event.outcome,
        event.project_uid or "",
        event.target_kind,
        event.target_uid,
        event.target_name,
        event.message,
    )


def csv_rows(rows: QuerySet[Event]) -> Iterator[tuple[Any, ...]]:
    for event in rows.iterator(chunk_size=500):
        yield row_of(event)


def json_lines(rows: QuerySet[Event]) -> Iterator[str]:
    for event in rows.iterator(chunk_size=500):
        named = dict(zip(HEAD, row_of(event), strict=True))
        yield json.dumps({**named, "data": event.data}, default=str, ensure_ascii=False)
