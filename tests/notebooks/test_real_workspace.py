"""The real thing by API: JupyterLab behind the real proxy, stopped, resumed, with its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.portal import Portal, environments

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

WITHIN_S = 240.0


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal()
    try:
        running.start()
        yield running
    finally:
        running.close()


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


class Jupyter:
    """Speaks to a workspace through the proxy, with the token that Berth itself uses."""

    def __init__(self, portal: Portal, row: dict[str, Any]) -> None:
        token = portal.shell(
            f"from hubapi.services import service_token; answer = service_token({row['uid']!r})"
        )
        url = httpx.URL(row["status"]["url"])
        # the system's resolver knows no *.localhost: same connection, the name in the Host header
        self.client = httpx.Client(
            base_url=url.copy_with(host="127.0.0.1"),
            headers={"Host": url.netloc.decode(), "Authorization": f"token {token}"},
            timeout=60,
        )


def test_a_real_workspace_starts_stops_and_resumes_with_its_files(portal: Portal) -> None:
    api = portal.api(portal.token("admin"))
    base = "projects/demo/workspaces"
    answer = api.post(base, json={})
    assert answer.status_code == 202, answer.text
    made = answer.json()
    path = f"{base}/{made['id']}"

    def phase(word: str) -> Any:
        row = api.get(path).json()
        assert row["status"]["phase"] != "failed", row["status"]
        return row if row["status"]["phase"] == word else None

    row = until(lambda: phase("running"))
    jupyter = Jupyter(portal, row).client
    assert jupyter.get("api").status_code == 200
    kernel = jupyter.get("api/kernelspecs").json()["kernelspecs"]["python3"]
    assert "logo-svg" in kernel["resources"]
    for logo in kernel["resources"].values():  # what the first page of JupyterLab shows
        assert jupyter.get(logo).status_code == 200, logo
    kept = {"type": "file", "format": "text", "content": "still here"}
    assert jupyter.put("api/contents/kept.txt", json=kept).status_code == 201
    assert "ServerApp" in api.get(f"{path}/logs").json()["text"]

    api.post(f"{path}/stop")
    until(lambda: phase("stopped"))
    assert jupyter.get("api").status_code in {404, 424, 503}  # the route is gone
    api.post(f"{path}/start")
    again = until(lambda: phase("running"))
    assert again["status"]["url"] == row["status"]["url"]
    jupyter = Jupyter(portal, again).client
    assert jupyter.get("api/contents/kept.txt").json()["content"] == "still here"

    api.delete(path)
    until(lambda: api.get(path).status_code == 404)
    kept = api.get("projects/demo/volumes").json()["results"]
    assert {(v["kind"], v["owner"]) for v in kept} == {("home", "admin"), ("project", None)}
