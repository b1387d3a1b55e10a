"""The API's way into a project. Every view with a ``project`` in its route builds on these.

``ProjectAPIView`` / ``ProjectViewSet``: declare ``required_permissions`` per verb or per
action; what is not declared is refused (405). Handlers find ``self.project``,
``self.principal`` and ``self.can(permission)``. Routes outside projects use
``PlatformAPIView`` / ``PlatformViewSet`` (``common.drf.viewsets``, typed here for upper apps).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from accounts.principal import Principal
from common.drf import viewsets
from common.drf.serializers import StrictSerializer
from projects.access import Entry, Permission, project_enter
from projects.models import Project
from projects.others import REASON_MAX


class ProjectAPIMixin(viewsets.BerthAPIMixin):
    required_permissions: ClassVar[Mapping[str, Permission]] = {}
    principal: Principal
    project: Project
    entry: Entry

    @classmethod
    def declared(cls, verb: str, action: str = "") -> Permission | None:
        found = cls.required_permissions.get(action) if action else None
        return found or cls.required_permissions.get(verb)

    def enter(self, demand: Permission, kwargs: Mapping[str, Any]) -> None:
        self.entry = project_enter(self.principal, kwargs["project"], demand)
        self.project = self.entry.project

    def can(self, permission: Permission) -> bool:
        return self.entry.can(permission)


class ProjectAPIView(ProjectAPIMixin, GenericAPIView):
    """A view below ``/api/v1/projects/<slug:project>/``."""


class ProjectViewSet(ProjectAPIMixin, GenericViewSet):
    """A viewset below ``/api/v1/projects/<slug:project>/``; permissions per action."""


class PlatformAPIView(viewsets.PlatformAPIView):
    """A view outside projects."""

    principal: Principal


class PlatformViewSet(viewsets.PlatformViewSet):
    """A viewset outside projects."""

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
