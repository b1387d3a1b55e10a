"""What is said of idle work, in the reader's language."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.clock import now
from parking.choices import WEEK, Act

if TYPE_CHECKING:
    from parking.models import IdlePolicy


def minutes_between(since: datetime, until: datetime) -> int:
    return max(0, math.ceil((until - since).total_seconds() / 60))


def idle_words(since: datetime) -> str:
    minutes = max(1, int((now() - since).total_seconds() // 60))
    text = ngettext(
        "No kernel, processor or GPU of it was busy for %(n)d minute.",
        "No kernel, processor or GPU of it was busy for %(n)d minutes.",
        minutes,
    )
    return text % {"n": minutes}


def follows_words(act: str, at: datetime) -> str:
    """Return what will be done and when, as things are."""
    left = minutes_between(now(), at)
    if act == Act.TELL:
        return ""
    if act == Act.PARK:
        text = ngettext(
            "It will be parked in %(n)d minute if that goes on.",
            "It will be parked in %(n)d minutes if that goes on.",
            left,
        )
    else:
        text = ngettext(
            "It will be stopped in %(n)d minute if that goes on.",
            "It will be stopped in %(n)d minutes if that goes on.",
            left,
        )
    return text % {"n": left}


def scope_words(policy: IdlePolicy) -> str:
    if policy.project is not None or policy.organisation is not None:
        return str(policy)
    return _("The whole platform")


def rule_words(policy: IdlePolicy) -> str:
    """Return the rule in one sentence."""
    text = ngettext(
        "GPU below %(gpu)g %% for %(n)d minute",
        "GPU below %(gpu)g %% for %(n)d minutes",
        policy.minutes,
    )
    said = [text % {"gpu": policy.gpu_below, "n": policy.minutes}]
    if (policy.from_hour, policy.until_hour) != (0, 24) or policy.weekdays != WEEK:
        days = ", ".join(str(DAYS[day]) for day in policy.weekdays)
        when = _("counted on %(days)s from %(first)d to %(last)d o'clock (%(zone)s)")
        told = {"days": days, "first": policy.from_hour, "last": policy.until_hour}
        said.append(when % {**told, "zone": policy.zone})
    grace = ngettext("%(n)d minute of notice", "%(n)d minutes of notice", policy.grace)
    said.append(grace % {"n": policy.grace})
    return "; ".join(said)


DAYS: dict[str, Promise] = {
    "1": gettext_lazy("Monday"),
    "2": gettext_lazy("Tuesday"),
    "3": gettext_lazy("Wednesday"),
    "4": gettext_lazy("Thursday"),
    "5": gettext_lazy("Friday"),
    "6": gettext_lazy("Saturday"),
    "7": gettext_lazy("Sunday"),
}


def minutes_left(at: datetime) -> int:
    return minutes_between(now(), at)
