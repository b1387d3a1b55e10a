"""Real notebook servers of three generations against the portal, through the real proxy.

Versions x routings; each server is started once, and its tests run in the order written: the
last one stops it.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.hubapi.live.fleet import (
    CACHE_AGE_S,
    NAVIGATE,
    Browser,
    Portal,
    Server,
    environments,
    execute,
    result_of,
    singleuser,
    until,
    wait_for_close,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.enable_socket,
    pytest.mark.timeout(400),
]
CUT_WITHIN_S = 20  # nothing else than the cut ends a connection that soon
VERSIONS = ("6.1", "5.5", "4.1")
CASES = [(v, r) for r in ("host", "path") for v in VERSIONS]
# The newest by a host, the oldest by a path: each of both once.
USUAL = {("6.1", "host"), ("4.1", "path")}


class Fleet:
    """Every server that can be had here of those asked for, started and stopped together."""

    def __init__(self, folder: Path, cases: list[tuple[str, str]]) -> None:
        self.portals = {r: Portal(r, folder / r) for r in ("host", "path")}
        self.servers: dict[tuple[str, str], Server] = {}
        for case in cases:
            version, routing = case
            if singleuser(version).exists():
                place = folder / f"{routing}-{version}"
                self.servers[case] = Server(version, self.portals[routing], place)

    def start(self) -> None:
        for portal in self.portals.values():
            portal.folder.mkdir()
            portal.start()
        for portal in self.portals.values():
            portal.wait()
        for server in self.servers.values():
            server.start()

    def stop(self) -> None:
        for server in self.servers.values():
            if server.process is not None and server.process.poll() is None:
                server.process.kill()
                server.process.wait(60)
        for portal in self.portals.values():
            portal.stop()


@pytest.fixture(scope="module")
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    if shutil.which("node") is None:
        pytest.skip("no Node.js here")
    asked = {
        item.callspec.params.get("server")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    made = Fleet(tmp_path_factory.mktemp("fleet"), [case for case in CASES if case in asked])
    try:
        if made.servers:
            made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(
    scope="module",
    params=[
        case
        if case in USUAL
        else pytest.param(
            case, marks=pytest.mark.long("another version and another way in: two of six beside it")
        )
        for case in CASES
    ],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def server(request: Any, fleet: Fleet) -> Server:
    found = fleet.servers.get(request.param)
    if found is None:
        pytest.skip(f"no environment {environments().name}/singleuser-{request.param[0]}")
    found.wait()
    return found


@pytest.fixture(scope="module")
def alice(server: Server) -> Browser:
    """Signed in to the portal, and by redirects alone to her server."""
    browser = server.portal.browser("alice")
    page = browser.open(server.url)
    assert page.status_code == 200, (page.url, page.text[:500], server.log()[-3000:])
    return browser


@pytest.fixture(scope="module")
def kernel(server: Server, alice: Browser) -> str:
    made = alice.script("POST", f"{server.url}api/kernels", json={"name": "python3"})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def test_owner_signs_in_by_redirects_and_sees_lab(server: Server, alice: Browser) -> None:
    page = alice.open(f"{server.url}lab")
    assert page.status_code == 200
    assert str(page.url).startswith(server.url)
    assert "jupyter-config-data" in page.text
    me = alice.script("GET", f"{server.url}api/me").json()["identity"]
    assert me["username"] == "alice"


def test_kernel_computes_over_the_proxys_websocket(
    server: Server, alice: Browser, kernel: str
) -> None:
    with alice.kernel_socket(server.url, kernel) as ws:
        execute(ws, "1+1")
        assert result_of(ws) == "2"


def test_b5_websocket_of_a_foreign_page_is_refused(
    server: Server, alice: Browser, kernel: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        alice.kernel_socket(server.url, kernel, origin="http://evil.example")
    assert refused.value.response.status_code == 403


def test_anonymous_page_leads_to_sign_in_and_scripts_get_403(server: Server, kernel: str) -> None:
    anonymous = Browser()
    page = anonymous.open(server.url)
    assert "/accounts/login" in str(page.url)
    assert anonymous.script("GET", f"{server.url}api/kernels").status_code == 403
    with pytest.raises(InvalidStatus) as refused:
        anonymous.kernel_socket(server.url, kernel)
    assert refused.value.response.status_code == 403


def test_person_without_a_share_is_refused_at_the_portal(server: Server) -> None:
    page = server.portal.browser("charlie").open(server.url)
    assert page.status_code == 403
    assert str(page.url).startswith(server.portal.base)


def test_a10_forged_state_is_refused_at_the_callback(server: Server, alice: Browser) -> None:
    page = Browser().http.get(
        f"{server.url}oauth_callback?code=stolen&state=forged", headers=NAVIGATE
    )
    assert page.status_code in {400, 403}


def test_b1_browser_has_no_cookie_of_the_portal_for_the_workspaces_host(
    server: Server, alice: Browser
) -> None:
    """And the proxy would strip one (tests/proxy)."""
    assert "berth_session" in alice.cookies(server.portal.base)
    assert "berth" not in alice.cookies(server.url)


def test_b7_token_in_the_address_is_not_read(server: Server) -> None:
    token = server.told["env"]["JUPYTERHUB_API_TOKEN"]
    page = Browser().http.get(f"{server.url}lab?token={token}", headers=NAVIGATE)
    assert page.status_code == 302
    assert "/oauth2/authorize" in page.headers["Location"]


def test_server_reports_its_activity(server: Server) -> None:
    assert until(
        "a report", lambda: server.portal.control("poll", uid=server.uid)["row"]["pushed_at"]
    )


def test_busy_kernel_that_prints_nothing_is_not_idle(
    server: Server, alice: Browser, kernel: str
) -> None:
    def idle() -> Any:
        return server.portal.control("poll", uid=server.uid)["idle"]

    def busy_for_one() -> Any:
        """The server may not have noticed yet that earlier connections were closed."""
        found = idle()
        return found if found["busy_kernels"] and found["connections"] == 1 else None

    over = server.folder / "over"
    silent = f"import os, time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.1)"
    with alice.kernel_socket(server.url, kernel) as ws:
        execute(ws, silent)
        busy = until("a busy kernel", busy_for_one)
        assert (busy["since"], busy["known"]) == (None, True)
        over.touch()
        until("the end of it", lambda: not idle()["busy_kernels"])


def test_asking_for_use_is_not_use(server: Server, alice: Browser, kernel: str) -> None:
    def last() -> Any:
        time.sleep(0.2)
        return server.portal.control("poll", uid=server.uid)["row"]["last_activity"]

    # The server may just then report of what was before; asking is between each two of them.
    assert any(last() == last() for _ in range(5))


def test_scopes_are_understood_by_the_servers_own_matcher(server: Server, alice: Browser) -> None:
    """The matcher of the installed jupyterhub, on what the portal says of each token."""
    tokens = {
        "server": server.told["env"]["JUPYTERHUB_API_TOKEN"],
        "service": server.told["service_token"],
    }
    given = {
        name: Browser()
        .http.get(f"{server.portal.base}/hub/api/user", headers={"Authorization": f"token {token}"})
        .json()["scopes"]
        for name, token in tokens.items()
    }
    wanted = json.loads(server.told["env"]["JUPYTERHUB_OAUTH_ACCESS_SCOPES"])
    program = (
        "import json, sys; from jupyterhub.services.auth import check_scopes;"
        "given, wanted = json.loads(sys.argv[1]);"
        "print(json.dumps({n: [bool(check_scopes(wanted, s)),"
        " bool(check_scopes(['access:servers!server=alice/other'], s))] for n, s in given.items()}))"
    )
    python = singleuser(server.version).with_name("python")
    done = subprocess.run(
        [python, "-c", program, json.dumps([given, wanted])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {name: [True, False] for name in tokens}


def test_visitor_is_himself_until_he_is_revoked_and_the_owner_works_on(
    server: Server, alice: Browser, kernel: str
) -> None:
    server.portal.control("share", uid=server.uid, user="bob")
    bob = server.portal.browser("bob")
    assert give_consent(server, bob).status_code == 200
    me = bob.script("GET", f"{server.url}api/me").json()["identity"]
    assert me["username"] == "bob"
    with (
        alice.kernel_socket(server.url, kernel) as hers,
        bob.kernel_socket(server.url, kernel) as his,
    ):
        assert server.portal.control("unshare", uid=server.uid, user="bob")["cut"] >= 1
        ended = time.monotonic()
        wait_for_close(his, within_s=CUT_WITHIN_S)
        execute(hers, "20+2")
        assert result_of(hers) == "22"
    kernels = f"{server.url}api/kernels"

    def refused() -> bool:
        """Asked late enough he is refused, however long the machine takes for each question."""
        asked = time.monotonic()
        status = bob.script("GET", kernels).status_code
        assert status == 403 or asked - ended < CACHE_AGE_S + 2
        return bool(status == 403)

    until("the refusal", refused)
    assert bob.open(server.url).status_code == 403
    assert alice.script("GET", kernels).status_code == 200


def give_consent(server: Server, browser: Browser) -> httpx.Response:
    """Press the button on the page that a visitor sees first."""
    import html
    import re

    asked = browser.open(server.url)
    assert str(asked.url).startswith(server.portal.base), asked.url
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', asked.text))
    return browser.http.post(
        f"{server.portal.base}/hub/consent",
        data={name: html.unescape(value) for name, value in fields.items()},
        headers={"Referer": str(asked.url), **NAVIGATE},
        follow_redirects=True,
    )


def test_logging_out_in_lab_ends_the_portal_session(server: Server) -> None:
    browser = server.portal.browser("alice")
    assert browser.open(server.url).status_code == 200
    left = browser.http.get(
        f"{server.url}logout", headers={**NAVIGATE, "Referer": server.url}, follow_redirects=True
    )
    assert "/accounts/login" in str(left.url)
    assert "/accounts/login" in str(browser.open(server.portal.base + "/hub/home").url)


def test_stop_closes_websockets_and_the_address_answers_424(
    server: Server, alice: Browser, kernel: str
) -> None:
    with alice.kernel_socket(server.url, kernel) as ws:
        server.portal.control("stop", uid=server.uid)
        wait_for_close(ws, within_s=CUT_WITHIN_S)
    gone = alice.script("GET", f"{server.url}api/kernels")
    assert gone.status_code == 424
    assert gone.json()["resume_url"].startswith(server.portal.base)
    page = alice.open(server.url)
    assert page.status_code == 424
    assert "/hub/spawn/-/" in page.text
    with pytest.raises(InvalidStatus) as refused:
        alice.kernel_socket(server.url, kernel)
    assert refused.value.response.status_code == 424
    token = server.told["env"]["JUPYTERHUB_API_TOKEN"]
    answer = httpx.get(
        f"{server.portal.base.replace('localhost', '127.0.0.1')}/hub/api/user",
        headers={"Authorization": f"token {token}", "Host": server.portal.base[7:]},
        timeout=60,
    )
    assert answer.status_code == 403
    assert server.terminate() == 0
