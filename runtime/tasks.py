"""Thin Celery entry points of the engine (the engine owner completes this)."""


def wake(kind: str, pk: int) -> None:
    """Send a wake-up; never raises."""
