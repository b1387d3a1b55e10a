"""Work finds Berth, and the proxy finds work: what each lost way names, and what waits for it."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from clusters import registry
from clusters.checks import CHECKS, connectivity
from clusters.checks.base import Answer
from clusters.models import CheckResult, Cluster
from clusters.options import ClusterOptions
from clusters.usable import launch_refusal
from common.clock import now
from runtime.routers.fake import FakeRouter
from tests.clusters.probing import Api, bench, ended, subject

HUB = {"hub_url": "http://192.0.2.10:8002", "check_image": "x"}


def running(address):
    return {"status": {"phase": "Running", "podIP": address}}


class Pods(Api):
    """The caller's and the listener's pods of both namespaces."""

    def __init__(self, closed=0, free=0, said=""):
        super().__init__()
        self.ends = {"-c": ended(closed, message=said), "-a": ended(free, message=said)}

    def ask(self, method, path, body=None, params=None):
        if "/pods/" in path:
            where = path.split("/")[4][-2:]
            address = "10.0.0.1" if where == "-c" else "10.0.0.2"
            return self.ends[where] if "caller" in path else Answer(200, running(address))
        return super().ask(method, path, body, params)


@pytest.fixture
def router(db, monkeypatch):
    monkeypatch.setattr(connectivity, "REACHED_S", 0.0)
    made = FakeRouter()
    monkeypatch.setattr(registry, "router", lambda: made)
    return made


def asked(api, **options):
    options = {**HUB, **options}
    one = subject(api, **options)
    one.cluster.options = options
    return connectivity.ways(one, bench(api, **options))


def test_ways_that_are_found_are_green(router):
    found = asked(Pods())
    assert found.state == "green", found
    assert "reached it at 10.0.0.1" in found.text()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8002", "http://localhost:8002", "http://[::1]:1"]
)
def test_a_loopback_address_is_red_without_any_pod(url, router):
    api = Pods()
    found = asked(api, hub_url=url, check_image="")
    assert (found.state, api.asked) == ("red", [])
    assert "BERTH_INTERNAL_BIND" in found.text()


@pytest.mark.parametrize(
    ("closed", "free", "words"),
    [
        (connectivity.DNS, connectivity.DNS, "cluster's DNS: why it is"),
        (connectivity.DNS, 0, "DNS is said to be at kube-system/kube-dns"),
        (connectivity.DNS, connectivity.HUB, "DNS is said to be at kube-system/kube-dns"),
        (
            connectivity.HUB_NAME,
            connectivity.HUB_NAME,
            "resolve the name in http://192.0.2.10:8002: why it is",
        ),
        (
            connectivity.HUB,
            connectivity.HUB,
            "don't reach Berth at http://192.0.2.10:8002: why it is",
        ),
        (connectivity.HUB, 0, "listener is said to be at berth/web"),
        (connectivity.NOT_BERTH, connectivity.NOT_BERTH, "BERTH_ALLOWED_HOSTS"),
    ],
)
def test_a_lost_way_to_berth_names_what_to_set(closed, free, words, router):
    found = asked(Pods(closed, free, "why it is"))
    assert (found.state, words in found.text()) == ("red", True), found.text()
    assert found.fix


@pytest.mark.parametrize(
    ("unreached", "words"),
    [(["10.0.0.1"], "said to be at berth/proxy, berth/gate"), (["10.0.0.1", "10.0.0.2"], "route")],
)
def test_a_lost_way_to_pods_names_what_to_set(unreached, words, router):
    with router._store.open() as world:
        world["unreached"] = {f"http://{one}:8888/": "ETIMEDOUT" for one in unreached}
    found = asked(Pods())
    assert (found.state, words in found.text()) == ("red", True), found.text()
    assert "ETIMEDOUT" in found.text()


@pytest.mark.parametrize(("code", "state"), [(137, "unknown"), (1, "unknown")])
def test_a_probe_that_was_ended_says_nothing(code, state, router):
    assert asked(Pods(code)).state == state


class Hub(BaseHTTPRequestHandler):
    answer = b'{"version": "5.3"}'

    def do_GET(self):
        self.send_response(200 if self.path == "/hub/api" else 404)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_args):
        pass


@pytest.fixture
def caller(tmp_path):
    """The script as a pod runs it, where DNS knows what ``known`` says."""

    def run(url, known='("127.0.0.1", "kubernetes.default.svc")'):
        patched = f"""
import socket
real = socket.getaddrinfo
def asked(host, *more, **words):
    if host not in {known}:
        raise socket.gaierror("unknown")
    return real("127.0.0.1", *more, **words)
socket.getaddrinfo = asked
"""
        script = patched + connectivity.CALLER.replace(
            "/dev/termination-log", str(tmp_path / "said")
        )
        env = {"HUB": url, "WAIT": "0"}
        done = subprocess.run([sys.executable, "-c", script], env=env, check=False)
        return done.returncode, (tmp_path / "said").read_text()

    return run


def test_the_caller_says_how_far_it_came(caller, monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert caller(url) == (0, "")
        assert caller(url, known="()") == (connectivity.DNS, "unknown")
        assert caller(url, known='("kubernetes.default.svc",)') == (
            connectivity.HUB_NAME,
            "unknown",
        )
        assert caller(f"{url}/elsewhere")[0] == connectivity.NOT_BERTH
        monkeypatch.setattr(Hub, "answer", b"a page")
        assert caller(url)[0] == connectivity.NOT_BERTH
    finally:
        server.shutdown()
        server.server_close()
    code, said = caller(url)
    assert (code, "refused" in said) == (connectivity.HUB, True)


def test_a_new_cluster_has_tried_them_before_its_network_is_proved():
    names = [check.name for check in CHECKS]
    assert names.index("ways") < names.index("network")


@pytest.mark.django_db
@pytest.mark.parametrize("trusted", [True, False])
def test_nothing_starts_where_a_way_was_lost(trusted):
    options = ClusterOptions(trusted=trusted).as_json()
    cluster = Cluster.objects.create(key="c", name="C", driver="kubernetes", options=options)
    CheckResult.objects.create(cluster=cluster, name="network", state="green", at=now())
    assert launch_refusal("c") == ""
    row = CheckResult.objects.create(cluster=cluster, name="ways", state="red", at=now())
    assert "don't reach each other" in launch_refusal("c")
    for state in ("green", "unknown"):
        row.state = state
        row.save()
        assert launch_refusal("c") == ""
