"""Settings under which a workspace would share a host with the portal stop the start."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error


def addresses_are_apart(**_kwargs: Any) -> list[CheckMessage]:
    """Cookies ignore ports: pages of workspaces run anybody's scripts, so another host it is."""
    portal = (urlsplit(settings.BERTH_PUBLIC_URL).hostname or "").lower()
    routing = settings.BERTH_NOTEBOOK_ROUTING
    if routing not in {"host", "path"}:
        return [_error(1, f"BERTH_NOTEBOOK_ROUTING must be host or path, not {routing!r}.")]
    if routing == "path" and portal == str(settings.BERTH_NOTEBOOK_PATH_HOST).lower():
        return [_error(2, f"BERTH_NOTEBOOK_PATH_HOST is the portal's own host, {portal}.")]
    domain = str(settings.BERTH_NOTEBOOK_DOMAIN).lower().strip(".")
    if routing == "host" and (not domain or portal == domain or portal.endswith(f".{domain}")):
        message = f"The portal's host {portal} lies in BERTH_NOTEBOOK_DOMAIN ({domain})."
        return [_error(3, message)]
    return []


def _error(number: int, message: str) -> Error:
    hint = "Give workspaces a host of their own; docs/settings.md names the settings."
    return Error(message, hint=hint, id=f"hubapi.E00{number}")
