"""Telling a state that is followed: each change is a line, and a long wait counts its time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Self

import click

from berth_cli.output import printable


class Told:
    """What was last written. On a terminal the line of a wait is written over as time goes by."""

    def __init__(self) -> None:
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
            begin = "\n" if changed and self._line else "\r\x1b[K"
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
