"""Every address of the API server is closed to pods: also the one that no object names."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from runtime.drivers.kubernetes import api_server
from runtime.drivers.kubernetes.access import KubeAccess
from runtime.drivers.kubernetes.api_server import ApiServer, fronts_of
from runtime.drivers.kubernetes.builders import tenant_policies
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied

SERVER, PEOPLES = "https://k8s.example.org:443", "https://api.example.org:6443"
OPTIONS = KubernetesOptions(kube_api_url=PEOPLES)
SLICE = {
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.5"]}],
    "ports": [{"port": 6443}],
}
Names = dict[str, list[str]]


class Client:
    """Says what the cluster says of its API server; None: it is denied."""

    access = KubeAccess(SERVER, "")

    def __init__(self, said: dict[str, Any] | None) -> None:
        self.said = said
        self.asked = 0

    def get(self, *_where: str) -> dict[str, Any]:
        self.asked += 1
        if self.said is None:
            raise Denied("endpointslices is forbidden")
        return self.said


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    """What names lead to now; nothing else has an address."""
    found: Names = {
        "k8s.example.org": ["198.51.100.7", "198.51.100.8", "2001:db8::7"],
        "api.example.org": ["198.51.100.9"],
    }

    def resolve(host: str, port: int, **_more: Any) -> list[Any]:
        if host not in found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(0, 0, 0, "", (address, port)) for address in found[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return found


@pytest.fixture
def made() -> Callable[[dict[str, Any] | None], ApiServer]:
    return lambda said: ApiServer(Client(said), OPTIONS)  # type: ignore[arg-type]


def closed(network: tenant_policies.Network) -> list[str]:
    (one,) = (
        o
        for o in tenant_policies.build("ns", {}, OPTIONS, network)
        if o["metadata"]["name"] == "allow-internet"
    )
    excepted: list[str] = one["spec"]["egress"][0]["to"][0]["ipBlock"]["except"]
    return excepted


def test_c10_the_address_by_which_it_was_attached_is_not_the_internet(
    names: Names, made: Callable[..., ApiServer]
) -> None:
    network = made(SLICE).network()
    assert (network.api, network.api_ports) == (("10.0.0.5",), (6443,))
    four = closed(network)
    assert {"198.51.100.7/32", "198.51.100.8/31"} < set(four)  # the last two are neighbours
    assert not any(":" in c for c in four)
    six = closed(replace(network, family=6))
    assert "2001:db8::7/128" in six
    assert not any("." in c for c in six)


def test_c10_it_is_closed_where_the_cluster_does_not_say_where_it_listens(
    names: Names, made: Callable[..., ApiServer]
) -> None:
    assert {"198.51.100.7/32", "198.51.100.8/31"} < set(closed(made(None).network()))


def test_c10_a_name_without_an_answer_keeps_the_last_one(
    names: Names, made: Callable[..., ApiServer]
) -> None:
    server = made(None)  # so that it is asked each time
    before = server.network()
    del names["k8s.example.org"]
    assert server.network() == before
    names["k8s.example.org"] = ["198.51.100.70"]
    assert ("198.51.100.70", 443) in server.network().fronts
    assert ("198.51.100.7", 443) not in server.network().fronts


def test_it_is_asked_once_in_a_while(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(SLICE)
    server = ApiServer(client, OPTIONS)  # type: ignore[arg-type]
    server.network()
    server.network()
    assert client.asked == 1
    monkeypatch.setattr(api_server, "_KEPT_S", 0.0)
    server.network()
    assert client.asked == 2


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://198.51.100.7", (("198.51.100.7", 443),)),
        ("https://[2001:db8::7]:6443", (("2001:db8::7", 6443),)),
        ("https://127.0.0.1:6443", ()),  # in a pod that is the pod
        ("https://[::ffff:198.51.100.7]:443", (("198.51.100.7", 443),)),
        ("https://nowhere.invalid", None),
        (f"https://{'x' * 70}.org", None),
    ],
)
def test_an_address_is_taken_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, url: str, found: Any
) -> None:
    real = socket.getaddrinfo

    def numeric(host: str, port: int, **more: Any) -> Any:
        return real(host, port, flags=socket.AI_NUMERICHOST, **more)  # no test asks a resolver

    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    assert fronts_of(url) == found


@pytest.mark.parametrize(
    ("opened", "is_open"),
    [
        ("198.51.100.7:443", False),
        ("198.51.100.7:22", True),  # meant as it stands: something else listens there
        ("198.51.100.7", False),
        ("198.51.100.99:443", True),
    ],
)
def test_c10_what_an_operator_opens_does_not_open_it(opened: str, is_open: bool) -> None:
    network = tenant_policies.Network(fronts=(("198.51.100.7", 443),))
    options = replace(OPTIONS, allowed_cidrs=(opened,))
    assert bool(tenant_policies.named(options, network)) == is_open


def test_c10_a_range_that_an_operator_opens_leaves_it_out() -> None:
    network = tenant_policies.Network(fronts=(("10.5.5.5", 443),))
    (rule,) = tenant_policies.named(replace(OPTIONS, allowed_cidrs=("10.5.0.0/16:443",)), network)
    assert rule["to"] == [{"ipBlock": {"cidr": "10.5.0.0/16", "except": ["10.5.5.5/32"]}}]
