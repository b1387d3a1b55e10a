"""The API of the least kind of work, beside everything else."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, TextChoices
from django.urls import include, path

from portal.urls import urlpatterns as portal
from runtime.protocol import Phase
from tests.work.tiny.kind import TINY
from work import why
from work.api.kinds import Api
from work.api.views import urls_for
from work.kinds import States
from work.why import Why

OVER = frozenset({Phase.STOPPED.value, Phase.FAILED.value})


def _why_of(row: Any) -> Why:
    return Why(str(why.info_of(row.reason, row.cluster_key).text), row.message)


API = Api(
    kind=TINY,
    states=States(
        words=TextChoices("State", [(phase.name, phase.value) for phase in Phase]),
        of=lambda row: row.phase,
        over=OVER,
        filters={"over": Q(phase__in=OVER)},
        why=_why_of,
        advice=lambda row: str(why.info_of(row.reason, row.cluster_key).advice),
    ),
)
urlpatterns = [path("api/v1/", include(urls_for(API))), *portal]
