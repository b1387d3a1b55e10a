"""Narrowing lists; the same words in the page's address, the API and the CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from runtime.protocol import Desired
from volumes.choices import VolumeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from volumes.models import Volume

MOST = 80


def narrowed(rows: QuerySet[Volume], who: Principal, said: Mapping[str, str]) -> QuerySet[Volume]:
    """Return those of ``rows`` that fit; a filter that makes no sense narrows nothing."""
    if words := _text(said, "q"):
        rows = rows.filter(Q(name__icontains=words) | Q(description__icontains=words))
    if (kind := _text(said, "kind")) in VolumeKind.values:
        rows = rows.filter(kind=kind)
    if cluster := _text(said, "cluster"):
        rows = rows.filter(cluster_key=cluster)
    if key := _text(said, "class"):
        rows = rows.filter(volume_class__key=key)
    if _text(said, "mine") in {"1", "true"}:
        rows = rows.filter(Q(owner=who.user) | Q(created_by=who.user))
    if _text(said, "deleted") in {"1", "true"}:
        rows = rows.filter(desired=Desired.ABSENT)
    return rows


def _text(said: Mapping[str, str], name: str) -> str:
    return str(said.get(name) or "").replace("\x00", "").strip()[:MOST]
