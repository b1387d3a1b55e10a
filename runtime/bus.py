"""The event bus to browsers: publish small facts, never data (readers look in the database).

Topics: ``user:<uid>``, ``project:<uid>``, ``workspace:<uid>``, ``operators``.
"""

from typing import Any

from django.db import transaction

from runtime import bus_backends


def publish(topics: list[str], message: dict[str, Any]) -> None:
    """Send when the surrounding transaction commits; never raises, never blocks."""
    if not topics:
        return
    transaction.on_commit(lambda: bus_backends.send(topics, message), robust=True)
