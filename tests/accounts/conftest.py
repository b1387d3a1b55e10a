"""Fresh counters for each test: throttles and activity live in memory."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import Client

from accounts import activity, fair_use
from accounts.services import denials

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def fresh_counters() -> Iterator[None]:
    cache.clear()
    fair_use.forget()
    activity.forget()
    denials._minute = denials._Minute()
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
    from accounts.services import token_create

    def make(user, **options):
        return token_create(who=Principal(user=user), name="test", **options)[1]

    return make


@pytest.fixture
def api():
    """A client that speaks as a script does: bearer token, JSON."""

    def make(secret: str) -> Client:
        return Client(headers={"Authorization": f"Bearer {secret}"})

    return make
