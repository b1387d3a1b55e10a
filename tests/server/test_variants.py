"""The same `berth up` with TLS of its own, and on PostgreSQL and Redis."""

import os
import ssl
from pathlib import Path

import httpx
import pytest

from tests.support.certificates import certificate
from tests.support.portal import Portal, free_ports

pytestmark = pytest.mark.real


def test_with_a_certificate_browsers_get_tls_and_workloads_the_plain_internal_listener(
    open_folder: Path,
) -> None:
    cert, key = certificate(open_folder)
    port = free_ports(8)
    portal = Portal(
        {
            "BERTH_PORT": str(port),
            "BERTH_PUBLIC_URL": f"https://localhost:{port}",
            "BERTH_NOTEBOOK_SCHEME": "https",
            "BERTH_TLS_CERT": str(cert),
            "BERTH_TLS_KEY": str(key),
        }
    )
    portal.port, portal.url = port, f"https://localhost:{port}"
    trust = ssl.create_default_context(cafile=str(cert))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(cert))
        try:
            portal.start()
            with httpx.Client(verify=trust, timeout=60) as browser:
                page = browser.get(f"{portal.url}/accounts/login/")
                assert page.status_code == 200
                assert "max-age" in page.headers["strict-transport-security"]
                host = {"Host": f"nobody.nb.localhost:{port + 1}"}
                gone = browser.get(f"https://127.0.0.1:{port + 1}/", headers=host)
                assert gone.status_code == 424
            assert httpx.get(f"http://127.0.0.1:{port + 2}/hub/api", timeout=60).status_code == 200
            with pytest.raises(httpx.TransportError):
                httpx.get(f"http://localhost:{port}/")
        finally:
            portal.close()


@pytest.mark.postgres
@pytest.mark.redis
def test_the_same_portal_runs_on_postgresql_and_redis(migrated_postgres: str) -> None:
    """On an empty database too: ``test_serve.py``, whose migration it would only repeat."""
    redis = os.environ.get("BERTH_TEST_REDIS")
    if not redis:
        pytest.skip("BERTH_TEST_REDIS is not set")
    portal = Portal({"BERTH_DATABASE_URL": migrated_postgres, "BERTH_REDIS_URL": redis})
    try:
        portal.start()
        checks = httpx.get(f"{portal.url}/readyz", timeout=60).json()["checks"]
        assert set(checks.values()) == {"ok"}
        assert not (portal.var / "berth.sqlite3").exists()
    finally:
        portal.close()
