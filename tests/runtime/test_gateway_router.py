"""Routes as HTTPRoutes: what is written, and what is refused. The API server here is a dictionary."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.protocol import Unreachable
from runtime.routers.base import RouteEntry
from runtime.routers.gateway import API, Gateway, GatewayRouter, objects

UID = "0b9f3c58-4d9d-4a0b-9a0e-0d7b7f1f2c11"
HOST = "/abc123.nb.example.org"
ENTRY = RouteEntry(HOST, "http://10.244.0.9:8888", UID)
GATEWAY = Gateway.parse("edge/public/workspaces", "berth-")


class Cluster:
    """Keeps objects by plural, namespace and name; counts writes and lists."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], Any] = {}
        self.writes = self.lists = 0

    def apply(self, obj: Any) -> Any:
        self.writes += 1
        kind = {"HTTPRoute": "httproutes", "Service": "services"}[obj["kind"]]
        meta = obj["metadata"]
        self.rows[kind, meta["namespace"], meta["name"]] = obj
        return obj

    def delete(self, _version: str, plural: str, name: str, namespace: str = "") -> bool:
        self.writes += 1
        return self.rows.pop((plural, namespace, name), None) is not None

    def list(self, version: str, plural: str, *, selector: str) -> list[Any]:
        assert (version, "berth.dev/instance=berth" in selector) == (API, True)
        self.lists += 1
        return [row for (kind, _, _), row in self.rows.items() if kind == plural]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def router(cluster: Any) -> GatewayRouter:
    return GatewayRouter(
        GATEWAY, lambda: cluster, lambda uid: {"namespace": "berth-demo"} if uid == UID else None
    )


def test_a_route_is_a_service_and_an_httproute_in_the_workspaces_namespace() -> None:
    service, route = objects(ENTRY, "berth-demo", GATEWAY)
    assert service["spec"] == {
        "selector": {"berth.dev/uid": UID},
        "publishNotReadyAddresses": True,
        "ports": [{"name": "http", "port": 80, "targetPort": 8888}],
    }
    assert route["metadata"]["namespace"] == service["metadata"]["namespace"] == "berth-demo"
    assert route["spec"]["hostnames"] == ["abc123.nb.example.org"]
    assert route["spec"]["parentRefs"] == [
        {"name": "public", "namespace": "edge", "sectionName": "workspaces"}
    ]
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": service["metadata"]["name"], "port": 80}]
    removed = rule["filters"][0]["requestHeaderModifier"]["remove"]
    assert "X-Forwarded-User" in removed
    assert len(removed) <= 16, "as many as the API takes"


def test_a_launch_costs_two_writes(cluster: Cluster) -> None:
    router(cluster).put(ENTRY)
    assert cluster.writes == 2


def test_a_route_of_another_berth_under_our_prefix_is_neither_seen_nor_dropped(
    cluster: Cluster,
) -> None:
    def of(installation: str) -> GatewayRouter:
        gateway = replace(GATEWAY, installation=installation)
        return GatewayRouter(gateway, lambda: cluster, lambda _uid: {"namespace": "berth-demo"})

    of("theirs").put(ENTRY)
    before = dict(cluster.rows)
    assert of("ours").list() == {}
    of("ours").drop(ENTRY.key)
    assert cluster.rows == before


def test_c7_one_host_never_has_two_routes(cluster: Cluster) -> None:
    other = "4c6f2a10-5a51-4f0e-8f4b-0b8f4a4a1d55"
    spaces = {UID: "berth-demo", other: "berth-other"}
    one = GatewayRouter(GATEWAY, lambda: cluster, lambda uid: {"namespace": spaces[uid]})  # type: ignore[arg-type, return-value]
    one.put(ENTRY)
    # the rows say who owns it; the first one's objects were left when the API server was away
    one.put(RouteEntry(HOST, "http://10.244.0.11:8888", other))
    assert {namespace for _, namespace, _ in cluster.rows} == {"berth-other"}


def test_what_is_put_is_listed_by_any_process_and_dropped_by_any(cluster: Cluster) -> None:
    router(cluster).put(ENTRY)
    other = router(cluster)
    assert dict(other.list()) == {HOST: ENTRY}
    router(cluster).drop(HOST)
    assert not cluster.rows
    router(cluster).drop(HOST)  # missing is success


def drop_half(
    one: GatewayRouter, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    """Drop the route by ``one``; the API server is away after so many deletions."""
    delete, done = cluster.delete, []

    def cut(*words: str) -> bool:
        if len(done) == deletions:
            raise Unreachable("gone")
        done.append(words)
        return delete(*words)

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "delete", cut)
        with pytest.raises(Unreachable):
            one.drop(HOST)


@pytest.mark.parametrize("deletions", range(3))
def test_e11_a_drop_that_a_crash_cuts_is_finished_by_whoever_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    with_proxy(cluster).put(ENTRY)
    drop_half(with_proxy(cluster), cluster, monkeypatch, deletions)
    another = with_proxy(cluster)
    for key in another.list():  # as what nobody wants is dropped
        another.drop(key)
    assert not cluster.rows


@pytest.mark.parametrize("deletions", range(3))
def test_a_route_is_whole_again_after_a_drop_that_failed_half_way(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    """A stop goes on without it, and somebody starts again before it is tried once more."""
    one, beside = with_proxy(cluster), with_proxy(cluster)
    one.put(ENTRY)
    assert HOST in beside.list()  # another process, which hears of no drop
    whole = dict(cluster.rows)
    drop_half(one, cluster, monkeypatch, deletions)
    for router_ in (one, beside):
        router_.put(ENTRY)
        assert cluster.rows == whole
        one.drop(HOST)


WITH_PROXY = Gateway.parse("edge/public/workspaces", "berth-", "portal/proxy:8001")


def with_proxy(cluster: Any) -> GatewayRouter:
    return GatewayRouter(WITH_PROXY, lambda: cluster, lambda _uid: {"namespace": "berth-demo"})


def test_websockets_go_through_the_proxy_and_cannot_go_past_it() -> None:
    _service, route, sockets = objects(ENTRY, "berth-demo", WITH_PROXY)
    (rule,) = sockets["spec"]["rules"]
    assert sockets["metadata"]["namespace"] == "portal"
    assert sockets["spec"]["hostnames"] == route["spec"]["hostnames"]
    assert rule["matches"][0]["headers"] == [
        {"type": "Exact", "name": "Upgrade", "value": "websocket"}
    ]
    assert rule["backendRefs"] == [{"name": "proxy", "port": 8001}]
    removed = route["spec"]["rules"][0]["filters"][0]["requestHeaderModifier"]["remove"]
    assert "Upgrade" in removed
    assert len(removed) <= 16, "as many as the API takes"


def test_a_launch_with_a_proxy_costs_three_writes(cluster: Cluster) -> None:
    one = with_proxy(cluster)
    one.put(ENTRY)
    assert cluster.writes == 3
    one.drop(HOST)
    assert not cluster.rows


@pytest.mark.parametrize("namespace", ["portal", "berth-demo"])
def test_half_a_route_is_put_again_or_dropped(cluster: Cluster, namespace: str) -> None:
    with_proxy(cluster).put(ENTRY)
    before = dict(cluster.rows)
    (half,) = [key for key in cluster.rows if key[:2] == ("httproutes", namespace)]
    del cluster.rows[half]
    other = with_proxy(cluster)
    assert other.list()[HOST].target == ""
    other.put(ENTRY)
    assert cluster.rows == before
    del cluster.rows[half]
    with_proxy(cluster).drop(HOST)
    assert not [key for key in cluster.rows if key[0] == "httproutes"]


def test_a_router_that_is_told_of_the_proxy_later_puts_what_is_there_again(
    cluster: Cluster,
) -> None:
    router(cluster).put(ENTRY)
    assert with_proxy(cluster).list()[HOST].target == ""


@pytest.mark.parametrize("text", ["proxy:8001", "a/b", "a/b:0", "a/b:99999", "a/b:8001/x", "A/b:1"])
def test_a_proxy_is_named_by_its_service(text: str) -> None:
    with pytest.raises(ValueError, match="BERTH_GATEWAY_PROXY must be"):
        Gateway.parse("edge/public", "berth-", text)


def test_a_quiet_router_lists_nothing_again(cluster: Cluster) -> None:
    one = router(cluster)
    for _ in range(100):
        one.list()
        one.epoch()
    assert cluster.lists == 1


@pytest.mark.parametrize("key", ["", "/", "/a/b"])
def test_only_hosts_are_routes(cluster: Cluster, key: str) -> None:
    with pytest.raises(ValueError, match="not a host"):
        router(cluster).put(RouteEntry(key, "http://10.0.0.1:1", UID))


def test_a_workspace_elsewhere_is_refused_with_a_sentence(cluster: Cluster) -> None:
    with pytest.raises(Unreachable, match="not on the cluster"):
        router(cluster).put(RouteEntry(HOST, ENTRY.target, "another"))


def test_a_process_without_a_credential_says_so_and_still_has_an_epoch() -> None:
    one = router(None)
    assert one.epoch() == "edge/public"
    with pytest.raises(Unreachable, match="no credential"):
        one.put(ENTRY)


@pytest.mark.parametrize("text", ["", "name", "a/b/c/d", "a//b"])
def test_a_gateway_is_named_by_its_namespace_and_name(text: str) -> None:
    with pytest.raises(ValueError, match="BERTH_GATEWAY must be"):
        Gateway.parse(text, "berth-")
