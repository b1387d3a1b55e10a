"""What a self-check is: one question to a cluster, one answer with a fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _n

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.utils.functional import Promise

    from clusters.models import Cluster
    from clusters.options import ClusterOptions


GREEN, RED, UNKNOWN = "green", "red", "unknown"


@dataclass(frozen=True)
class Finding:
    """``sentence`` is English with places for ``values``; it is translated when it is shown."""

    name: str
    state: str
    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    took_ms: int = 0
    failed: bool = False  # to ask failed: an earlier answer stands

    def text(self) -> str:
        return text_of(self.sentence, self.values)


def text_of(sentence: str, values: Mapping[str, Any]) -> str:
    """Return the sentence in the reader's language; a text that does not fit stays as it is."""
    if not sentence:
        return ""
    shown = gettext(sentence)
    try:
        return shown % values if values else shown
    except (KeyError, ValueError, TypeError):
        return sentence


@dataclass(frozen=True)
class Answer:
    """What the API server answered to one request."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - what HTTP calls success

    @property
    def message(self) -> str:
        return str(self.body.get("message") or self.status)[:200]


class Asker(Protocol):
    """The little of an API server's client that checks need; never raises for a status."""

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answer: ...


@dataclass(frozen=True)
class Subject:
    """What is checked, and how to ask it."""

    cluster: Cluster
    options: ClusterOptions
    api: Asker


@dataclass(frozen=True)
class Check:
    """One self-check. ``act`` returns an answer, or raises; whatever it raises is "unknown"."""

    name: str
    label: str | Promise
    act: Callable[[Subject, Any], Finding]  # with a checks.bench.Bench
    what: str | Promise = ""  # why it matters, in one sentence


def green(name: str, sentence: str, /, **values: Any) -> Finding:
    return Finding(name, GREEN, sentence, values)


def red(name: str, sentence: str, /, *, fix: str = "", **values: Any) -> Finding:
    return Finding(name, RED, sentence, values, fix)


def unknown(name: str, sentence: str, /, *, fix: str = "", **values: Any) -> Finding:
    return Finding(name, UNKNOWN, sentence, values, fix)


def undecided(name: str, sentence: str, /, *, fix: str = "", **values: Any) -> Finding:
    """It was asked and came to nothing, this time: an earlier answer stands."""
    return replace(unknown(name, sentence, fix=fix, **values), failed=True)


def probe_ended(name: str, code: int) -> Finding:
    """The probe ended as its script never does: it was killed, did not start or crashed."""
    return undecided(name, _n("The probe ended with %(code)d, so nothing can be said."), code=code)


# The driver's client as checks use it: a status is an answer, never an exception.


MANAGER = "berth-check"


class ClientAsker:
    """``method`` "APPLY" is a server-side apply."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        from runtime.drivers.kubernetes import client as wire

        kind, asked = wire.JSON, dict(params or {})
        if method == "APPLY":
            method, kind = "PATCH", wire.APPLY
            asked |= {"fieldManager": MANAGER, "force": "true"}
        found = self._client.request(method, path, asked, body, kind)
        parsed = found.json()
        return Answer(
            status=found.status,
            body=parsed if isinstance(parsed, dict) else {"message": found.message},
            headers={name.lower(): value for name, value in found.headers.items()},
        )

    def close(self) -> None:
        self._client.close()
