"""Where an endpoint is called: below the address of the gateways, by project and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from serving.models import Endpoint


def address_of(row: Endpoint) -> str:
    """Return it without a slash at its end; a canary has that of what it stands beside."""
    shown = row.canary_of or row
    return f"{settings.BERTH_GATEWAY_URL}/e/{shown.project.slug}/{shown.name}"
