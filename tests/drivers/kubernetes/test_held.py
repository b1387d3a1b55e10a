"""C14: a pod that was told to go and stays is told with what keeps it, and is not written at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.capabilities.workloads import Held
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.protocol import NotYet
from tests.drivers.kubernetes.pieces import runs
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.test_apply import PODS, seen_pod, spec, writes

OVER = {"state": {"terminated": {"exitCode": 0}}}


def going(due_in_s: float, **meta: Any) -> dict[str, Any]:
    """When its node should have ended it by."""
    due = datetime.now(UTC) + timedelta(seconds=due_in_s)
    stamp = due.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"deletionTimestamp": stamp, "deletionGracePeriodSeconds": 1, **meta}


def ending(stub: Stub, driver: KubernetesDriver, verb: str, main: Any, meta: Any) -> NotYet:
    driver.ensure(spec())
    seen_pod(stub, main=main)
    found = stub.objects[(PODS, "ns/ws-k7-0")]
    found["metadata"] |= meta
    verbs = {
        "stop": lambda: driver.stop("u1", grace_s=10),
        "remove": lambda: driver.remove("u1"),
        "ensure": lambda: driver.ensure(spec(launch=2)),
    }
    with pytest.raises(NotYet) as raised:
        verbs[verb]()
    return raised.value


@pytest.mark.parametrize("verb", ["stop", "remove", "ensure"])
def test_c14_a_pod_that_has_its_time_is_waited_for(stub, driver, verb):
    found = ending(stub, driver, verb, runs(), going(30))
    assert not isinstance(found, Held)
    assert found.retry_in < 1


@pytest.mark.parametrize("verb", ["stop", "remove", "ensure"])
def test_c14_a_node_that_does_not_tell_of_the_end_is_named(stub, driver, verb):
    found = ending(stub, driver, verb, runs(), going(-60))
    assert isinstance(found, Held)
    assert "The node node1 has not said" in str(found)


@pytest.mark.parametrize("verb", ["stop", "remove", "ensure"])
def test_c14_what_keeps_a_pod_that_is_over_is_named(stub, driver, verb):
    meta = going(-60, finalizers=["example.com/hold"])
    found = ending(stub, driver, verb, OVER, meta)
    assert isinstance(found, Held)
    assert "example.com/hold" in str(found)


def test_c14_a_new_launch_that_waits_for_a_held_pod_writes_nothing_again(stub, driver):
    ending(stub, driver, "ensure", runs(), going(-60))
    stub.seen.clear()
    for _ in range(3):
        with pytest.raises(Held):
            driver.ensure(spec(launch=2))
    assert writes(stub) == []
