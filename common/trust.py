"""Whose certificates are believed of what is not the portal's own."""

from __future__ import annotations

import ssl
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import certifi
from django.conf import settings
from django.core.mail.backends.smtp import EmailBackend
from requests.adapters import HTTPAdapter


def public() -> ssl.SSLContext:
    """The public authorities, for clients that are made often and seldom speak TLS.

    A library that reads them for each client takes 20 ms of a core, though the address be plain
    HTTP.
    """
    return _trusting("", ())


def authorities() -> ssl.SSLContext:
    """The public authorities, and one of the operator's own; never what the environment names."""
    own = settings.BERTH_OUTBOUND_CA_FILE
    if not own:
        return _trusting("", ())
    seen = Path(own).stat()
    return _trusting(own, (seen.st_mtime_ns, seen.st_ino, seen.st_size))


@lru_cache(maxsize=2)
def _trusting(own: str, _version: tuple[int, ...]) -> ssl.SSLContext:
    """Made once for each version of ``own``: the public authorities are over a hundred."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(certifi.where())
    if own:
        context.load_verify_locations(own)
    return context


class SmtpBackend(EmailBackend):
    """Django's, and it believes the operator's own authority too."""

    @cached_property
    def ssl_context(self) -> ssl.SSLContext:
        return authorities()


class Believing(HTTPAdapter):
    """Adds it to the public ones, which are all that the library knows."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **{**more, "ssl_context": authorities()})
