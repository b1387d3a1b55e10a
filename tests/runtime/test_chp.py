"""The router for configurable-http-proxy, against our real proxy."""

import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from runtime import routes
from runtime.models import Route
from runtime.protocol import Unreachable
from runtime.reasons import Reason
from runtime.routers.base import RouteEntry
from runtime.routers.chp import ChpProxy, ChpRouter, path_of
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-for-tests"
real = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("node") is None, reason="no Node"),
    pytest.mark.skipif(
        not (ROOT / "node_modules/configurable-http-proxy").is_dir(), reason="no node_modules"
    ),
]


@pytest.mark.parametrize("key", ["", "/", "//"])
def test_empty_routes_are_refused_since_they_would_hit_the_default_route(key):
    with pytest.raises(ValueError, match="not a route"):
        path_of(key)


def test_keys_have_no_trailing_slash_and_are_quoted():
    assert path_of("/ws-1.nb.localhost/") == "/api/routes/ws-1.nb.localhost"
    assert path_of("/user/a b/x?y") == "/api/routes/user/a%20b/x%3Fy"


def test_a_proxy_that_does_not_answer_is_unreachable():
    proxy = ChpProxy("http://127.0.0.1:9", TOKEN)
    with pytest.raises(Unreachable) as caught:
        proxy.list()
    assert caught.value.reason == Reason.PROXY_UNREACHABLE


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Proxy:
    """One real proxy process with host routing."""

    def __init__(self):
        self.port, self.api_port = free_port(), free_port()
        self.api = f"http://127.0.0.1:{self.api_port}"
        self.start()

    def start(self):
        command = ["node", str(ROOT / "proxy/berth-proxy.mjs"), "--host-routing"]
        command += ["--port", str(self.port), "--api-port", str(self.api_port)]
        env = {**os.environ, "CONFIGPROXY_AUTH_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while not all(map(listens, (self.api_port, self.port))):
            assert time.monotonic() < end, "the proxy did not start"
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def get(self, host):
        return httpx.get(f"http://127.0.0.1:{self.port}/x", headers={"Host": host}, timeout=30)


@pytest.fixture
def proxies():
    made = []

    def start(count=1):
        made.extend(Proxy() for _ in range(count))
        return made

    yield start
    for one in made:
        one.kill()


@pytest.fixture
def target():
    """A server that says hello."""

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def router_of(made):
    return ChpRouter([ChpProxy(p.api, TOKEN) for p in made])


class TestRealProxy:
    pytestmark = real

    def test_put_list_drop_and_epoch(self, proxies, target):
        (proxy,) = proxies()
        router = router_of([proxy])
        entry = RouteEntry("/ws-a.nb.localhost", target, "u-1")
        epoch = router.epoch()
        router.put(entry)
        router.put(entry)
        assert router.list() == {entry.key: entry}
        assert proxy.get("ws-a.nb.localhost").text == "hello"
        assert router.cut(entry.key) >= 0
        router.drop(entry.key)
        router.drop(entry.key)  # missing is success
        assert router.list() == {}
        assert router.epoch() == epoch != ""

    def test_a_wrong_token_is_unreachable_and_changes_nothing(self, proxies, target):
        (proxy,) = proxies()
        wrong = ChpProxy(proxy.api, "another")
        with pytest.raises(Unreachable):
            wrong.put(RouteEntry("/ws-a.nb.localhost", target, "u"))
        assert router_of([proxy]).list() == {}

    @pytest.mark.django_db
    def test_a_killed_proxy_has_its_routes_back_within_two_seconds(
        self, proxies, target, monkeypatch
    ):
        (proxy,) = proxies()
        router = router_of([proxy])
        monkeypatch.setattr(routes, "proxies", lambda: router.members)
        key = "/ws-a.nb.localhost"
        Route.objects.create(key=key, target=target, uid="12345678-1234-4234-8234-123456789012")
        keeper = routes.Keeper()
        assert keeper.tick() == 0

        def back_after():
            proxy.kill()
            assert keeper.tick() == 1
            proxy.start()
            assert proxy.get("ws-a.nb.localhost").status_code != 200
            back = time.monotonic()
            while proxy.get("ws-a.nb.localhost").text != "hello":
                keeper.tick()
                assert time.monotonic() - back < 60
                time.sleep(0.05)
            return time.monotonic() - back

        assert any(back_after() < 2 for _ in range(3))  # the machine may be busy

    @pytest.mark.django_db
    def test_several_proxies_have_all_routes_and_each_is_repaired_by_itself(
        self, proxies, target, monkeypatch
    ):
        one, two = proxies(2)
        router = router_of([one, two])
        monkeypatch.setattr(routes, "proxies", lambda: router.members)
        uid = "12345678-1234-4234-8234-123456789012"
        entry = RouteEntry("/ws-a.nb.localhost", target, uid)
        Route.objects.create(key=entry.key, target=target, uid=uid)
        router.put(entry)
        keeper = routes.Keeper()
        keeper.tick()
        two.kill()
        two.start()
        assert router.list() == {}  # not everywhere
        keeper.tick()
        assert router.list() == {entry.key: entry}
        assert one.get("ws-a.nb.localhost").text == two.get("ws-a.nb.localhost").text == "hello"
