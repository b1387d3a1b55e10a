"""Errors a caller can do something about. Each becomes one RFC 9457 problem document.

Services raise these; HTML views, the API and the CLI translate them in one place each
(``common.drf.views`` and ``common.middleware``), so the same act has the same answer
through every door.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _

_LONGEST = 64  # of a name that is compared


class BerthError(Exception):
    """Base of every error that has a sentence for the user."""

    status = 400
    code = "error"
    retry_after_s: int | None = None  # said in the header where trying again is known to help

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}

    def __init__(
        self,
        message: str | Promise,
        *,
        code: str | None = None,
        fields: Mapping[str, list[str]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(str(message))
        self.message = str(message)
        self.code = code or self.code
        self.fields = dict(fields or {})
        self.extra = dict(extra or {})


class Invalid(BerthError):
    """The request itself is wrong; the user must change it."""

    status = 400
    code = "invalid"


def wrong(field: str, message: str) -> Invalid:
    """Return the error of one field, said on top too."""
    return Invalid(message, fields={field: [message]})


class NotFound(BerthError):
    """Not there, or not yours: the two are never told apart."""

    status = 404
    code = "not-found"


class Forbidden(BerthError):
    """You may see it, but your role does not allow this."""

    status = 403
    code = "forbidden"


class Conflict(BerthError):
    """The thing is not in a state in which this can be done."""

    status = 409
    code = "conflict"


class TooLarge(BerthError):
    """More was sent than is taken in one request."""

    status = 413
    code = "too-large"


class TooManyRequests(BerthError):
    """Asked too often; trying again after a while helps."""

    status = 429
    code = "too-many-requests"


class LimitExceeded(Conflict):
    """A quota limit refuses this; ``extra`` has limit, used and asked."""

    code = "limit-exceeded"


class Unavailable(BerthError):
    """Something Berth needs is down for the moment; trying again later helps."""

    status = 503
    code = "unavailable"


CONTENT_TYPE = "application/problem+json"


def problem_body(
    status: int,
    code: str,
    detail: object,
    *,
    fields: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document; ``code`` is what programs compare, ``detail`` is for people."""
    body: dict[str, Any] = {
        "type": f"urn:berth:error:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": str(detail),
    }
    if fields:
        body["fields"] = dict(fields)
    body.update(extra or {})
    return body


def no_such_field(name: str, known: Iterable[str]) -> str:
    """Say that there is no field ``name``, and which of those that are ``known`` may be meant."""
    shown, there = name[:_LONGEST], sorted(known)
    near = [one for one in there if one.startswith(f"{shown}_")]
    if near := near or get_close_matches(shown, there, n=1):
        return _("There is no such field. Did you mean “%(name)s”?") % {"name": near[0]}
    return _("There is no such field.")
