"""The one place that asks what time it is, so that tests can freeze it."""

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return timezone.now()  # noqa: TID251 - this is the wrapper
