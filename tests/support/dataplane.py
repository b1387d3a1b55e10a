"""The environment ``dataplane`` as ``make run`` makes it, from the code as it is now, and its way to a store."""

import functools
from pathlib import Path
from typing import Any

from tests.support.locked_environments import locked_environment


@functools.cache
def dataplane_environment() -> Path:
    """Return its folder; made again only when the package or its lock file changed."""
    return locked_environment("dataplane")


def settings_open_to(opened: dict[str, Any]) -> dict[str, str]:
    """Return what an operator sets who lets people use one store: its ``outbound()``."""
    return {
        "BERTH_OUTBOUND_ALLOW": ",".join(opened["allow"]),
        "BERTH_OUTBOUND_PORTS": ",".join(map(str, opened["ports"])),
        "BERTH_INSECURE_STORES": ",".join(opened["insecure_hosts"]),
        "BERTH_GCS_ENDPOINT": opened.get("gcs_endpoint", ""),
        "BERTH_GCS_TOKEN_URI": opened.get("gcs_token_uri", ""),
    }
