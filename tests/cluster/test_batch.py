"""Batch predictions in pods: by servers of their own, and by an endpoint through the gateway."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster import kserve, serving_images
from devcluster.kube import Kube
from tests.cluster.endpoints import KSERVE, Served, Store, until
from tests.serving.server import make_sample
from tests.support.certificates import certificate
from tests.support.cluster_state import lacking
from tests.support.clustered import ClusteredPortal, ok, pinned

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(500)]
_until = partial(until, within_s=240.0)
SIZE = {"cpu_milli": 500, "memory_mib": 512}
TIMES = 400


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    """Pods reach its gateway by an entrance with TLS, whose authority only the operator has."""
    if not kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", KSERVE):
        lacking("KServe (python -m devcluster kserve)", is_built=kserve.has())
    host = devcluster["host"]
    images = {"serving": pinned(serving_images.publish("serving"))}
    running = ClusteredPortal(
        devcluster, f"batch{secrets.token_hex(2)}-", options={"serving_images": images}
    )
    folder = running.var / "entrance"  # the portal, which is not root, reads it
    folder.mkdir(mode=0o755)
    pair = certificate(folder, [host])
    running.env["BERTH_OUTBOUND_CA_FILE"] = str(pair[0])
    with entrance(host, running.port + 7, pair) as port:
        running.env["BERTH_GATEWAY_URL"] = f"https://{host}:{port}"
        running.options["allowed_cidrs"] = [f"{host}/32:{port}"]
        try:
            yield running.start()
        finally:
            running.close()


@contextmanager
def entrance(host: str, behind: int, pair: tuple[Path, Path]) -> Iterator[int]:
    """What ends TLS before a gateway on loopback: bytes go through, both ways."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)

    class Through(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asks = context.wrap_socket(self.request, server_side=True)
            with socket.create_connection(("127.0.0.1", behind)) as other:
                ways = ((asks, other), (other, asks))
                back = threading.Thread(target=_pour, args=ways[1], daemon=True)
                back.start()
                _pour(*ways[0])
                back.join()

    with socketserver.ThreadingTCPServer((host, 0), Through) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def models(
    portal: ClusteredPortal,
    api: httpx.Client,
    kube: Kube,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, Any]]:
    """A model and instances in a volume of the project there: its folder, what is predicted."""
    made = tmp_path_factory.mktemp("sample") / "digits"
    told = make_sample("sklearn", made)
    store = Store(portal, api, kube)
    store.registered("digits", "sklearn", made)
    folder = store.folder
    lines = [json.dumps(row) for row in told["instances"]] * TIMES
    (folder / "in").mkdir()
    (folder / "in/a.jsonl").write_text("\n".join([*lines, "[1,"]))
    (folder / "in").chmod(0o755)
    (folder / "in/a.jsonl").chmod(0o644)
    return folder, told


def predicted(api: httpx.Client, **said: Any) -> dict[str, Any]:
    """Begin one, and return how it ended."""
    here = "projects/demo/batch-predictions"
    said = {**SIZE, "input": "volume:models/in", **said}
    made = ok(api.post(here, json=said)).json()

    def over() -> dict[str, Any] | None:
        told: dict[str, Any] = api.get(f"{here}/{made['id']}").json()
        is_over = told["state"] in {"failed", "cancelled"} or told["progress"] == 1
        return told if is_over and told["state"] != "running" else None

    told: dict[str, Any] = _until(over)
    log = api.get(f"projects/demo/jobs/{made['job']}/logs").text[-2000:]
    assert told["state"] == "succeeded", (log, api.get(f"projects/demo/jobs/{made['job']}").text)
    return told


def lines_of(folder: Path, pattern: str) -> list[dict[str, Any]]:
    paths = sorted(folder.glob(pattern))
    lines = [json.loads(text) for path in paths for text in path.read_text().splitlines()]
    return sorted(lines, key=lambda one: one["line"])


def test_two_pods_predict_their_shares_with_servers_of_their_own(
    api: httpx.Client, models: tuple[Path, dict[str, Any]]
) -> None:
    folder, sample = models
    told = predicted(api, model="digits/v1", output="volume:models/own", replicas=2, batch=8)
    (run,) = (folder / "own").glob(f"{told['name']}-*/1")
    found = lines_of(run, "predictions-*-of-02-*.jsonl")
    assert [one["prediction"] for one in found] == sample["predictions"] * TIMES
    (wrong,) = lines_of(run, "errors-*.jsonl")
    assert wrong["line"] == len(found) + 1


@pytest.mark.long("of processes: serving/test_real_batch_endpoint.py; pods: the test above")
def test_a_pod_asks_an_endpoint_through_the_gateway(
    portal: ClusteredPortal, api: httpx.Client, models: tuple[Path, dict[str, Any]]
) -> None:
    folder, sample = models
    served = Served(portal, api, name="live", model="digits/v1")
    served.ready(1)
    told = predicted(api, endpoint="live", output="volume:models/live", batch=8)
    assert (told["done"], told["failed"]) == (len(sample["instances"]) * TIMES + 1, 1)
    (run,) = (folder / "live").glob(f"{told['name']}-*/1")
    found = lines_of(run, "predictions-*.jsonl")
    assert [one["prediction"] for one in found] == sample["predictions"] * TIMES
    assert {one["version"] for one in found} == {"v1"}
    served.delete()


@pytest.mark.long("the same of processes: serving/test_real_batch.py; here pods are lost, too")
def test_three_replicas_killed_at_random_and_a_pod_lost_predict_each_instance_once(
    api: httpx.Client, models: tuple[Path, dict[str, Any]], kube: Kube
) -> None:
    folder, sample = models
    place = f"killed-{secrets.token_hex(3)}"
    (folder / place).mkdir(mode=0o755)
    count = 12000 * len(sample["instances"])
    lines = [json.dumps(row) for row in sample["instances"]] * 12000
    (folder / place / "a.jsonl").write_text("\n".join(lines))
    (folder / place / "a.jsonl").chmod(0o644)
    here = "projects/demo/batch-predictions"
    said = {**SIZE, "model": "digits/v1", "input": f"volume:models/{place}", "replicas": 3}
    made = ok(api.post(here, json={**said, "output": "volume:models/lost", "batch": 1})).json()
    at, chance = f"{here}/{made['id']}", random.Random(7)

    def told() -> dict[str, Any]:
        found: dict[str, Any] = api.get(at).json()
        job = f"projects/demo/jobs/{made['job']}"
        if found["state"] in {"failed", "cancelled"}:  # nothing more comes
            raise AssertionError((found, api.get(job).text, api.get(f"{job}/logs").text[-4000:]))
        return found

    for share in (0.1, 0.25, 0.4):
        _until(lambda least=share: told()["progress"] >= least)  # type: ignore[misc]
        if share == 0.25:  # as where its node is given up
            pods = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={_uid(api, made['job'])}")
            meta = chance.choice([one for one in pods if _runs(one)])["metadata"]
            kube.delete("v1", "Pod", meta["name"], meta["namespace"], gracePeriodSeconds="0")
            continue
        os.kill(chance.choice(_until(lambda: _programs(f"models/{place}"))), signal.SIGKILL)
    _until(lambda: told()["state"] == "succeeded" and told()["progress"] == 1)
    ended = told()
    assert (ended["done"], ended["failed"]) == (count, 0)
    (run,) = (folder / "lost").glob(f"{made['name']}-*/1")
    found = lines_of(run, "predictions-*-of-03-*.jsonl")
    assert [one["line"] for one in found] == list(range(1, count + 1))
    assert [one["prediction"] for one in found] == sample["predictions"] * 12000


def _uid(api: httpx.Client, job: str) -> str:
    return str(api.get(f"projects/demo/jobs/{job}").json()["uid"])


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _programs(place: str) -> list[int]:
    """Return the processes on this machine that predict what lies there."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"serving.programs.batch_predict" in words and place.encode() in words:
                found.append(int(path.name))
    return sorted(found)
