"""What an address asks of the fleet: filters, and a moment of the last day."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import wrong
from fleet.selectors import BACK, Filters
from work.fields import is_storable

_LATE = timedelta(minutes=5)  # who asks for the first minute of the day asks a little later


def asked_of(params: Mapping[str, str]) -> Filters:
    """Return the filters; what can't be a name finds nothing, as a name that is not there."""
    names = ("cluster", "kind", "pool", "project")
    said = {name: params.get(name, "").strip() for name in names}
    return Filters(
        **{n: v if is_storable(v) else "\N{REPLACEMENT CHARACTER}" for n, v in said.items()}
    )


def moment_of(params: Mapping[str, str]) -> datetime | None:
    """Return the moment that is asked for; None: now. Invalid where nothing is kept of it."""
    text = params.get("at", "")
    if not text:
        return None
    try:
        at = parse_datetime(text)
    except ValueError:
        at = None
    if at is None or is_naive(at) or not timedelta() <= now() - at <= BACK + _LATE:
        raise wrong("at", _("A moment of the last 24 hours is expected: 2026-01-31T12:00:00Z."))
    return at
