"""The API's way into a project. Every view with a ``project`` in its route builds on these.

``ProjectAPIView``: declare ``required_permissions`` per verb; what is not declared is refused
(405). Handlers find ``self.project``, ``self.principal`` and ``self.can(permission)``. Routes
outside projects use ``PlatformAPIView`` (``common.drf.views``, typed here for upper apps).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request

from accounts.principal import Principal
from common.drf import views as common
from common.drf.serializers import StrictSerializer
from projects.access import Entry, Permission, project_enter
from projects.models import Project
from projects.others import REASON_MAX


class ProjectAPIMixin(common.BerthAPIMixin):
    required_permissions: ClassVar[Mapping[str, Permission]] = {}
    principal: Principal
    project: Project
    entry: Entry

    @classmethod
    def declared(cls, verb: str) -> Permission | None:
        return cls.required_permissions.get(verb)

    def enter(self, demand: Permission, kwargs: Mapping[str, Any]) -> None:
        self.entry = project_enter(self.principal, kwargs["project"], demand)
        self.project = self.entry.project

    def can(self, permission: Permission) -> bool:
        return self.entry.can(permission)


class ProjectAPIView(ProjectAPIMixin, GenericAPIView):
    """A view below ``/api/v1/projects/<slug:project>/``."""


class PlatformAPIView(common.PlatformAPIView):
    """A view outside projects."""

    principal: Principal


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
