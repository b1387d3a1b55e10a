"""C2: an attached cluster is never a loopback address, metadata or nothing at all."""

import http.server
import threading

import pytest

from runtime.drivers.kubernetes.access import KubeAccess, check_for
from runtime.drivers.kubernetes.client import KubeClient, Patience
from runtime.protocol import Unreachable
from tests.drivers.kubernetes.test_kubeconfig import CA


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.1.2.3",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "169.254.169.254",
        "169.254.1.1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "224.0.0.1",
        "ff02::1",
    ],
)
def test_c2_addresses_that_are_never_a_cluster(address):
    with pytest.raises(Unreachable):
        check_for(loopback=False)(address)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "192.168.1.10", "172.16.9.9", "8.8.8.8", "fd12::1"]
)
def test_clusters_live_in_private_ranges_too(address):
    check_for(loopback=False)(address)


def test_this_machine_only_where_the_operator_says_so():
    check_for(loopback=True)("127.0.0.1")
    with pytest.raises(Unreachable):
        check_for(loopback=True)("169.254.169.254")


class _Counter(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args) -> None: ...


def test_c2_the_address_that_is_connected_to_is_checked_whatever_the_name_says():
    server = http.server.HTTPServer(("127.0.0.1", 0), _Counter)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    access = KubeAccess(f"https://localhost:{server.server_port}", CA, token="t")
    client = KubeClient(
        access, check=check_for(loopback=False), patience=Patience(attempts=1, total=2)
    )
    with pytest.raises(Unreachable, match="not allowed"):
        client.get("v1", "pods", "x", "y")
    server.shutdown()
    assert _Counter.asked == 0
