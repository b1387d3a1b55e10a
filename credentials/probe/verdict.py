"""What a test says. The sentences are ours: nothing that the other side wrote is passed on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Answer, OutboundError, Trouble

SECONDS = 6.0
MESSAGE_MAX = 300
_SKEW_S = 240.0


@dataclass(frozen=True)
class Verdict:
    """``ok`` None: nobody could be asked, or the answer does not tell."""

    ok: bool | None
    message: str


def accepted(message: str) -> Verdict:
    return Verdict(ok=True, message=message)


def refused(message: str) -> Verdict:
    return Verdict(ok=False, message=message)


def unknown(message: str) -> Verdict:
    return Verdict(ok=None, message=message)


def unanswered(error: OutboundError) -> Verdict:
    """Say why it was not asked at all, which says nothing of the secret."""
    if error.trouble is Trouble.REFUSED:
        why = {"why": error.message}
        return refused(_("Berth does not go there: %(why)s An operator may allow it.") % why)
    return unknown(_("It could not be asked: %(why)s") % {"why": error.message})


def skew_of(answer: Answer) -> float | None:
    """Return by how many seconds this machine's clock is ahead of the other's, None: unknown."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None
    theirs = theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC)
    return (now() - theirs).total_seconds()


def clocks_differ(answer: Answer) -> bool:
    skew = skew_of(answer)
    return skew is not None and abs(skew) > _SKEW_S


def clock_sentence(answer: Answer) -> str:
    skew = skew_of(answer)
    if skew is None or abs(skew) <= 1:
        return _("It refuses for the time of the request: check the clock of Berth's machine.")
    return _(
        "The clock of Berth's machine is %(n)d seconds away from the other side's, so signatures"
        " are refused. The key was not judged."
    ) % {"n": round(abs(skew))}
