"""What every write to an endpoint shares: gateways learn of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from django.db import InterfaceError, OperationalError

from runtime.bus import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from serving.models import Endpoint

log = structlog.get_logger(__name__)

# What gateways listen to; each message says which endpoint's rows to read again.
GATEWAYS = "gateways"


def tell_gateways(row: Endpoint) -> None:
    """Have every gateway look at ``row`` once this is committed; one that misses it looks later."""
    shown = row.canary_of or row
    publish([GATEWAYS], {"kind": shown.KIND, "uid": str(shown.uid)})


def for_each(rows: Iterable[Endpoint], act: Callable[[Endpoint], bool]) -> int:
    """Do it for each; return for how many it did something. One that fails stops no other."""
    done = 0
    for row in rows:
        try:
            done += act(row)
        except (InterfaceError, OperationalError):  # the database is away: not the row's matter
            raise
        except Exception:
            log.exception("endpoint.turn_failed", endpoint=str(row.uid), turn=act.__name__)
    return done
