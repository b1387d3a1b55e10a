"""What an API server's answer means for the engine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from runtime.drivers.kubernetes import decoding
from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet, Unreachable
from runtime.reasons import Reason

_GOOD = range(200, 300)
NOT_ACCEPTED = "The cluster does not accept Berth's credential; an operator can replace it."
# Of a quota whose status the cluster's controller has not written: a moment after it was made.
UNCOUNTED = "status unknown for quota"


@dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    method: str
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # in any case

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def json(self) -> Any:
        """Return what it says, None where that is no JSON."""
        try:
            return decoding.decoded(self.body)
        except (msgspec.DecodeError, RecursionError):
            return None

    @property
    def message(self) -> str:
        found = self.json()
        text = found.get("message", "") if isinstance(found, dict) else ""
        return str(text or self.body[:200].decode("utf-8", "replace"))[:500]

    @property
    def word(self) -> str:
        found = self.json()
        return str(found.get("reason", "")) if isinstance(found, dict) else ""


class NoAnswer(DriverError):  # noqa: N818 - named as what there is
    """Not even a status came, or the answer broke off; the text is why."""


class Refused(InvalidSpec):
    """The API server does not take the object as it is described."""


class Expired(DriverError):  # noqa: N818 - named as the answer it is
    """410: too old to go on from; list again."""


def in_words(answer: Answer) -> str:
    """Return who said what: an answer's own words never stand alone."""
    if answer.status == 401:  # noqa: PLR2004
        return NOT_ACCEPTED
    return f"The cluster answers with an error ({answer.status}): {answer.message}"


def raise_for(answer: Answer) -> Answer:
    """Return a good answer, raise what a bad one means."""
    if answer.status in _GOOD:
        return answer
    raise error_of(answer)


def error_of(answer: Answer) -> DriverError:
    text = answer.message
    if answer.status == 403:  # noqa: PLR2004
        return _forbidden(text)
    if answer.status == 500 and "failed calling webhook" in text:  # noqa: PLR2004
        # the API server answers: what is away is a part of the cluster that must agree (a queue)
        why = f"A webhook of the cluster does not answer, so nothing is taken: {text}"
        return Denied(why, reason=Reason.DENIED)
    if answer.status in {400, 405, 413, 415, 422}:
        return Refused(text, reason=Reason.INVALID_SPEC)
    simple: dict[int, DriverError] = {
        401: Unreachable(NOT_ACCEPTED),
        404: NotYet("The project's place on the cluster is not there (yet).", retry_in=1.0),
        409: NotYet(text or "Somebody else changed it at the same time.", retry_in=0.2),
        410: Expired(text),
    }
    known = simple.get(answer.status)
    return known or Unreachable(in_words(answer))


def _forbidden(text: str) -> DriverError:
    low = text.lower()
    if "being terminated" in low or ("not found" in low and "namespace" in low):
        return NotYet("The project's place on the cluster is not ready.", retry_in=1.0)
    if UNCOUNTED in low:  # nothing is too much: the namespace is new, and nobody has counted yet
        return NotYet("The project's place on the cluster is not ready.", retry_in=1.0)
    if "exceeded quota" in low or "failed quota" in low:
        return Denied(text, reason=Reason.QUOTA_DENIED)
    if "violates podsecurity" in low:
        return Refused(text, reason=Reason.INVALID_SPEC)
    return Denied(text, reason=Reason.DENIED)
