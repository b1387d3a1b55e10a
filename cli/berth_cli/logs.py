"""Printing what something wrote, and going on as lines come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from berth_cli.context import Session
from berth_cli.following import patiently
from berth_cli.output import printable

_EVERY_S = 0.5


def show(
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
            time.sleep(_EVERY_S)
