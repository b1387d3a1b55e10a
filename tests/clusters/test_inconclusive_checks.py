"""A probe that came to nothing: it is no proof, no fault, and takes neither away."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from clusters import checks
from clusters.checks import connectivity, network, rights
from clusters.checks.base import Answer, green, red, undecided, unknown
from clusters.models import CheckResult, Cluster
from clusters.services import checks_store
from clusters.usable import launch_refusal
from events.models import Event
from tests.clusters.probing import Api, bench, network_of, subject

KILLED, NOT_STARTED, CRASHED = 137, 128, 1


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(
        key="c", name="C", driver="kubernetes", options={"check_image": "x"}
    )


@pytest.fixture
def only_network(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", tuple(c for c in checks.CHECKS if c.name == "network"))


@pytest.mark.parametrize(
    "ends",
    [
        {"before": 10},  # not reached within its time, though nothing was closed yet
        {"before": KILLED},
        {"before": 0, "incoming": 11, "outgoing": 0},
        {"before": 0, "incoming": KILLED, "outgoing": 0},
        {"before": 0, "incoming": 0, "outgoing": NOT_STARTED},
    ],
)
def test_c10_a_probe_that_came_to_nothing_leaves_a_proof_and_work_goes_on(
    cluster, only_network, ends
):
    checks_store(cluster=cluster, findings=[green("network", "Closed.")])
    assert launch_refusal("c") == ""
    (found,) = checks.run(cluster, network_of(**ends))
    assert found.state == "unknown"
    assert CheckResult.objects.get().state == "green"
    assert launch_refusal("c") == ""
    assert not Event.objects.filter(verb="cluster.check-failed").exists()


def test_c10_a_probe_that_came_to_nothing_proves_nothing(cluster, only_network):
    checks.run(cluster, network_of(before=10))
    assert CheckResult.objects.get().state == "unknown"
    assert "was not proved yet" in launch_refusal("c")


def test_c10_an_old_proof_ends_though_probes_come_to_nothing(cluster, only_network):
    checks_store(cluster=cluster, findings=[green("network", "Closed.")])
    old = CheckResult.objects.get().at - timedelta(days=4)
    CheckResult.objects.update(at=old)
    checks.run(cluster, network_of(before=10))
    assert "was not proved for some days" in launch_refusal("c")


def test_c10_a_cluster_without_an_image_for_checks_loses_its_proof(cluster, only_network):
    checks_store(cluster=cluster, findings=[green("network", "Closed.")])
    Cluster.objects.update(options={"sidecar_image": "", "default_image": ""})
    cluster.refresh_from_db()
    checks.run(cluster, network_of())
    assert "was not proved yet" in launch_refusal("c")


@pytest.mark.parametrize("code", [CRASHED, 2, 12, NOT_STARTED, KILLED, 143, 255])
def test_c10_only_what_a_client_reached_is_a_fault(code):
    assert network.judge(code, 0).state == "unknown"
    assert network.judge(0, code).state == "unknown"
    assert network.judge(code, code).failed
    # what the other client has seen for itself is a fault all the same
    assert network.judge(10, code).state == "red"
    assert network.judge(code, 10).state == "red"
    assert network.judge(11, 10).state == "red"


def test_c10_a_client_that_saw_nothing_wrong_but_ran_out_of_time_accuses_nobody():
    env = {**os.environ, "EXPECT": "closed 127.0.0.1 1", "WAIT": "0.3"}
    asked = [sys.executable, "-c", network.CLIENT]
    ended = subprocess.run(asked, env=env, check=False, timeout=30)
    assert ended.returncode == CRASHED
    assert network.judge(ended.returncode, 0).state == "unknown"
    ended = subprocess.run(asked, env=env | {"WAIT": "20"}, check=False, timeout=30)
    assert ended.returncode == 0


def test_c10_what_was_closed_for_a_moment_only_is_not_closed():
    """A rule may hold back while others are written: it was seen for some seconds on a real node."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        number = door.getsockname()[1]
        env = {**os.environ, "EXPECT": f"closed 127.0.0.1 {number}", "WAIT": "6"}
        with subprocess.Popen([sys.executable, "-c", network.CLIENT], env=env) as client:
            time.sleep(1.5)
            door.listen()
            assert client.wait(30) == network.FIRST


def test_c10_a_pod_that_reaches_nothing_at_all_proves_nothing_closed():
    """As while its network is not up yet: what it may reach it does not reach either."""
    env = {**os.environ, "EXPECT": "closed 127.0.0.1 1,open 127.0.0.1 1", "WAIT": "7"}
    client = subprocess.run([sys.executable, "-c", network.CLIENT], env=env, check=False)
    assert client.returncode == network.SECOND


def test_c10_a_probe_of_nodes_that_died_does_not_open_what_was_closed(cluster):
    tried = connectivity.targets(["10.0.0.1"])
    checks_store(
        cluster=cluster, findings=[green("network", "Closed."), connectivity.judge(10, tried)]
    )
    assert "credential of its nodes" in launch_refusal("c")
    checks_store(cluster=cluster, findings=[connectivity.judge(KILLED, tried)])
    assert "credential of its nodes" in launch_refusal("c")


def test_rights_that_were_not_told_leave_what_was_told_before(cluster, monkeypatch):
    silent = Api(selfsubjectaccessreviews=Answer(504, {"message": "timeout"}))
    monkeypatch.setattr(rights, "tries", lambda *_: {"create pods -n kube-system": None})
    checks_store(cluster=cluster, findings=[green("rights", "All."), red("restraint", "Much.")])
    for act in (rights.needed, rights.restraint):
        found = act(subject(silent), bench(silent))
        assert (found.state, found.failed) == ("unknown", True)
        checks_store(cluster=cluster, findings=[found])
    states = dict(CheckResult.objects.values_list("name", "state"))
    assert states == {"rights": "green", "restraint": "red"}


def test_why_nothing_is_known_is_told_anew(cluster):
    checks_store(cluster=cluster, findings=[unknown("network", "Set an image.")])
    checks_store(cluster=cluster, findings=[undecided("network", "It was killed.")])
    assert CheckResult.objects.get().sentence == "It was killed."
    checks_store(cluster=cluster, findings=[replace(green("network", "Closed."), took_ms=5)])
    assert CheckResult.objects.get().state == "green"
