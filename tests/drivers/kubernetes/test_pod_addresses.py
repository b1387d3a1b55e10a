"""C2: where a cluster may say that its pods are."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from runtime.drivers.kubernetes.access import PodAddresses, is_own
from runtime.protocol import Seen, Unreachable
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.test_watch import Follower, put_pod, put_set


def elsewhere(_address: str) -> bool:
    return False


@pytest.mark.parametrize("address", ["10.244.0.7", "192.168.1.9", "100.64.3.2", "fd00:10:244::7"])
def test_a_pod_may_be_anywhere_but_here(address: str) -> None:
    assert PodAddresses(own=elsewhere).refusal(address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "168.63.129.16",
        "224.0.0.1",
        "not-an-address",
        "",
    ],
)
def test_c2_no_pod_is_at_such_an_address(address: str) -> None:
    pods = PodAddresses(own=elsewhere)
    assert pods.refusal(address)
    with pytest.raises(Unreachable):
        pods.check(address)


def test_c2_the_portals_own_address_is_no_pods() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        mine = probe.getsockname()[0]
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.1")
    if mine != "127.0.0.1":
        assert is_own(mine)
        assert "portal's own" in PodAddresses().refusal(mine)


def test_c2_named_ranges_are_the_only_ones() -> None:
    pods = PodAddresses(["10.244.0.0/16", "fd00:10::/32"])
    assert pods.refusal("10.244.3.4") == ""
    assert pods.refusal("fd00:10::9") == ""
    assert "outside" in pods.refusal("10.245.0.1")
    assert pods.refusal("169.254.169.254")


def test_c2_nobody_is_led_where_a_lying_cluster_points(tmp_path: Path) -> None:
    stub = Stub(tmp_path)
    follower = Follower(stub.driver(pod_cidrs=("10.244.0.0/16",)))
    try:
        put_set(stub, "a")
        put_pod(stub, "a")  # says 10.0.0.9
        found = follower.until("a", Seen.STARTING)
        assert found.address == ""
        assert "10.0.0.9" in found.message
        (looked,) = follower.driver.observe(["a"]).values()
        assert (looked.seen, looked.address) == (Seen.STARTING, "")
    finally:
        follower.close()
        stub.stop()
