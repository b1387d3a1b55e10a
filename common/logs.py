"""What must not stand in a log line: addresses that open something by being known."""

import re
from typing import Any

# the links that are mailed: invitations, new passwords, confirmed addresses
_KEYED = re.compile(
    r"(/(?:invitations|accounts/password/reset/key|accounts/confirm-email)/)[^/\s\"']{12,}"
)


def mask_links(_logger: Any, _name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Structlog processor: keep the kind of such an address, not its secret."""
    for key, value in line.items():
        if isinstance(value, str) and "/" in value:
            line[key] = _KEYED.sub(r"\1***", value)
    return line
