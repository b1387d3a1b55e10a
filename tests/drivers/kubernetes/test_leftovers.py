"""E11: what has no StatefulSet or Job any more is found and removed too, and nothing of others."""

import contextlib

import pytest

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.cluster_cache import PODS as POD_KIND
from runtime.drivers.kubernetes.cluster_cache import SETS as SET_KIND
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import NotYet, Seen, Unreachable
from runtime.spec import Sidecar
from tests.drivers.kubernetes.pieces import UID, pod, runs, statefulset
from tests.drivers.kubernetes.stub import ALLOW, QUICK, remove
from tests.drivers.kubernetes.test_apply import PODS, SECRETS, SETS, spec
from tests.drivers.kubernetes.test_watch import Follower

OTHER = "0b8b8a4e-5d2c-4b5f-8a43-2f7f1f8f4a11"


@pytest.fixture
def newcomer(stub):
    """A worker that has just begun, about rows of which nobody knows."""
    made = KubernetesDriver(stub.access(), KubernetesOptions(), "stub", check=ALLOW)
    made.client.patience = QUICK
    yield made
    made.close()


def put_pod(stub, name="ws-k7-0", uid=UID, prefix="berth-", **labels):
    made = pod(main=runs(), ready=True)
    made["metadata"] = {
        "name": name,
        "namespace": "ns",
        "labels": {**names.labels(prefix, "", uid=uid, kind="workspace"), **labels},
    }
    return stub.put(PODS, made)


def left(stub):
    return sorted((c.rsplit("/", 1)[1], k) for c, k in stub.objects)


@pytest.mark.parametrize("job", [{}, {names.JOB: "ws-gone"}], ids=["set", "job"])
def test_a_pod_alone_is_told_as_long_as_nothing_leads_to_it(job):
    world = World()
    alone = pod(main=runs(), ready=True)
    alone["metadata"]["labels"] |= {names.KIND: "load", **job}
    world.put(POD_KIND, alone)
    (found,) = world.lone_pods()
    assert (found.uid, found.seen, found.kind) == (UID, Seen.STARTING, "load")
    assert world.workloads() == []
    world.put(SET_KIND, statefulset())
    assert world.lone_pods() == []


@pytest.mark.parametrize("job", [{}, {names.JOB: "ws-k7"}], ids=["set", "job"])
def test_e11_a_pod_alone_is_found_and_removed(stub, newcomer, job):
    put_pod(stub, **job)
    assert [o.uid for o in newcomer.list_owned()] == [UID]
    remove(newcomer, UID)
    assert left(stub) == []
    assert list(newcomer.list_owned()) == []


def test_e11_a_pod_that_no_set_would_have_made_is_removed(stub, newcomer):
    put_pod(stub, name="by-hand")
    remove(newcomer, UID)
    assert left(stub) == []


def test_e11_a_pod_alone_is_found_without_a_list_while_watching(stub):
    put_pod(stub)
    watching = Follower(stub.driver())
    lists = stub.lists()
    assert [o.uid for o in watching.driver.list_owned()] == [UID]
    assert stub.lists() == lists
    watching.close()


def test_e11_a_pod_of_another_portal_or_of_nobody_is_none_of_ours(stub, newcomer):
    put_pod(stub, name="theirs-0", prefix="other-")
    plain = pod(main=runs())
    plain["metadata"] = {"name": "plain", "namespace": "ns", "labels": {names.UID: OTHER}}
    stub.put(PODS, plain)
    assert list(newcomer.list_owned()) == []
    for uid in (UID, OTHER):
        newcomer.remove(uid)
    assert len(left(stub)) == 2


SEEN_ONLY = {"namespace": "ns", "name": "ws-k7", "observed": "yes"}


@pytest.mark.parametrize("known", [None, SEEN_ONLY], ids=["nowhere", "seen"])
@pytest.mark.parametrize("deletions", range(6))
def test_e11_a_removal_that_a_crash_cuts_anywhere_leaves_nothing(stub, newcomer, deletions, known):
    """Also where the watch's own table told where it was, and told no more afterwards."""
    beside = Sidecar("port-7860", "r/s:1", ("p",), 8889, secret_env=lambda: {"T": "t"})
    full = spec(uid=UID, sidecars=(beside,), secret_files=lambda: {"f": "x"})
    driver = stub.driver()
    driver.ensure(full)
    driver.close()
    put_pod(stub)
    _die_after(stub, newcomer, deletions, known)
    assert [o.uid for o in newcomer.list_owned()] == [UID], left(stub)
    remove(newcomer, UID)
    assert left(stub) == []


def _die_after(stub, newcomer, deletions, known):
    """Another worker begins the removal; from then on nothing that it asks is carried out."""
    done = []

    def fault(handler, method, _path, _query):
        done.extend([method] if method == "DELETE" else [])
        if len(done) > deletions:
            handler.close_connection = True
            raise OSError
        return False

    dying = KubernetesDriver(
        newcomer.client.access, newcomer.options, "stub", lookup=lambda _uid: known, check=ALLOW
    )
    dying.client.patience = QUICK
    stub.fault = fault
    with pytest.raises(Unreachable):
        remove(dying, UID)
    dying.close()
    stub.fault = lambda *_: False


def test_e11_a_pod_whose_name_is_anothers_by_now_takes_nothing_of_it_along(stub, newcomer):
    driver = stub.driver()
    driver.ensure(spec(uid=OTHER))
    driver.close()
    put_pod(stub)
    remove(newcomer, UID)
    assert set(stub.objects) == {(SETS, "ns/ws-k7"), (SECRETS, "ns/ws-k7")}


# --- what somebody gave another label (E10) -------------------------------------------------------


def test_e10_a_set_that_was_given_another_uid_is_told_to_be_gone():
    world = World()
    world.put(SET_KIND, statefulset())
    world.take()
    world.put(SET_KIND, statefulset(uid=OTHER, resourceVersion="11"))
    assert {o.uid: o.seen for o in world.take()} == {UID: Seen.MISSING, OTHER: Seen.CREATED}


def test_e10_a_set_that_was_given_another_uid_is_ended_started_and_removed_all_the_same(
    stub, driver
):
    """Else its pod would run on, whatever its row is told to do."""
    for act in (lambda: driver.stop("u1", grace_s=1), lambda: driver.remove("u1")):
        driver.ensure(spec())
        relabel(stub, OTHER)
        with contextlib.suppress(NotYet):
            act()
        made = stub.objects.get((SETS, "ns/ws-k7"))
        assert made is None or made["spec"]["replicas"] == 0
    driver.ensure(spec())
    relabel(stub, OTHER)
    stub.objects[(SETS, "ns/ws-k7")]["spec"]["replicas"] = 0
    driver.ensure(spec(launch=2))
    assert stub.objects[(SETS, "ns/ws-k7")]["metadata"]["labels"][names.UID] == "u1"


def relabel(stub, uid):
    made = stub.objects[(SETS, "ns/ws-k7")]
    labels = {**made["metadata"]["labels"], names.UID: uid}
    stub.put(SETS, {**made, "metadata": {**made["metadata"], "labels": labels}})
