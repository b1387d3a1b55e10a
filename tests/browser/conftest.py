"""One portal and one Chromium for all browser tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import browser as open_browser
from tests.support.chromium import executable
from tests.support.portal import Portal, environments


@pytest.fixture(scope="session")
def portal() -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal({"BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"})
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")  # while it is open, this thread has a running event loop
def chromium() -> Iterator[object]:
    if executable() is None:
        pytest.skip("no Chromium on this machine")
    with open_browser() as opened:
        yield opened


PASSWORD = "correct horse battery"


@pytest.fixture(scope="session")
def people(portal: Portal) -> dict[str, str]:
    """Owner, second member and stranger of the project ``demo``; password ``PASSWORD``."""
    portal.shell(
        "from accounts.models import User; from projects.models import Membership, Project\n"
        "project = Project.objects.get(slug='demo')\n"
        "for name, role in (('ann', 'owner'), ('ben', 'member'), ('cyd', None)):\n"
        "    user = User(username=name, email=f'{name}@example.org'); "
        f"user.set_password({PASSWORD!r}); user.save()\n"
        "    role and Membership.objects.create(project=project, user=user, role=role)\n"
        "answer = True"
    )
    return {"owner": "ann", "member": "ben", "stranger": "cyd"}
