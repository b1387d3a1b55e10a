"""What the views of this app share."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts import scopes
from accounts.principal import Principal
from common.drf.viewsets import PlatformAPIView
from common.errors import Forbidden


class AccountView(PlatformAPIView):
    """The own account. A limited token needs ``account:read`` or ``account:manage``."""

    required_platform: ClassVar[str | Mapping[str, str]] = "user"
    principal: Principal

    def enter(self, demand: str, kwargs: Mapping[str, Any]) -> None:
        super().enter(demand, kwargs)
        reads = self.request.method in {"GET", "HEAD"}
        scope = scopes.ACCOUNT_READ if reads else scopes.ACCOUNT_MANAGE
        if not self.principal.allows_scope(scope):
            raise Forbidden(_("This token lacks the scope “%s”.") % scope)


class NeverStored:
    """Answers with a secret must not be kept for Idempotency-Key: every call acts anew."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        request.META.pop("HTTP_IDEMPOTENCY_KEY", None)
        request.__dict__.pop("headers", None)
        response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        response["Cache-Control"] = "no-store"
        return response
