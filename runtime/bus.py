"""The event bus to browsers: publish small facts, never data (readers look in the database).

Topics: ``user:<uid>``, ``project:<uid>``, ``workspace:<uid>``, ``operators``.
"""

from typing import Any


def publish(topics: list[str], message: dict[str, Any]) -> None:
    """Send after commit; never raises, never blocks (the engine owner completes this)."""
