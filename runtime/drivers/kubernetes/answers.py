"""What an API server answers: read without what nobody here asks for, and what it means. Pure.

Who wrote which field (``managedFields``) is half of an object as it comes. And Python's collector
walks all that was read so far again and again while ten thousand objects are made: four times
what the reading itself takes (500 pods: 106 ms by ``json``, 9 ms so).
"""

import gc
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec

from runtime.protocol import Denied, DriverError, InvalidSpec, NotYet, Unreachable
from runtime.reasons import Reason

_LARGE = 256 * 1024  # bytes from which on the collector is kept waiting
_one_at_a_time = threading.Lock()


class _Meta(TypedDict, total=False):
    """All of ObjectMeta but ``managedFields`` and ``selfLink``."""

    name: Any
    generateName: Any
    namespace: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class _Whole(TypedDict, total=False):
    """What a Pod, StatefulSet or Job has; ``message`` to ``code`` are of a Status in its place."""

    apiVersion: Any
    kind: Any
    metadata: _Meta
    spec: Any
    status: Any
    message: Any
    reason: Any
    details: Any
    code: Any


class _Page(TypedDict, total=False):
    metadata: Any
    items: list[_Whole]


class _Event(TypedDict, total=False):
    type: str
    object: _Whole


KINDS = frozenset(
    ("pods", "statefulsets", "jobs", "jobsets", "mpijobs", "pytorchjobs", "tfjobs", "trainjobs")
)  # plurals that are read so
_PLAIN: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_PAGE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Page)
_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Event)


def decoded(body: bytes) -> Any:
    """Return all that it says; ``msgspec.DecodeError`` where it is no JSON."""
    return _read(_PLAIN, body)


def page_of(body: bytes, plural: str) -> Any:
    """Return one page of a list."""
    return _read(_PAGE, body) if plural in KINDS else _read(_PLAIN, body)


def event_of(line: bytes, plural: str) -> Any:
    """Return one event of a watch."""
    return _read(_EVENT, line) if plural in KINDS else _read(_PLAIN, line)


def _read(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return _uncollected(decoder, body) if len(body) > _LARGE else decoder.decode(body)
    except msgspec.ValidationError:  # another shape than the API promises: its reader judges it
        return _PLAIN.decode(body)


def _uncollected(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Decoding keeps the interpreter to itself, so nobody else's garbage waits for long."""
    with _one_at_a_time:
        collects = gc.isenabled()
        gc.disable()
        try:
            return decoder.decode(body)
        finally:
            if collects:
                gc.enable()


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
            return decoded(self.body)
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
