"""What the views of this app share."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest

from accounts import scopes
from accounts.principal import Principal
from common.drf.viewsets import PlatformAPIView


class AccountView(PlatformAPIView):
    """The own account. A limited token needs ``account:read`` or ``account:manage``."""

    required_platform: ClassVar[str | Mapping[str, str]] = "user"
    limited_tokens: ClassVar[Mapping[str, str]] = scopes.ACCOUNT
    principal: Principal


class NeverStored:
    """Answers with a secret must not be kept for Idempotency-Key: every call acts anew."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        request.META.pop("HTTP_IDEMPOTENCY_KEY", None)
        request.__dict__.pop("headers", None)
        response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        response["Cache-Control"] = "no-store"
        return response
