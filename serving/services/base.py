"""What every write to an endpoint shares: gateways learn of it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.bus import publish

if TYPE_CHECKING:
    from serving.models import Endpoint

# What gateways listen to; each message says which endpoint's rows to read again.
GATEWAYS = "gateways"


def tell_gateways(row: Endpoint) -> None:
    """Have every gateway look at ``row`` once this is committed; one that misses it looks later."""
    shown = row.canary_of or row
    publish([GATEWAYS], {"kind": shown.KIND, "uid": str(shown.uid)})
