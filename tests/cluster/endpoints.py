"""Endpoints of a portal that has KServe: made, looked at and called, for the tests of them."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from devcluster import kserve, serving_images
from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from tests.cluster.conftest import managing_queues
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal, ok, pinned

WITHIN_S = 150.0
KSERVE = "inferenceservices.serving.kserve.io"
VERSION = """
from serving.models import Model, ModelVersion
from volumes.models import Volume
volume = Volume.objects.get(uid={uid!r})
model, _made = Model.objects.get_or_create(project=volume.project, name={name!r})
for name in ("v1", "v2"):
    ModelVersion.objects.create(model=model, name=name, framework={framework!r}, source="volume",
        origin="volume:models/{name}", volume=volume, folder={name!r})
answer = True
"""
_KSERVE = """
from clusters.models import Cluster
answer = "kserve" in Cluster.objects.get(key={key!r}).operators
"""


@contextmanager
def serving_portal(devcluster: dict[str, Any], kube: Kube, word: str) -> Iterator[ClusteredPortal]:
    """A portal that keeps the queues and has an image of the model server."""
    if not kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", KSERVE):
        lacking("KServe (python -m devcluster kserve)", is_built=kserve.has())
    images = {"serving": pinned(serving_images.publish("serving"))}
    with managing_queues(devcluster, kube, word, serving_images=images) as running:
        until(lambda: running.shell(_KSERVE.format(key=KEY)))  # and nothing more is waited for
        yield running


def until(found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"not within {within_s:.0f} s")


class Store:
    """A volume of the project there; the node is this machine."""

    def __init__(self, portal: ClusteredPortal, api: httpx.Client, kube: Kube) -> None:
        self.portal = portal
        said = {"name": "models", "size_mib": 1024, "cluster": KEY}
        self.uid = ok(api.post("projects/demo/volumes", json=said)).json()["id"]
        volume = until(lambda: kube.get("v1", "PersistentVolume", names.volume(self.uid)))
        self.folder = Path(volume["spec"]["hostPath"]["path"])
        until(self.folder.is_dir)

    def registered(self, name: str, framework: str, made: Path) -> None:
        """Copy a model there; two versions have the same files."""
        shutil.copytree(made, self.folder / name)
        for path in (self.folder / name, *(self.folder / name).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.portal.shell(VERSION.format(uid=self.uid, name=name, framework=framework))


class Served:
    """An endpoint of the demonstration's project, looked at through the API."""

    def __init__(self, portal: ClusteredPortal, api: httpx.Client, **said: Any) -> None:
        self.portal, self.api = portal, api
        size = {"cpu_milli": 2000, "memory_mib": 512}
        row = ok(api.post("projects/demo/endpoints", json={**size, **said})).json()
        assert row["spec"]["cluster"] == KEY  # where its files are
        self.id, self.at = row["id"], f"projects/demo/endpoints/{row['id']}"
        self.name, self.uid = row["name"], row["uid"]

    def look(self) -> dict[str, Any]:
        return dict(self.api.get(self.at).json())

    def ready(self, replicas: int) -> list[str]:
        def found() -> list[str] | None:
            told = self.look()
            assert told["status"]["state"] != "failed", told["status"]
            addresses = [one["address"] for one in told["replica_states"] if one["address"]]
            whole = len(addresses) == len(told["replica_states"]) == replicas
            return addresses if whole and told["status"]["state"] == "ready" else None

        return list(until(found))

    def failed(self, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Wait until it has failed; return what is told of that."""

        def found() -> dict[str, Any] | None:
            told = dict(self.look()["status"])
            assert told["state"] != "ready", told
            return told if told["state"] == "failed" else None

        return dict(until(found, within_s))

    def caller(self) -> httpx.Client:
        """Whoever calls it by a key of its own, through the gateway, which knows of the key."""
        made = ok(self.api.post(f"{self.at}/keys", json={"name": secrets.token_hex(4)})).json()
        http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.portal.port + 7}/e/demo/{self.name}",
            headers={"Authorization": f"Bearer {made['key']}"},
            timeout=60,
        )
        until(lambda: http.get("/").status_code not in {401, 404, 503}, 20)
        return http

    def shell(self, code: str, **said: Any) -> Any:
        return self.portal.shell(code.format(id=self.id, **said))

    def delete(self) -> None:
        ok(self.api.delete(self.at))
        until(lambda: self.api.get(self.at).status_code == 404)


def predicts(address: str, sample: dict[str, Any], model: str = "digits") -> None:
    answer = httpx.post(
        f"http://{address}/v1/models/{model}:predict",
        json={"instances": sample["instances"]},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    for said, wanted in zip(answer.json()["predictions"], sample["predictions"], strict=True):
        assert said == pytest.approx(wanted, abs=1e-5)


def space_of(portal: ClusteredPortal, kube: Kube) -> str:
    """The project's namespace, by what KServe was asked for there."""
    served = kube.list("serving.kserve.io/v1beta1", "InferenceService")
    spaces = {one["metadata"]["namespace"] for one in served}
    (space,) = (name for name in spaces if name.startswith(portal.prefix))
    return str(space)


class Load:
    """People who call through the gateway, one request after the other, each with its answer."""

    def __init__(self, url: str, key: str, seconds: float) -> None:
        self.url, self.key, self.seconds = url, key, seconds
        self.answered, self.wrong = 0, list[str]()
        self.people = 0
        self._threads: list[Thread] = []

    def call(self, people: int) -> None:
        """Have so many call from now on."""
        self.people = people
        for number in range(len(self._threads), people):
            self._threads.append(Thread(target=self._call, args=(number,), daemon=True))
            self._threads[-1].start()

    def _call(self, number: int) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self.key}"}, timeout=60) as http:
            while number < self.people:
                said = self.seconds + number / 1000
                try:
                    answer = http.post(self.url, json={"instances": [[said]]})
                except httpx.HTTPError as error:
                    self.wrong.append(repr(error))
                    continue
                if answer.status_code != 200 or answer.json()["predictions"] != [said]:
                    self.wrong.append(answer.text[:200])
                self.answered += 1

    def end(self) -> None:
        self.people = 0
        for thread in self._threads:
            thread.join(60)
