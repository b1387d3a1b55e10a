"""Fresh counters for each test: throttles and activity live in memory."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client

from accounts import fair_use, middleware, oidc_grants
from accounts.services import sessions
from tests.accounts.provider import Provider

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def fresh_counters() -> Iterator[None]:
    cache.clear()
    fair_use.forget()
    middleware.forget_seen()
    sessions._minute = sessions._Minute()
    yield
    cache.clear()


@pytest.fixture
def visitor() -> Client:
    """Nobody, with CSRF checks as a browser has them."""
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def sign_in():
    def post(client: Client, login: str, password: str = PASSWORD, **extra):
        return client.post("/accounts/login/", {"login": login, "password": password}, **extra)

    return post


@pytest.fixture
def token_of():
    """Return an API token's secret for a person."""
    from accounts.principal import Principal
    from accounts.services.tokens import token_create

    def make(user, **options):
        return token_create(who=Principal(user=user), name="test", **options)[1]

    return make


@pytest.fixture
def api():
    """A client that speaks as a script does: bearer token, JSON."""

    def make(secret: str) -> Client:
        return Client(headers={"Authorization": f"Bearer {secret}"})

    return make


@pytest.fixture(scope="session")
def provider_process():
    script = Path(__file__).with_name("oidc_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Provider(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def provider(provider_process, settings, monkeypatch):
    provider_process.lie()
    # it is another process of this machine, which may stand still: that is no silent provider
    settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = 60
    monkeypatch.setattr(oidc_grants, "TIMEOUT", 60)
    settings.BERTH_OIDC_ISSUER = provider_process.url
    settings.BERTH_OIDC_CLIENT_ID = "berth"
    settings.BERTH_OIDC_CLIENT_SECRET = "provider-secret"
    settings.BERTH_OIDC_NAME = "Example University"
    provider_process.person(
        "dora-1",
        preferred_username="dora",
        name="Dora D.",
        email="dora@example.org",
        email_verified=True,
    )
    return provider_process
