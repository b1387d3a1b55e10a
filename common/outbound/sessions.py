"""Sessions of ``requests`` that believe the operator's own authority too."""

from __future__ import annotations

from typing import Any

from requests.adapters import HTTPAdapter

from common.outbound import trust


class Believing(HTTPAdapter):
    """Adds it to the public ones, which are all that the library knows."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **{**more, "ssl_context": trust.authorities()})
