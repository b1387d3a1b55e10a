"""The API's only ways in. Every view of the product's API builds on one of these classes.

* ``ProjectAPIView`` / ``ProjectViewSet``: routes with a ``project`` slug. Declare
  ``required_permissions`` per verb or per action; what is not declared is refused (405).
  Handlers find ``self.project``, ``self.principal`` and ``self.can(permission)``.
* ``PlatformAPIView`` / ``PlatformViewSet``: all other routes. Declare ``required_platform``:
  "user", "auditor" or "operator", for all verbs or per verb or action.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from accounts.principal import Principal, principal_of
from common.errors import Forbidden
from projects import idempotency
from projects.access import Entry, Permission, project_enter
from projects.models import Project


class BerthAPIMixin:
    """What both families share: the principal, refusal of undeclared verbs, idempotency."""

    principal: Principal
    request: Request
    _held: idempotency.Held | None = None

    @classmethod
    def declared(cls, verb: str, action: str = "") -> Any:
        """Return what ``verb`` (or the viewset's ``action``) demands; None = refused."""
        raise NotImplementedError

    def enter(self, demand: Any, kwargs: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not idempotency.key_of(request):
            return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        with transaction.atomic():
            response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
            if self._held is not None and response.status_code < 400:  # noqa: PLR2004
                idempotency.keep(self._held, response)
            else:
                # a refusal keeps neither the key nor anything half-made
                transaction.set_rollback(True)
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        verb = "GET" if request.method == "HEAD" else str(request.method)
        demand = self.declared(verb, getattr(self, "action", None) or "")
        if demand is None or not hasattr(self, verb.lower()):
            raise MethodNotAllowed(str(request.method))
        self.principal = principal_of(request._request)  # noqa: SLF001 - where it was put
        self.enter(demand, kwargs)
        if key := idempotency.key_of(request):
            self._held = idempotency.claim(who=self.principal, request=request, key=key)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, idempotency.Replay):
            self._held = None
            return exc.response
        return super().handle_exception(exc)  # type: ignore[misc, no-any-return]


class ProjectAPIMixin(BerthAPIMixin):
    required_permissions: ClassVar[Mapping[str, Permission]] = {}
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


class PlatformAPIMixin(BerthAPIMixin):
    required_platform: ClassVar[str | Mapping[str, str]] = ""

    @classmethod
    def declared(cls, verb: str, action: str = "") -> str | None:
        if isinstance(cls.required_platform, str):
            return cls.required_platform or None
        return cls.required_platform.get(action) or cls.required_platform.get(verb)

    def enter(self, demand: str, kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002
        require_platform(self.principal, demand)


class PlatformAPIView(PlatformAPIMixin, GenericAPIView):
    """A view outside projects."""


class PlatformViewSet(PlatformAPIMixin, GenericViewSet):
    """A viewset outside projects."""


def require_platform(who: Principal, demand: str) -> None:
    """Raise Forbidden unless ``who`` is a "user", "auditor" or "operator" as demanded."""
    allowed = {
        "user": who.user.is_active,
        "auditor": who.is_auditor,
        "operator": who.is_operator,
    }[demand]
    if allowed:
        return
    if demand == "operator":
        raise Forbidden(_("Only operators may do this."))
    raise Forbidden(_("Only operators and auditors may see this."))
