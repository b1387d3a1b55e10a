"""Behind TLS: cookies that no other host can set or see."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubapi.live.fleet import Browser, Portal, Server, singleuser

pytestmark = [pytest.mark.real, pytest.mark.enable_socket, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    if shutil.which("node") is None:
        pytest.skip("no Node.js here")
    made = Portal("host", tmp_path_factory.mktemp("tls"), tls=True)
    try:
        made.start()
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["6.1", "4.1"])
def server(request: pytest.FixtureRequest, portal: Portal, tmp_path: Path) -> Iterator[Server]:
    if not singleuser(request.param).exists():
        pytest.skip(f"no environment of singleuser {request.param}")
    made = Server(request.param, portal, tmp_path / "server")
    try:
        made.start()
        made.wait()
        yield made
    finally:
        if made.process is not None:
            made.process.kill()
            made.process.wait(60)


def test_b2_sign_in_behind_tls_gives_host_only_cookies(server: Server) -> None:
    browser: Browser = server.portal.browser("alice")
    assert server.url.startswith("https://")
    page = browser.open(server.url)
    assert page.status_code == 200, (page.url, page.text[:300], server.log()[-2000:])
    cookies = {c.name: c for c in browser.http.cookies.jar if "berth" not in c.name}
    signed_in = [
        c
        for name, c in cookies.items()
        if name.endswith(server.told["env"]["JUPYTERHUB_CLIENT_ID"])
    ]
    assert len(signed_in) == 1
    cookie = signed_in[0]
    assert cookie.secure
    assert (cookie.path, cookie.domain_specified) == ("/", False)
    assert cookie.has_nonstandard_attr("HttpOnly")
    if server.version != "4.1":  # older servers do not know the prefix
        assert cookie.name.startswith("__Host-")
    kernel = browser.script("POST", f"{server.url}api/kernels", json={"name": "python3"})
    assert kernel.status_code == 201, kernel.text
