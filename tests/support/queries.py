"""How many queries something takes."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

LOOKS = 3


def fewest(act: Callable[[], object]) -> int:
    """The least of some looks: what is kept for seconds (announcements) is read again now and then."""

    def once() -> int:
        with CaptureQueriesContext(connection) as captured:
            act()
        return len(captured)

    return min(once() for _ in range(LOOKS))
