"""The API of endpoints, mounted below /api/v1/: that of any kind, with what serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from serving.kind import ENDPOINT
from serving.states import STATES
from work.api.kinds import Api
from work.api.views import urls_for

if TYPE_CHECKING:
    from serving.models import Endpoint


def _own(row: Endpoint) -> dict[str, Any]:
    return {"replicas": row.replicas, "canary_percent": row.canary_percent}


API = Api(
    kind=ENDPOINT,
    states=STATES,
    own=_own,
    own_shape={
        "replicas": serializers.IntegerField(help_text="how many are wanted now"),
        "canary_percent": serializers.IntegerField(help_text="of requests, that go to its canary"),
    },
)
urlpatterns = urls_for(API)
