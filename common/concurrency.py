"""At most so many slow questions to the outside at once per person, over all processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.cache import cache
from django.utils.translation import gettext as _

from common.errors import BerthError

MOST = 2
LONGEST_S = 20  # a process that died gives its turn back after so long
_PAUSE_S = 0.1


class TooManyAtOnce(BerthError):  # noqa: N818 - named like its siblings in common.errors
    status = 429
    code = "too-many-at-once"


@contextmanager
def turn(who: int, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold one of a person's turns; TooManyAtOnce when none is free within ``wait_s``."""
    until = time.monotonic() + wait_s
    while (key := _taken(who)) is None:
        if time.monotonic() >= until:
            raise TooManyAtOnce(
                _("You have %(most)d such questions under way; wait for their answers.")
                % {"most": MOST}
            )
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        cache.delete(key)


def _taken(who: int) -> str | None:
    keys = (f"outside-turn:{who}:{number}" for number in range(MOST))
    return next((key for key in keys if cache.add(key, 1, LONGEST_S)), None)
