"""What every API view shares; the two families of the product build on it.

``PlatformAPIView`` is for routes outside projects: declare ``required_platform`` as "user",
"auditor" or "operator", for all verbs or per verb, and in ``limited_tokens`` what of it is open to
a token that may do less than its person.
Routes with a project use ``projects.api.base``. What is not declared is refused (405).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _
from rest_framework import exceptions, status
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler

from common.database import said_of
from common.errors import CONTENT_TYPE, BerthError, Forbidden, problem_body

# In ``limited_tokens``: open to every token, whatever limits it.
ANY_TOKEN = "*"  # noqa: S105 - no secret


class Replay(Exception):  # noqa: N818 - not an error: it carries the earlier answer out
    """The request was answered before; ``response`` is what it was answered."""

    def __init__(self, response: Response) -> None:
        super().__init__("replay")
        self.response = response


class IdempotencyStore(Protocol):
    """Remembers answered POSTs (projects.middleware, registered in its ``apps.ready``)."""

    def claim(self, *, who: Any, request: Request, key: str) -> Any:
        """Take the key until the transaction ends, or raise Replay, Invalid or Conflict."""

    def keep(self, held: Any, response: Response) -> None:
        """Store the answer in the transaction of the act."""


_stores: list[IdempotencyStore] = []


def register_idempotency(store: IdempotencyStore) -> None:
    _stores[:] = [store]


def idempotency_key(request: Any) -> str:
    if request.method != "POST" or not _stores:
        return ""
    return str(request.headers.get("Idempotency-Key", ""))


class BerthAPIMixin:
    """The principal, refusal of undeclared verbs, idempotency."""

    principal: Any  # accounts.principal.Principal, which lies above this module
    request: Any  # DRF's Request; its stubs disagree with Django's
    _held: Any = None

    @classmethod
    def declared(cls, verb: str) -> Any:
        """Return what ``verb`` demands; None = refused."""
        raise NotImplementedError

    def enter(self, demand: Any, kwargs: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if not idempotency_key(request):
            return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        with transaction.atomic():
            response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
            if self._held is not None and response.status_code < 400:  # noqa: PLR2004
                _stores[0].keep(self._held, response)
            else:
                # a refusal keeps neither the key nor anything half-made
                transaction.set_rollback(True)
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        verb = "GET" if request.method == "HEAD" else str(request.method)
        demand = self.declared(verb)
        if demand is None or verb == "OPTIONS" or not hasattr(self, verb.lower()):
            raise MethodNotAllowed(str(request.method))
        self.principal = request._request.principal  # type: ignore[attr-defined]  # noqa: SLF001
        self.enter(demand, kwargs)
        if key := idempotency_key(request):
            self._held = _stores[0].claim(who=self.principal, request=request, key=key)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Replay):
            self._held = None
            return exc.response
        return super().handle_exception(exc)  # type: ignore[misc]


class PlatformAPIMixin(BerthAPIMixin):
    required_platform: ClassVar[str | Mapping[str, str]] = ""
    # Verb to what opens it to a limited token: a scope, or ANY_TOKEN. A token limited to projects
    # gets ANY_TOKEN only. What operators and auditors do is opened by ``platform:…`` alone.
    limited_tokens: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def declared(cls, verb: str) -> str | None:
        if isinstance(cls.required_platform, str):
            return cls.required_platform or None
        return cls.required_platform.get(verb)

    def enter(self, demand: str, kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002
        verb = "GET" if self.request.method == "HEAD" else str(self.request.method)
        require_opening(self.principal, demand, self.limited_tokens.get(verb, ""))
        require_platform(self.principal, demand)


class PlatformAPIView(PlatformAPIMixin, GenericAPIView):
    """A view outside projects."""


def require_opening(who: Any, demand: str, opened_by: str) -> None:
    """Raise Forbidden where the token of ``who`` is limited and nothing opens this to it."""
    token = who.token
    if token is None or opened_by == ANY_TOKEN or not (token.scopes or token.project_uids):
        return
    if token.project_uids:
        raise Forbidden(
            _("This token is limited to projects: it opens what is in them and nothing else.")
        )
    if demand == "user" and not opened_by:
        raise Forbidden(_("No scope of a token opens this; use a token without scopes."))
    if demand == "user" and not who.allows_scope(opened_by):
        raise Forbidden(_("This token lacks the scope “%s”.") % opened_by)


def require_platform(who: Any, demand: str) -> None:
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


class PreconditionFailed(BerthError):  # noqa: N818 - named like its siblings in common.errors
    """If-Match names a version that is no longer the current one."""

    status = 412
    code = "precondition-failed"


class Versioned(Protocol):
    """Anything with a generation; ``uid`` keeps tags of different rows apart."""

    @property
    def uid(self) -> object: ...
    @property
    def generation(self) -> int: ...


def etag_of(row: Versioned) -> str:
    return f'"{str(row.uid)[:8]}-{row.generation}"'


def check_if_match(request: Request, row: Versioned) -> None:
    """Raise PreconditionFailed unless If-Match is absent, ``*`` or the row's current tag.

    Call it inside the transaction that changes the row, on a row read there.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given or given == "*":
        return
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    if etag_of(row) not in tags:
        raise PreconditionFailed(
            _("It was changed since you read it. Read it again, then repeat the change."),
            extra={"etag": etag_of(row)},
        )


def with_etag(response: Response, row: Versioned) -> Response:
    response["ETag"] = etag_of(row)
    return response


def problem(
    status_code: int,
    code: str,
    detail: str,
    *,
    fields: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    body = problem_body(status_code, code, detail, fields=fields, extra=extra)
    return Response(body, status=status_code, headers=headers, content_type=CONTENT_TYPE)


def problem_handler(  # noqa: PLR0911 - one line per kind of error
    error: Exception, context: dict[str, Any]
) -> Response | None:
    """DRF's exception handler: every error leaves the API in this shape."""
    error = said_of(error) or error
    if isinstance(error, BerthError):
        if request := context.get("request"):
            request._request.berth_error = error  # noqa: SLF001 - projects.middleware records it
        return problem(
            error.status,
            error.code,
            str(error.message),
            fields=error.fields,
            extra=error.extra,
            headers=error.headers,
        )
    if isinstance(error, Http404):
        return problem(404, "not-found", _("There is nothing here, or it is not yours."))
    if isinstance(error, PermissionDenied):
        return problem(403, "forbidden", _("You may not do this."))
    response = drf_handler(error, context)
    if response is None:
        return None
    kept = {"WWW-Authenticate", "Retry-After"}
    headers = {k: v for k, v in response.headers.items() if k in kept}
    if isinstance(error, exceptions.ValidationError):
        return problem(
            status.HTTP_400_BAD_REQUEST,
            "invalid",
            _("Some fields are not right."),
            fields=error.detail
            if isinstance(error.detail, dict)
            else {"non_field_errors": error.detail},
        )
    if isinstance(error, exceptions.APIException):
        code = str(getattr(error, "default_code", "error")).replace("_", "-")
        return problem(response.status_code, code, str(error.detail), headers=headers)
    return response
