"""How the libraries of object stores send a request: by a function of ours, which checks where to.

The programs next to the data and the portal each have one. A library opens no connection itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class Received(NamedTuple):
    """A whole answer, redirects among them; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Send(Protocol):
    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        """Send one request; ``body`` is None, bytes, or a file to read from."""
