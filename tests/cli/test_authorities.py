"""Whose certificates the command line believes."""

import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from berth_cli import client

from tests.support.store_certificates import Authority


def test_one_command_reads_the_authorities_once_and_those_that_its_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[ssl.SSLContext] = []

    def counted(**options: Any) -> ssl.SSLContext:
        found = made(**options)
        if not options:
            read.append(found)
        return found

    made = httpx.create_ssl_context
    monkeypatch.setattr(httpx, "create_ssl_context", counted)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    client._authorities.cache_clear()
    for own in ("", str(Authority(tmp_path).certificate)):
        if own:
            monkeypatch.setenv("SSL_CERT_FILE", own)
        for _ in range(2):
            client.opened().close()
    client._authorities.cache_clear()
    usual, own_only = read
    assert usual.verify_mode == own_only.verify_mode == ssl.CERT_REQUIRED
    assert len(usual.get_ca_certs()) > 1
    assert len(own_only.get_ca_certs()) == 1
