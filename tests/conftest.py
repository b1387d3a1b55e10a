"""Shared fixtures: people with roles, a project, clients that speak HTTP."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.test import Client
from django.utils import translation

# A clone may lie where only root can read: what is tested there runs as root, and nothing else does.
os.environ.setdefault("BERTH_ROOT_ONLY", "yes")

pytest_plugins = [
    "tests.support.lanes",
    "tests.support.second_tries",
    "tests.support.sparing",
    "tests.support.work_fixtures",
    "tests.support.store_fixtures",
    "tests.support.database_fixtures",
]

# What it generates is judged by what comes out: a machine that pauses is no failure of a test.
hypothesis.settings.register_profile(
    "berth", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("berth")


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Nobody has asked anything yet: the counters are per process, and tests share it."""
    from accounts import fair_use

    fair_use.forget()


@pytest.fixture(autouse=True)
def usual_language() -> None:
    """A request leaves its reader's language behind in the thread."""
    translation.deactivate()


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The server's verbs close the umask of their process, which here is everybody's."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def make_user(db: None) -> Callable[..., Any]:
    from accounts.models import User

    def make(username: str, **extra: Any) -> Any:
        user = User(username=username, email=f"{username}@example.org", **extra)
        user.set_password("correct horse battery")
        user.save()
        return user

    return make


@pytest.fixture
def alice(make_user: Any) -> Any:
    """Owner of ``project``."""
    return make_user("alice", display_name="Alice")


@pytest.fixture
def bob(make_user: Any) -> Any:
    """Member of ``project``."""
    return make_user("bob", display_name="Bob")


@pytest.fixture
def vera(make_user: Any) -> Any:
    """Viewer of ``project``."""
    return make_user("vera")


@pytest.fixture
def mona(make_user: Any) -> Any:
    """Manager of ``project``."""
    return make_user("mona")


@pytest.fixture
def charlie(make_user: Any) -> Any:
    """A stranger to ``project``."""
    return make_user("charlie")


@pytest.fixture
def operator(make_user: Any) -> Any:
    return make_user("olga", platform_role="operator")


@pytest.fixture
def auditor(make_user: Any) -> Any:
    return make_user("audrey", platform_role="auditor")


@pytest.fixture
def project(alice: Any, bob: Any, vera: Any, mona: Any) -> Any:
    from projects.models import Membership, Project

    made = Project.objects.create(slug="vision", name="Vision", phase="running")
    for user, role in ((alice, "owner"), (bob, "member"), (vera, "viewer"), (mona, "manager")):
        Membership.objects.create(project=made, user=user, role=role)
    return made


@pytest.fixture
def principal() -> Callable[..., Any]:
    from accounts.principal import Principal

    return lambda user, token=None: Principal(user=user, token=token, ip="127.0.0.1")


@pytest.fixture
def as_user() -> Callable[[Any], Client]:
    """A browser-like client signed in as the given user.

    It is given the session that Django's own ``force_login`` leaves, in four queries, not fifteen.
    """
    from django.contrib.sessions.backends.db import SessionStore

    def login(user: Any) -> Client:
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "allauth.account.auth_backends.AuthenticationBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
        return client

    return login
