"""The real thing on one machine: a call through the gateway of a portal that runs, with a key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_S = 120.0
_SLEEP = """
from serving.models import Endpoint
from work.choices import StopReason
from work.services.ending import request_stop
row = Endpoint.objects.get(short_id={id!r})
answer = request_stop(row, reason=StopReason.ASLEEP, actor=None)
"""
_CALLED = """
from serving.models import Calls
answer = sum(Calls.objects.filter(endpoint__short_id={id!r}).values_list("requests", flat=True))
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


def until(found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while not (answer := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return answer


def test_a_key_calls_wakes_and_is_revoked(portal: Portal) -> None:
    with portal.api(portal.token("admin")) as api:
        words = ["python3", "-m", "http.server", "--bind", "127.0.0.1", "{port}"]
        said = {"name": "plain", "command": words, "health": "/", "cpu_milli": 200}
        made = api.post("projects/demo/endpoints", json={**said, "memory_mib": 256})
        assert made.status_code == 202, made.text
        at = f"projects/demo/endpoints/{made.json()['id']}"
        key = api.post(f"{at}/keys", json={"name": "of the test"}).json()
        url = f"http://127.0.0.1:{portal.port + 7}/e/demo/plain/"
        headers = {"Authorization": f"Bearer {key['key']}"}

        def call() -> httpx.Response:
            return httpx.get(url, headers=headers, timeout=WITHIN_S)

        answer = until(lambda: (said := call()).status_code == 200 and said)
        assert "Directory listing" in answer.text
        assert httpx.get(url, timeout=WITHIN_S).status_code == 401
        assert portal.shell(_SLEEP.format(id=made.json()["id"]))
        until(lambda: api.get(at).json()["status"]["state"] == "asleep")
        assert call().status_code == 200  # it was held meanwhile
        assert api.get(at).json()["launch"] == 2
        until(lambda: portal.shell(_CALLED.format(id=made.json()["id"])) >= 2)
        assert api.delete(f"{at}/keys/{key['id']}").status_code == 204
        until(lambda: call().status_code == 401, 30)
        api.delete(at)
        until(lambda: api.get(at).status_code == 404)
