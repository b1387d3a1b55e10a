"""What the cache writes into Redis: JSON, never pickles.

Whoever reaches an unprotected Redis could otherwise have the portal run what he writes there.
"""

import json
from datetime import datetime
from typing import Any

_TIME = "__time__"


class JsonSerializer:
    """For ``OPTIONS["serializer"]`` of Django's Redis cache. Plain values and times only."""

    def dumps(self, value: Any) -> bytes | int:
        if type(value) is int:
            return value  # so that Redis can count with it
        return json.dumps(value, default=_plain).encode()

    def loads(self, data: bytes | str) -> Any:
        return json.loads(data, object_hook=_whole)


def _plain(value: Any) -> dict[str, str]:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    message = f"{type(value).__name__} can't be kept in the cache"
    raise TypeError(message)


def _whole(found: dict[str, Any]) -> Any:
    return datetime.fromisoformat(found[_TIME]) if set(found) == {_TIME} else found
