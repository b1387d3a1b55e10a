"""The span that an address asks for: ``since`` and ``until`` as days or moments."""

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import wrong
from usage.selectors import Range

DEFAULT = timedelta(days=30)
LONGEST = timedelta(days=3660)


def range_of(params: Mapping[str, str]) -> Range:
    """Return the asked span, the last 30 days by default; a day means the whole of it."""
    until = _moment(params.get("until", ""), "until", end=True) or now()
    since = _moment(params.get("since", ""), "since", end=False) or until - DEFAULT
    if not since < until or until - since > LONGEST:
        raise wrong("since", _("The span must begin before it ends and be shorter than ten years."))
    return Range(since=since, until=until)


def _moment(text: str, field: str, *, end: bool) -> datetime | None:
    if not text:
        return None
    try:
        day = parse_date(text) if len(text) == len("2026-01-01") else None
        if day is not None:
            whole = day + timedelta(days=1) if end else day
            return timezone.make_aware(datetime.combine(whole, time.min))
        moment = parse_datetime(text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise wrong(field, _("A day (2026-01-31) or a moment (2026-01-31T12:00:00Z) is expected."))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
