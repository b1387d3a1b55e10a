"""Where an endpoint is called: below the address of the gateways, by project and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from serving.models import Endpoint


def address_of(row: Endpoint) -> str:
    """Return it without a slash at its end; "" where no gateway's address is set."""
    shown = row.canary_of or row
    base = settings.BERTH_ENDPOINTS_URL
    return f"{base}/e/{shown.project.slug}/{shown.name}" if base else ""
