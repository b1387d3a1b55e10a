"""What the API takes for acts on the work of somebody else."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from common.drf.serializers import StrictSerializer
from projects.others import REASON_MAX

# DELETE carries no body.
REASON = OpenApiParameter(
    "reason", str, description="Why; needed where it is somebody else's, who is told it."
)


class ReasonIn(StrictSerializer):
    reason = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=REASON_MAX,
        help_text=_("Why; needed where it is somebody else's, who is told it."),
    )


def reason_in(request: Request) -> str:
    """Return the reason that the body of a POST, or the address of a DELETE, gives."""
    if request.method == "DELETE":
        return request.query_params.get("reason", "")
    if "json" not in (request.content_type or ""):
        return ""  # no body, or one that nobody reads
    given: Any = ReasonIn(data=request.data)
    given.is_valid(raise_exception=True)
    return str(given.validated_data["reason"])
