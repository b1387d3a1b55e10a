"""The event stream of the pages: who may listen to which topic."""

from typing import Any
from uuid import UUID

from accounts.principal import Principal
from projects.access import Permission, projects_visible_to, scoped
from runtime.sse import make_stream
from volumes.models import Volume
from work import kinds
from work.models import Workload


def authorise(user: Any, ip: str, topics: list[str]) -> list[str]:
    """Return those of ``topics`` that the person may hear of now. One query for each kind."""
    who = Principal(user=user, ip=ip)
    asked: dict[str, set[str]] = {}
    for topic in topics:
        kind, _colon, key = topic.partition(":")
        asked.setdefault(kind, set()).add(key)
    allowed = {f"user:{who.user.uid}"}
    if who.is_auditor:
        allowed.add("operators")
    if uids := _uids(asked.get("project", set())):
        found = projects_visible_to(who).filter(uid__in=uids).values_list("uid", flat=True)
        allowed |= {f"project:{uid}" for uid in found}
    for one in kinds.kinds():
        if uids := _uids(asked.get(one.word, set())):
            rows = scoped(Workload.objects.filter(kind=one.word), who, one.read)
            shown = rows.filter(uid__in=uids).values_list("uid", flat=True)
            allowed |= {f"{one.word}:{uid}" for uid in shown}
    if uids := _uids(asked.get("volume", set())):
        volumes = scoped(Volume.objects.all(), who, Permission.VOLUME_READ)
        seen = volumes.filter(uid__in=uids).values_list("uid", flat=True)
        allowed |= {f"volume:{uid}" for uid in seen}
    return [topic for topic in topics if topic in allowed]


def _uids(keys: set[str]) -> list[UUID]:
    found = []
    for key in keys:
        try:
            found.append(UUID(key))
        except ValueError:
            continue
    return found


stream = make_stream(authorise)
