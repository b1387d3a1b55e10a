"""People with browsers at a portal whose workspaces are pods."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx

from tests.hubapi.live.fleet import NAVIGATE, Browser, execute, result_of
from tests.support.clustered import KEY, ClusteredPortal, ok

PASSWORD = "correct horse battery"
WITHIN_S = 240.0
BASE = "projects/demo/workspaces"
NO_MAIL = {"BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')


def people(portal: ClusteredPortal) -> None:
    """Make the owner ann, the member ben and the stranger cyd of the project ``demo``."""
    portal.shell(
        "from accounts.models import User; from projects.models import Membership, Project\n"
        "project = Project.objects.get(slug='demo')\n"
        "for name, role in (('ann', 'owner'), ('ben', 'member'), ('cyd', None)):\n"
        "    user = User(username=name, email=f'{name}@example.org'); "
        f"user.set_password({PASSWORD!r}); user.save()\n"
        "    role and Membership.objects.create(project=project, user=user, role=role)\n"
        "answer = True"
    )


def new_prefix(word: str) -> str:
    """Of the namespaces of one portal: no other has it, of an earlier try neither."""
    return f"{word}{secrets.token_hex(2)}-"


def named(word: str) -> str:
    """A name that an earlier try of the test has not taken."""
    return f"{word}-{secrets.token_hex(3)}"


@contextmanager
def portal_of_people(
    devcluster: Mapping[str, Any],
    word: str,
    env: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[ClusteredPortal]:
    """A portal that runs, sends no mail and knows these people; ``word`` begins its namespaces."""
    env = {**NO_MAIL, **(env or {})}
    running = ClusteredPortal(devcluster, new_prefix(word), env, options=options)
    try:
        running.start()
        people(running)
        yield running
    finally:
        running.close()


def is_sign_in(page: httpx.Response, portal: ClusteredPortal) -> bool:
    return str(page.url).startswith(f"{portal.url}/") and "login" in page.url.path


def until(look: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


class Person(Browser):
    """Signed in at the portal by the form, with an API token beside it."""

    def __init__(self, portal: ClusteredPortal, name: str) -> None:
        super().__init__()
        self.portal, self.name = portal, name
        page = self.open(portal.url)
        form = {"login": name, "password": PASSWORD}
        answer = self.submit(page, form)
        assert answer.url.path == "/", (answer.status_code, str(answer.url))
        self.api = portal.api(portal.token(name))

    def submit(self, page: httpx.Response, form: dict[str, str], path: str = "") -> httpx.Response:
        """Send the page's form with its hidden fields, as a press on its button would."""
        hidden = dict(_HIDDEN.findall(page.text))
        target = page.url.join(path) if path else page.url
        origin = f"{page.url.scheme}://{page.url.netloc.decode()}"
        return self.http.post(
            target,
            data={**{k: unescape(v) for k, v in hidden.items()}, **form},
            headers={"Origin": origin, "Referer": str(page.url), **NAVIGATE},
            follow_redirects=True,
        )

    def launch(self, **body: Any) -> dict[str, Any]:
        size = {"cluster": KEY, "cpu_milli": 1000, "memory_mib": 1024}
        return self.settle(ok(self.api.post(BASE, json={**size, **body})).json())

    def settle(self, row: dict[str, Any], phase: str = "running") -> dict[str, Any]:
        """Wait until it is what is wanted; a failure says why."""

        def look() -> Any:
            answer = self.api.get(f"{BASE}/{row['id']}")
            assert not answer.is_error, f"{answer.text}\n{self.portal.tail()}"
            now = answer.json()
            seen = now["status"]["observed_generation"] >= now["generation"]
            if seen and now["status"]["phase"] == "failed" != phase:
                raise AssertionError(f"{now['status']}\n{self.portal.tail()}")
            return now if seen and now["status"]["phase"] == phase else None

        return dict(until(look))

    def act(self, row: dict[str, Any], verb: str, phase: str) -> dict[str, Any]:
        ok(self.api.post(f"{BASE}/{row['id']}/{verb}"))
        return self.settle(row, phase)

    def run(self, url: str, code: str) -> str:
        """Run code in a new kernel of an opened JupyterLab and return its result."""
        made = self.script("POST", f"{url}api/kernels", json={"name": "python3"})
        assert made.status_code == 201, made.text
        with self.kernel_socket(url, made.json()["id"]) as socket:
            execute(socket, code)
            return result_of(socket)
