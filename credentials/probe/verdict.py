"""What a test says. The sentences are ours: nothing that the other side wrote is passed on.

They are made in English, as the catalogue knows them, and said in the language of who reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Answer, Client, OutboundError, Trouble
from credentials.models import Sentence
from dataplane.sending import Received

SECONDS = 6.0
MESSAGE_MAX = 300
_SKEW_S = 240.0


@dataclass(frozen=True)
class Verdict:
    """``ok`` None: nobody could be asked, or the answer does not tell."""

    ok: bool | None
    said: Sentence

    @property
    def message(self) -> str:
        return str(self.said)[:MESSAGE_MAX]


def accepted(said: str | Sentence) -> Verdict:
    return Verdict(True, _sentence(said))


def refused(said: str | Sentence) -> Verdict:
    return Verdict(False, _sentence(said))


def unknown(said: str | Sentence) -> Verdict:
    return Verdict(None, _sentence(said))


def _sentence(said: str | Sentence) -> Sentence:
    return said if isinstance(said, Sentence) else Sentence(said)


def unanswered(error: OutboundError) -> Verdict:
    """Say why it was not asked at all, which says nothing of the secret."""
    facts = {**error.values, "why": error.text}
    if error.trouble is Trouble.REFUSED:
        text = _("Berth does not go there: %(why)s An operator may allow it.")
        return refused(Sentence(text, facts))
    return unknown(Sentence(_("It could not be asked: %(why)s"), facts))


def skew_of(answer: Answer | Received) -> float | None:
    """Return by how many seconds this machine's clock is ahead of the other's, None: unknown."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None
    theirs = theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC)
    return (now() - theirs).total_seconds()


def clocks_differ(answer: Answer | Received) -> bool:
    skew = skew_of(answer)
    return skew is not None and abs(skew) > _SKEW_S


def clock_sentence(answer: Answer | Received) -> Sentence:
    skew = skew_of(answer)
    if skew is None or abs(skew) <= 1:
        text = _("It refuses for the time of the request: check the clock of Berth's machine.")
        return Sentence(text)
    text = _(
        "The clock of Berth's machine is %(n)d seconds away from the other side's, so signatures"
        " are refused. The key was not judged."
    )
    return Sentence(text, {"n": round(abs(skew))})


_OURS = frozenset({"host", "user-agent", "accept-encoding", "connection"})


class Asking:
    """Sends for a library; ``last`` is what came last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.last = Received(0, {}, b"")

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        answer = self._client.request(
            method,
            url,
            headers={name: value for name, value in headers.items() if name.lower() not in _OURS},
            content=body,
            insecure=url.startswith("http://"),
        )
        self.last = Received(answer.status, answer.headers, answer.body)
        return self.last
