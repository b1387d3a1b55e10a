"""One portal and one Chromium for all browser tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.cluster.conftest import devcluster as devcluster  # noqa: PLC0414 - a fixture
from tests.support.chromium import browser as open_browser
from tests.support.chromium import executable
from tests.support.clustered import ClusteredPortal
from tests.support.migrated import beginning
from tests.support.portal import Portal, environments
from tests.support.ports import free_port
from tools import screens

MAIL = {"BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}


@pytest.fixture(scope="package")
def machine_portal() -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal(MAIL)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="package")
def cluster_portal(devcluster: dict[str, Any]) -> Iterator[Portal]:
    """The same pages, with a cluster and nothing else to run on."""
    env = {**MAIL, "BERTH_LOCAL_CLUSTER": "no"}
    running = ClusteredPortal(devcluster, f"br{secrets.token_hex(2)}-", env)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="package")
def portal(request: pytest.FixtureRequest) -> Portal:
    """On one machine, unless a test asks for ``cluster`` (or both) by a parameter."""
    found: Portal = request.getfixturevalue(f"{getattr(request, 'param', 'machine')}_portal")
    return found


@pytest.fixture(scope="package")
def pictured() -> Iterator[screens.Portal]:
    """The portal of the pictures: to fill it costs more than to look at it."""
    with screens.portal(free_port(), beginning) as running:
        yield running


@pytest.fixture(scope="package")  # while it is open, this thread has a running event loop
def one_chromium() -> Iterator[Browser]:
    if executable() is None:
        pytest.skip("no Chromium on this machine")
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def chromium(one_chromium: Browser) -> Iterator[Browser]:
    """The one of all modules: to start another takes a CPU second and a half. No page is left."""
    yield one_chromium
    for context in one_chromium.contexts:
        context.close()


PASSWORD = "correct horse battery"


@pytest.fixture(scope="package")
def people(portal: Portal) -> dict[str, str]:
    """Owner, second member and stranger of the project ``demo``; password ``PASSWORD``."""
    portal.shell(
        "from accounts.models import User; from projects.models import Membership, Project\n"
        "project = Project.objects.get(slug='demo')\n"
        "for name, role in (('ann', 'owner'), ('ben', 'member'), ('cyd', None)):\n"
        "    if User.objects.filter(username=name).exists(): continue\n"
        "    user = User(username=name, email=f'{name}@example.org'); "
        f"user.set_password({PASSWORD!r}); user.save()\n"
        "    role and Membership.objects.create(project=project, user=user, role=role)\n"
        "answer = True"
    )
    return {"owner": "ann", "member": "ben", "stranger": "cyd"}
