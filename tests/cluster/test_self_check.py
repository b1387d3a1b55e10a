"""The self-check against the real cluster: what it proves, and what it finds when it is not so."""

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from accounts.principal import Principal
from clusters import checks, registry
from clusters.checks import connectivity, network, queue, rights
from clusters.checks.base import Answer, Subject
from clusters.checks.probe_runner import MARK, Bench
from clusters.models import CheckResult, Cluster
from clusters.options import ClusterOptions, options_of
from clusters.services import Attachment, cluster_attach
from clusters.usable import launch_refusal
from common import sealing
from tests.support.cluster_state import lacking

pytestmark = [pytest.mark.cluster, pytest.mark.django_db, pytest.mark.timeout(600)]


class Hub(BaseHTTPRequestHandler):
    """Berth's listener for work, as little of it as a check asks."""

    def do_GET(self):
        self.send_response(200 if self.path == "/hub/api" else 404)
        self.end_headers()
        self.wfile.write(b'{"version": "5"}')

    def log_message(self, *_args):
        pass


class FromHere:
    """The proxy on this machine: what it is asked is asked from here."""

    def reach(self, target):
        try:
            httpx.get(target, timeout=3, trust_env=False)
        except httpx.TransportError as error:
            return type(error).__name__
        return ""


@pytest.fixture
def ways_there(devcluster, monkeypatch):
    """A listener where pods see this machine, and the options that say so."""
    host = devcluster.get("host")
    if not host:  # of another cluster it is not known what this machine is to its pods
        monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name != "ways"))
        yield {}
        return
    monkeypatch.setattr(registry, "router", FromHere)
    server = ThreadingHTTPServer((host, 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = [f"{host}/32"]
    yield {
        "hub_url": f"http://{host}:{server.server_port}",
        "hub_peers": here,
        "proxy_peers": here,
    }
    server.shutdown()
    server.server_close()


@pytest.fixture
def cluster(devcluster, operator, settings, ways_there):
    """The real cluster, attached as an operator does it."""
    public, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PUBLIC_KEY = public
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]
    registry.reset()
    made = cluster_attach(
        principal=Principal(user=operator),
        given=Attachment(
            name="Dev",
            key="dev",
            kubeconfig=Path(devcluster["kubeconfig"]).read_text(),
            options={
                "namespace_prefix": f"h4{secrets.token_hex(2)}-",
                "volume_path": devcluster.get("volumes", ClusterOptions.volume_path),
                "volume_size_gib": 1,
                "check_image": devcluster["images"]["tool"]["reference"],
                **ways_there,
            },
        ),
    )
    yield made
    registry.reset()


@pytest.fixture
def api(cluster):
    asker = checks._asker(cluster)
    yield asker
    asker.close()


def test_c10_the_whole_check_proves_what_this_cluster_keeps(devcluster, cluster, kube):
    assert devcluster["volumes"]  # of a cluster of which it is not known, homes are not tried
    assert launch_refusal("dev")  # nothing was proved yet
    assert checks.run_due() == 1
    found = {row.name: row for row in CheckResult.objects.filter(cluster=cluster)}
    told = {name: f"{row.state}: {row.sentence} {row.values}" for name, row in found.items()}
    green = {name for name, row in found.items() if row.state == "green"}
    wanted = {"version", "clock", "rights", "security", "image", "network", "host"}
    wanted |= {"storage", "queue"} | ({"ways"} if devcluster.get("host") else set())
    assert wanted <= green, told
    # an administrator's kubeconfig may do far more than is needed, and that is said
    assert found["restraint"].state == "red", told
    assert "create clusterrolebindings" in found["restraint"].values["acts"]
    assert launch_refusal("dev") == ""
    assert checks.run_due() == 0  # not again before a day is over, unless it is asked for
    prefix = cluster.options["namespace_prefix"]
    left = [
        row["metadata"]["name"]
        for row in kube.list(
            "v1", "Namespace", labelSelector=f"{MARK},berth.dev/instance={prefix[:-1]}"
        )
        if "deletionTimestamp" not in row["metadata"]
    ]
    assert left == []


class Ignoring:
    """The real cluster, but its network policies have no effect, as without a controller."""

    def __init__(self, api):
        self._api = api

    def ask(self, method, path, body=None, params=None):
        if "networkpolicies" in path:
            return Answer(200, {})
        return self._api.ask(method, path, body, params)


def test_c10_policies_without_effect_are_found_and_nothing_starts(cluster, api, monkeypatch):
    monkeypatch.setattr(network, "WAIT_S", "15")
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "network"))
    (found,) = checks.run(cluster, Ignoring(api))
    assert found.state == "red", found
    assert "not enforced" in found.text()
    assert "does not keep projects apart" in launch_refusal("dev")


def test_c10_a_kubelet_that_pods_reach_is_found(cluster, api, monkeypatch):
    monkeypatch.setattr(connectivity, "WAIT_S", "20")
    monkeypatch.setattr(connectivity, "METADATA", "192.0.2.1")  # some machines have the real one
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "host"))
    (found,) = checks.run(cluster, Ignoring(api))
    assert found.state == "red", found
    assert "kubelet of their own node" in found.text()
    assert launch_refusal("dev")  # that is the network check's word, which was not asked


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"dns_peers": ["kube-system/no-such-dns"]}, "DNS is said to be at kube-system/no-such"),
        ({"hub_peers": ["192.0.2.0/24"]}, "listener is said to be at 192.0.2.0/24"),
        ({"hub_url": "http://no-such-host.invalid:8002"}, "resolve the name"),
        # not the proxy's: it is on the pods' own node here, which no policy keeps away from them
    ],
)
def test_a_way_that_is_lost_by_a_wrong_setting_is_named(
    cluster, ways_there, api, monkeypatch, wrong, words
):
    if not ways_there:
        pytest.skip("not known what this machine is to the cluster's pods")
    monkeypatch.setattr(connectivity, "REACHED_S", 4.0)
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "ways"))
    cluster.options = {**cluster.options, **wrong}
    (found,) = checks.run(cluster, api)
    assert (found.state, words in found.text()) == ("red", True), found
    cluster.options = {**cluster.options, "trusted": True}
    cluster.save()
    assert "don't reach each other" in launch_refusal("dev")


def test_a_queue_that_is_not_there_is_red_and_kueue_holds_pods(cluster, api, kube, monkeypatch):
    if not kube.get(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", "localqueues.kueue.x-k8s.io"
    ):
        lacking("Kueue")
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "queue"))
    cluster.options = {**cluster.options, "queue": "no-such-queue"}
    (found,) = checks.run(cluster, api)
    assert (found.state, "no LocalQueue “no-such-queue”" in found.text()) == ("red", True), found
    options = options_of(cluster.options)
    bench = Bench(api, options)
    try:
        held = queue._held(Subject(cluster, options, api), bench, "any")
    finally:
        bench.close()
    assert held is None, held  # nothing to say: the pod is gated


def test_a_fault_while_asking_leaves_what_was_proved(cluster, api, monkeypatch):
    from clusters.services import checks_store

    proved = checks.unknown("network", "x")
    checks_store(cluster=cluster, findings=[checks.replace(proved, state="green")])
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "network"))

    class Broken:
        def ask(self, method, path, body=None, params=None):
            return Answer(500, {"message": "etcd is ill"})

    (found,) = checks.run(cluster, Broken())
    assert found.state == "unknown"
    assert CheckResult.objects.get(cluster=cluster, name="network").state == "green"


def test_a_small_identity_is_told_what_it_lacks(cluster, api):
    class Denying:
        def ask(self, method, path, body=None, params=None):
            if path == rights.REVIEW:
                return Answer(201, {"status": {"allowed": False}})
            return api.ask(method, path, body, params)

    asker = Denying()
    options = options_of(cluster.options)
    bench = Bench(asker, options, wait_s=1.0)
    try:
        subject = Subject(Cluster.objects.get(), options, asker)
        found = rights.needed(subject, bench)
        tried = rights.tries(subject, bench)
        restraint = rights.restraint(subject, bench)
    finally:
        bench.close()
    # what reviews deny is tried all the same: this API server would accept each as it is written
    assert set(tried.values()) == {True}, tried
    assert restraint.state == "red"
    assert "create rolebindings (berth-projects) -n kube-system" in restraint.text()
    assert found.state == "red"
    assert "create statefulsets.apps" in found.text()
