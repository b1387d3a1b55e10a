"""A17: exporters are found by data, asked within bounds, and believed about their own node only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from metrics.sampling import together
from runtime.drivers.kubernetes import metrics
from runtime.drivers.kubernetes.access import PodAddresses
from runtime.drivers.kubernetes.metrics import Exporters
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Unreachable
from runtime.use_sources import DeviceUse, Holder, UseSource

HERE = Holder("u1", ("berth-a", "ws-1-0"), "n1", 1)
Answer = Callable[[BaseHTTPRequestHandler], None]


class Cluster:
    """Stands for the API server's client: pods as they are listed."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.away = False

    def list(self, _v: str, _p: str, namespace: str, selector: str, fields: str) -> list[Any]:
        assert fields == "status.phase=Running"
        self.asked.append((namespace, selector))
        if self.away:
            raise Unreachable("away")
        return self.rows

    def exporter(
        self, node: str = "n1", namespace: str = "monitoring", ip: str = "127.0.0.1"
    ) -> None:
        meta = {"name": f"exporter-{node}", "namespace": namespace}
        self.rows.append({"metadata": meta, "spec": {"nodeName": node}, "status": {"podIP": ip}})


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy answers late; what is about time sets its own."""
    monkeypatch.setattr(metrics, "_WITHIN_S", 60.0)
    monkeypatch.setattr(metrics, "_PASS_S", 120.0)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], UseSource]]:
    """Answer every question so; return the source that leads there."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> UseSource:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *_args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return UseSource("app=exporter", str(server.server_address[1]), "busy", "used")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def text(busy: float = 40, namespace: str = "berth-a", pod: str = "ws-1-0") -> bytes:
    registry = CollectorRegistry()
    names = ["device", "namespace", "pod"]
    Gauge("busy", "how busy", names, registry=registry).labels("0", namespace, pod).set(busy)
    Gauge("used", "memory", names, registry=registry).labels("0", namespace, pod).set(512)
    return generate_latest(registry)


def says(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(asked: BaseHTTPRequestHandler) -> None:
        asked.send_response(status)
        for name, value in headers.items():
            asked.send_header(name.replace("_", "-"), value)
        asked.end_headers()
        asked.wfile.write(body)

    return answer


def of(cluster: Any, ranges: tuple[str, ...] = ("127.0.0.0/8",)) -> Exporters:
    return Exporters(cluster, KubernetesOptions(), PodAddresses(ranges))


def use(
    asked: Exporters, holders: list[Holder], sources: list[UseSource]
) -> dict[str, dict[str, float]]:
    """What is known of all devices of each together."""
    devices = asked.use(holders, sources)
    found = {h.uid: together([d for d in devices if d.uid == h.uid], h.devices) for h in holders}
    return {uid: values for uid, values in found.items() if values}


def test_what_the_exporter_of_its_node_says_of_a_pod_is_the_workloads(
    cluster: Cluster, serve: Any
) -> None:
    source = serve(says(text()))
    cluster.exporter()
    one = of(cluster)
    expected = {"u1": {"gpu_utilisation": 40.0, "gpu_memory_mib": 512.0}}
    assert use(one, [HERE], [source, source]) == expected
    assert use(one, [HERE], [source]) == expected
    assert one.use([HERE], [source]) == [DeviceUse("n1/0", "u1", 40.0, 512.0)]
    assert cluster.asked == [("", "app=exporter")], "asked once, remembered then"


def test_an_exporter_is_believed_about_its_own_node_only(cluster: Cluster, serve: Any) -> None:
    source = serve(says(text()))
    cluster.exporter(node="n2")
    elsewhere = Holder("u2", ("berth-b", "ws-2-0"), "n2", 1)
    assert use(of(cluster), [HERE, elsewhere], [source]) == {}


def test_a_device_that_two_pods_have_is_told_as_shared(cluster: Cluster, serve: Any) -> None:
    """Time slices: what the exporter tells is of the device, whoever has it."""
    source = serve(says(text() + text(namespace="other", pod="theirs")))
    cluster.exporter()
    (device,) = of(cluster).use([HERE], [source])
    assert (device.shared, device.utilisation) == (True, 40.0)


def test_devices_that_nobody_of_ours_holds_are_told_too(cluster: Cluster, serve: Any) -> None:
    registry = CollectorRegistry()
    busy = Gauge("busy", "how busy", ["device", "namespace", "pod"], registry=registry)
    busy.labels("0", "", "").set(0)
    busy.labels("1", "other", "theirs").set(70)
    busy.labels("2", "", "half-said").set(70)
    source = serve(says(generate_latest(registry)))
    cluster.exporter(node="n7")
    assert of(cluster).use([], [source]) == [
        DeviceUse("n7/0", "", 0.0, None),
        DeviceUse("n7/1", "", 70.0, None, foreign=True),
    ]


def lines(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


MINE = 'device="0",namespace="berth-a",pod="ws-1-0"'


@pytest.mark.parametrize(
    "body",
    [
        lines(f"busy{{{MINE}}} -3"),
        lines(f"busy{{{MINE}}} 1000000000"),
        lines(f"busy{{{MINE}}} NaN"),
        lines(f"busy{{{MINE}}} +Inf"),
        lines(f"busy{{{MINE}}} 40", f"busy{{{MINE}}} -1"),
        lines(f"busy{{{MINE}}} 40 {int((time.time() - 3600) * 1000)}"),
        lines(f"busy{{{MINE}}} 40 {int((time.time() + 86_400) * 1000)}"),
        lines(f"busy{{{MINE}}} 4O"),
        lines('busy{device="0",namespace="berth-b",pod="ws-9-0"} 40'),
        b"",
        b"\xff\xfe<html>",
    ],
    ids=[
        *("negative", "far too much", "not a number", "infinite", "twice, once a lie"),
        *("an hour old", "of tomorrow", "half a number", "another pod's", "empty", "no metrics"),
    ],
)
def test_e19_an_exporter_that_lies_makes_a_device_unknown_never_0_and_never_anothers(
    cluster: Cluster, serve: Any, body: bytes
) -> None:
    source = serve(says(body))
    cluster.exporter()
    found = of(cluster).use([HERE], [source])
    assert [one.utilisation for one in found if one.uid == "u1"] in ([], [None])
    assert use(of(cluster), [HERE], [source]) == {}


def test_e19_series_told_twice_alike_are_one_device(cluster: Cluster, serve: Any) -> None:
    source = serve(says(lines(f"busy{{{MINE}}} 40", f"busy{{{MINE}}} 45")))
    cluster.exporter()
    assert of(cluster).use([HERE], [source]) == [DeviceUse("n1/0", "u1", 45.0, None)]


def test_a_pod_in_a_project_is_no_exporter(cluster: Cluster, serve: Any) -> None:
    source = serve(says(text()))
    cluster.exporter(namespace="berth-evil")
    assert use(of(cluster), [HERE], [source]) == {}


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "0.0.0.0", "x", "10.0.0.1/8"])
def test_c2_an_address_that_no_pod_has_is_not_asked(
    cluster: Cluster, serve: Any, address: str
) -> None:
    source = serve(says(text()))
    cluster.exporter(ip=address)
    assert use(of(cluster, ranges=()), [HERE], [source]) == {}
    assert use(of(cluster, ranges=("10.9.0.0/16",)), [HERE], [source]) == {}


def test_a_figure_is_unknown_when_the_workload_holds_more_than_was_told(
    cluster: Cluster, serve: Any
) -> None:
    source = serve(says(text()))
    cluster.exporter()
    assert use(of(cluster), [replace(HERE, devices=2)], [source]) == {}


def endless(asked: BaseHTTPRequestHandler) -> None:
    asked.send_response(200)
    asked.end_headers()
    with suppress(OSError):
        while True:
            asked.wfile.write(b"# nothing\n" * 6000)


def slow(asked: BaseHTTPRequestHandler) -> None:
    asked.send_response(200)
    asked.end_headers()
    with suppress(OSError):
        for byte in text() * 100:
            asked.wfile.write(bytes([byte]))
            asked.wfile.flush()
            time.sleep(0.05)


@pytest.mark.parametrize(
    "answer",
    [
        endless,
        slow,
        says(text(), 500),
        says(b"", 302, Location="http://169.254.169.254/"),
        says(text(), Content_Encoding="gzip"),
        says(b"\xff\xfe" * 1000),
        says(text(float("nan")).replace(b"512.0", b"-3")),
        says(text(namespace="berth-b")),
    ],
    ids=["endless", "slow", "error", "redirect", "packed", "bytes", "nan", "foreign"],
)
def test_e19_an_answer_of_the_wrong_kind_is_unknown_and_never_0(
    cluster: Cluster, serve: Any, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(metrics, "_WITHIN_S", 0.5)
    source = serve(answer)
    cluster.exporter()

    def known_within() -> float:
        begun = time.monotonic()
        assert use(of(cluster), [HERE], [source]) == {}
        return time.monotonic() - begun

    assert any(known_within() < 5 for _ in range(3))  # the machine may be busy


def test_a_pass_ends_in_time_and_the_next_one_asks_others(
    cluster: Cluster, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "_PASS_S", 0.0)
    source = serve(says(text()))
    cluster.exporter()
    one = of(cluster)
    assert use(one, [HERE], [source]) == {}
    monkeypatch.setattr(metrics, "_PASS_S", 120.0)
    assert use(one, [HERE], [source])
    assert len(cluster.asked) == 1, "having no turn is no reason to look for it again"


def test_one_that_does_not_answer_is_looked_for_again(cluster: Cluster, serve: Any) -> None:
    source = serve(says(b"", 500))
    cluster.exporter()
    one = of(cluster)
    one.use([HERE], [source])
    one.use([HERE], [source])
    assert len(cluster.asked) == 2


def test_a_cluster_that_does_not_answer_costs_nothing_but_the_figures(cluster: Cluster) -> None:
    cluster.away = True
    assert use(of(cluster), [HERE], [UseSource("app=x", "1", "busy")]) == {}


def test_work_without_devices_or_place_asks_nobody(cluster: Cluster, serve: Any) -> None:
    source = serve(says(text()))
    cluster.exporter()
    nothing = [Holder("u1", HERE.place, "", 1), Holder("u2", ("berth-a", "x"), "n1", 0)]
    assert use(of(cluster), nothing, [source]) == {}
