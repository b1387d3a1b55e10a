"""On which nodes the self-check sees whether policies are enforced: tainted ones too, of each pool."""

from datetime import datetime, timedelta

import pytest

from clusters import checks
from clusters.checks import network, node_groups
from clusters.checks.base import Answer, green
from clusters.models import CheckResult, Cluster, Flavor, Pool
from clusters.services import checks_store
from clusters.usable import launch_refusal
from common.clock import now
from tests.clusters.probing import Api, ended, network_of, waiting

GPU, KWOK = "nvidia.com/gpu", node_groups.SIMULATED
DEVICES = {"key": GPU, "operator": "Exists"}
WELL, OPEN_IN, OPEN_OUT = (0, 0, 0), (0, 10, 0), (0, 0, 10)
NO_ROUTE, KILLED = (10, 0, 0), (0, 0, 137)
FULL = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "too many pods"}]}


def node(name, *taints, ready=True, gpus=0, **labels):
    return {
        "metadata": {"name": name, "labels": {k.replace("_", "/"): v for k, v in labels.items()}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {"cpu": "8", **({GPU: str(gpus)} if gpus else {})},
        },
    }


class Nodes(Api):
    """Pods run on the first node that they are bound to, and end as ``codes`` says of that."""

    def __init__(self, *nodes, page=100, **codes):
        super().__init__()
        self.nodes, self.page, self.codes, self.made = nodes, page, codes, {}

    def ask(self, method, path, body=None, params=None):
        self.asked.append((method, path))
        if path == "/api/v1/nodes":
            return self._some(int((params or {}).get("continue") or 0))
        if method == "APPLY" and "statefulsets" in path:
            self.made[body["metadata"]["name"]] = body["spec"]["template"]
        if method == "GET" and "/pods/" in path:
            return self._pod(path.rpartition("/")[2].removesuffix("-0"))
        return Answer(200, {})

    def _some(self, start):
        found = list(self.nodes[start : start + self.page])
        after = start + self.page
        meta = {"continue": str(after)} if after < len(self.nodes) else {}
        return Answer(200, {"items": found, "metadata": meta})

    def names_of(self, pod):
        affinity = self.made[pod]["spec"].get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = required.get("nodeSelectorTerms") or ()
        return [term["matchFields"][0]["values"][0] for term in terms]

    def _pod(self, pod):
        where = next(iter(self.names_of(pod)), "anywhere")
        codes = self.codes.get(where.replace("-", "_"), WELL)
        kind = pod.partition("-")[0]
        if codes == "full":
            return Answer(200, {"status": FULL})
        if isinstance(codes, Answer):
            return codes
        if kind in {"guarded", "free"}:
            status = {"phase": "Running", "podIP": "10.0.0.1"}
        else:
            status = ended(codes[("before", "incoming", "outgoing").index(kind)]).body["status"]
        return Answer(200, {"spec": {"nodeName": where}, "status": status})


@pytest.fixture
def cluster(db, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "network"))
    monkeypatch.setattr(network, "WAIT_S", "0.5")  # nothing runs here that would take longer
    Flavor.objects.all().delete()
    return Cluster.objects.create(
        key="c", name="C", driver="kubernetes", options={"check_image": "x"}
    )


@pytest.fixture
def pools(cluster):
    spot = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    made = {"cluster": cluster, "node_labels": {"pool": "spot"}, "tolerations": [spot]}
    Pool.objects.create(name="spot", position=1, **made)
    Pool.objects.create(cluster=cluster, name="gpu", node_labels={"pool": "gpu"}, position=2)


FLEET = (
    node("cpu-1"),
    node("gpu-1", GPU, gpus=8, pool="gpu"),
    node("spot-1", "spot", pool="spot"),
)


def asked(cluster, api):
    (found,) = checks.run(cluster, api, wait_s=0.1)
    return found


def test_c10_tainted_nodes_of_every_pool_are_probed_and_named(cluster, pools):
    api = Nodes(*FLEET)
    found = asked(cluster, api)
    assert (found.state, launch_refusal("c")) == ("green", "")
    assert "cpu-1, spot-1 (spot), gpu-1 (gpu)" in found.text()
    for pod in ("guarded", "before", "incoming", "outgoing"):
        assert [api.names_of(f"{pod}-{n}") for n in range(3)] == [["cpu-1"], ["spot-1"], ["gpu-1"]]
    assert len(api.made) == 4 * 3 + 1  # one listener that stays open is enough for all
    for pod in api.made.values():
        tolerated = pod["spec"]["tolerations"]
        assert DEVICES in tolerated
        assert {"key": "spot", "operator": "Exists", "effect": "NoSchedule"} in tolerated


@pytest.mark.parametrize(
    ("codes", "words", "lacking"),
    [
        ({"gpu_1": OPEN_IN}, "incoming connections on these nodes (of these pools): gpu-1 (gpu)", "spot"),
        ({"spot_1": OPEN_OUT}, "outgoing connections on these nodes (of these pools): spot-1 (spot)", "gpu"),
        ({"gpu_1": OPEN_IN, "spot_1": OPEN_OUT}, "spot-1 (spot), gpu-1 (gpu). A pod reached", "cpu"),
        # what was seen on one node counts, though another probe came to nothing
        ({"gpu_1": OPEN_IN, "spot_1": "full"}, "gpu-1 (gpu)", "spot"),
    ],
)  # fmt: skip
def test_c10_a_pool_whose_nodes_do_not_enforce_policies_is_named_and_nothing_starts(
    cluster, pools, codes, words, lacking
):
    found = asked(cluster, Nodes(*FLEET, **codes))
    assert (found.state, words in found.text(), lacking in found.text()) == ("red", True, False)
    assert "does not keep projects apart" in launch_refusal("c")


def test_c10_where_every_node_is_tainted_policies_are_probed_all_the_same(cluster):
    api = Nodes(node("gpu-1", GPU, gpus=8))
    assert asked(cluster, api).state == "green"
    assert launch_refusal("c") == ""
    assert DEVICES in api.made["free"]["spec"]["tolerations"]
    other = Nodes(node("amd-1", "amd.com/gpu"))
    other.nodes[0]["status"]["allocatable"]["amd.com/gpu"] = "8"
    assert asked(cluster, other).state == "green"
    tolerated = other.made["guarded-0"]["spec"]["tolerations"]
    assert {"key": "amd.com/gpu", "operator": "Exists"} in tolerated


def test_c10_simulated_nodes_and_those_without_work_are_left_out(cluster):
    tolerated = [{"key": KWOK, "operator": "Exists"}, {"key": "old", "value": "", "effect": ""}]
    Pool.objects.create(
        cluster=cluster, name="far", node_labels={"type": "kwok"}, tolerations=tolerated
    )
    cordoned = node("d")
    cordoned["spec"]["unschedulable"] = True
    api = Nodes(
        node("kwok-1", KWOK, gpus=8, type="kwok"),
        node("a", ready=False),
        node("b", "node-role.kubernetes.io/control-plane"),
        node("c", kubernetes_io="x", **{"kubernetes.io_os": "windows"}),
        cordoned,
        node("e"),
        page=2,
    )
    found = asked(cluster, api)
    assert found.values["where"] == "e"
    assert {entry["key"] for entry in api.made["guarded-0"]["spec"]["tolerations"]} == {GPU, "old"}


@pytest.mark.parametrize("codes", [NO_ROUTE, KILLED, "full", waiting("ImagePullBackOff", "gone")])
def test_c10_what_came_to_nothing_on_one_pool_is_named_and_tried_again_soon(
    cluster, pools, codes, operator
):
    found = asked(cluster, Nodes(*FLEET, gpu_1=codes))
    assert (found.state, launch_refusal("c")) == ("green", "")
    assert "is tried again: gpu-1 (gpu)." in found.text()
    assert ("too many pods" in found.text()) == (codes == "full")
    cluster.refresh_from_db()
    assert cluster.checks_due_at <= now() + timedelta(minutes=2)
    assert checks._known(cluster) == frozenset()  # so that it is asked again then
    asked(cluster, Nodes(*FLEET))
    cluster.refresh_from_db()
    assert (cluster.checks_due_at, checks._known(cluster)) == (None, {"network"})


def test_c10_nothing_proved_on_any_node_is_no_proof(cluster, pools):
    codes = {"gpu_1": NO_ROUTE, "cpu_1": KILLED, "spot_1": "full"}
    found = asked(cluster, Nodes(*FLEET, **codes))
    assert (found.state, found.failed) == ("unknown", True)
    assert "was not proved yet" in launch_refusal("c")


def test_c10_a_pool_that_was_open_is_red_until_it_was_itself_seen_closed(cluster, pools):
    nodes = [node(f"gpu-{n}", GPU, gpus=8, pool="gpu") for n in range(1, 5)]
    fleet = (node("cpu-1"), *nodes)
    api = Nodes(*fleet, gpu_1=OPEN_IN)
    assert asked(cluster, api).values["nodes"] == ["gpu-1"]
    for codes in ("full", NO_ROUTE, KILLED):
        api = Nodes(*fleet, gpu_1=codes)
        found = asked(cluster, api)
        assert (found.state, found.failed) == ("unknown", True)
        assert api.names_of("guarded-0") == ["gpu-1"]  # no other node of the pool answers for it
        assert "does not keep projects apart" in launch_refusal("c")
    asked(cluster, Nodes(*fleet))
    assert CheckResult.objects.get().state == "green"


def test_c10_a_run_stays_small_and_every_group_has_its_turn(cluster, monkeypatch):
    fleet = []
    for n in range(7):
        name = f"p{n}"
        Pool.objects.create(cluster=cluster, name=name, node_labels={"pool": name}, position=n)
        fleet += [node(f"{name}-{i:02d}", pool=name) for i in range(20)]
    seen = set()
    for day in range(10):
        at = datetime.fromisoformat("2026-01-01T00:00:00+00:00") + timedelta(days=day)
        monkeypatch.setattr(node_groups, "now", lambda at=at: at)
        api = Nodes(*fleet)
        found = asked(cluster, api)
        assert "5 of 7 groups" in found.text()
        assert len(api.made) == 5 * 4 + 1
        assert max(len(api.names_of(name)) for name in api.made) == node_groups.MOST_NODES
        seen |= {name for pod in api.made for name in api.names_of(pod)}
    assert seen == {row["metadata"]["name"] for row in fleet}


def test_who_may_not_list_nodes_has_policies_probed_where_the_scheduler_likes(cluster):
    api = network_of(before=0, incoming=0, outgoing=0)
    api.answers = {"/api/v1/nodes": Answer(403, {"message": "no"}), **api.answers}
    found = asked(cluster, api)
    assert found.text() == "Enforced: probed with pods of two namespaces, both directions."


def test_c10_one_client_that_saw_an_open_door_counts_though_the_other_never_ran(cluster):
    api = Nodes(node("a"))
    api._pod = lambda pod: (
        Answer(200, {"status": FULL}) if pod == "incoming-0" else Nodes._pod(api, pod)
    )
    api.codes = {"a": OPEN_OUT}
    assert asked(cluster, api).state == "red"
    api.codes = {"a": WELL}
    checks_store(cluster=cluster, findings=[green("network", "Closed.")])
    assert asked(cluster, api).failed
