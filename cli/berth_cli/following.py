"""Following a state, of which each change is a line, and a log, as lines come."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, TypeVar

import click

from berth_cli.client import EXIT_UNREACHABLE, ApiError
from berth_cli.context import Session
from berth_cli.output import printable

PATIENCE_S = 180.0  # so long a portal may be away while it is replaced
EVERY_S = 0.5  # between two looks at what is followed
_AGAIN_S = 1.0
T = TypeVar("T")


class Told:
    """What was last written. On a terminal the line of a wait is written over as time goes by.

    ``in_place``: so is each line by the next, as that of a bar that grows.
    """

    def __init__(self, *, in_place: bool = False) -> None:
        self._in_place = in_place
        self._live = sys.stderr.isatty()
        self._line = self._shown = ""

    def tell(self, line: str, *, counts_since: str | None = None) -> None:
        shown = printable(line)
        if self._live and counts_since:
            shown = f"{shown} {so_far(counts_since)}"
        changed = line != self._line
        if not changed and shown == self._shown:
            return
        if self._live:
            begin = "\n" if changed and self._line and not self._in_place else "\r\x1b[K"
            click.echo(begin + shown, err=True, nl=False)
        else:
            click.echo(shown, err=True)
        self._line, self._shown = line, shown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live and self._line:
            click.echo(err=True)


def so_far(since: str) -> str:
    """Return how long ago that was: ``1 min 20 s``; of a clock that is behind, nothing yet."""
    begun = datetime.fromisoformat(since)
    seconds = max(0, int((datetime.now(UTC) - begun).total_seconds()))
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def patiently(ask: Callable[[], T], *, deadline: float) -> T:
    """Return the answer; while the portal is away ask again, for a bounded time."""
    until = min(deadline, time.monotonic() + PATIENCE_S)
    told = False
    while True:
        try:
            return ask()
        except ApiError as error:
            if error.exit_code != EXIT_UNREACHABLE or time.monotonic() > until:
                raise
            if not told:
                _tell_away(error)
            told = True
        time.sleep(_AGAIN_S)


def _tell_away(error: ApiError) -> None:
    begin = "\r\x1b[K" if sys.stderr.isatty() else ""
    click.echo(f"{begin}{printable(str(error))}; trying again.", err=True)


def show_log(
    s: Session, path: str, *, follow: bool, is_over: Callable[[dict[str, Any]], bool], **query: Any
) -> None:
    """Print the log at ``path``; ``is_over`` is asked of its last part whether more may come."""
    offset, over = 0, not follow
    while True:
        ask = partial(s.client.get, path, offset=offset, **query)
        part = patiently(ask, deadline=math.inf) if follow else ask()
        click.echo(printable(part["text"]), nl=False)
        began_anew = part["offset"] < offset  # in another pod, after the first was lost
        moved, offset = part["offset"] != offset, 0 if began_anew else part["offset"]
        if "run" in part:
            query["run"] = part["run"]
        if moved:
            continue
        if over:
            return
        over = is_over(part)  # then it is read once more: last words may have come meanwhile
        if not over:
            time.sleep(EVERY_S)
