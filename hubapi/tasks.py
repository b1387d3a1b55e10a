"""Wake-ups of the Hub side. Losing one loses nothing: the sweep of the worker finds the rows."""


def wake_cutter() -> None:
    """Ask a worker to cut what revoked tokens hold open; never raises."""
