"""How long something takes, on a machine that others use too."""

from collections.abc import Callable

from benchmarks.lib import timed


def shortest(act: Callable[[], object], tries: int = 3) -> float:
    """Return the shortest of some times: what the others take longer is the machine's."""
    return min(timed(act) for _ in range(tries))
