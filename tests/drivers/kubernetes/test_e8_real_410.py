"""E8: a real API server whose storage has forgotten what was missed says 410; nothing stays wrong."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.drivers.kubernetes import access, names, watch
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Seen
from tests.drivers.kubernetes.test_cut_wires import Wire
from tests.drivers.kubernetes.test_watch import Follower
from tests.support.api_servers import ApiServers, api_servers

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.long("a storage that has to forget; the same over a stub: test_watch.py"),
]

COMPACTED_S = 5  # what is older than twice this is forgotten
SILENT_S = 4 * COMPACTED_S


@pytest.fixture(scope="module")
def servers() -> Iterator[ApiServers]:
    """The first one has no memory of its own and lets the storage forget."""
    folder = Path(tempfile.mkdtemp(prefix="berth-api-"))
    try:
        with api_servers(folder) as made:
            made.kill()
            made.again(watch_cache="false", etcd_compaction_interval=f"{COMPACTED_S}s")
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def wire(servers: ApiServers) -> Iterator[Wire]:
    parts = urllib.parse.urlsplit(servers.access.server)
    made = Wire(str(parts.hostname), int(parts.port or 0))
    yield made
    made.close()


@pytest.fixture
def following(servers: ApiServers, wire: Wire, monkeypatch: Any) -> Iterator[Follower]:
    monkeypatch.setattr(watch, "TURN_S", SILENT_S)
    monkeypatch.setattr(watch, "SLACK_S", 1.0)
    driver = KubernetesDriver(
        replace(servers.access, server=wire.address),
        KubernetesOptions(),
        "local",
        check=access.check_for(loopback=True),
    )
    made = Follower(driver)
    yield made
    made.close()


def put(servers: ApiServers, uid: str, replicas: int = 1) -> None:
    labels = names.labels("berth-", "", uid=uid, kind="workspace")
    template = {"metadata": {"labels": labels}, "spec": {"containers": [main()]}}
    meta = {"name": f"ws-{uid}", "namespace": "default", "labels": labels}
    spec = {
        "replicas": replicas,
        "serviceName": "",
        "selector": {"matchLabels": {names.UID: uid}},
        "template": template,
    }
    kind = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    servers.kube.apply(
        {**kind, "metadata": {**meta, "annotations": {names.LAUNCH: "1"}}} | {"spec": spec}
    )


def main() -> dict[str, Any]:
    return {"name": names.MAIN, "image": "r/i:1"}


def test_e8_a_watch_that_missed_more_than_the_storage_remembers_tells_the_truth_again(
    servers: ApiServers, wire: Wire, following: Follower
) -> None:
    """What was missed is surely forgotten only where the storage forgot in time: three tries."""
    assert any(lists_again(servers, wire, following) for _ in range(3))


def lists_again(servers: ApiServers, wire: Wire, following: Follower) -> bool:
    """Let the wire be silent while much happens: after it all is known as it is.

    Return whether it was listed for that: only "410 Gone" does it while all is answered.
    """
    salt = secrets.token_hex(3)
    goes, ends, stays, comes, changes = (
        f"{word}-{salt}" for word in ("goes", "ends", "stays", "comes", "changes")
    )
    for uid in (goes, ends, stays):
        put(servers, uid)
    for uid in (goes, ends, stays):
        following.until(uid, Seen.CREATED)
    lists = lists_of_sets(following)
    wire.life += 1  # what is open stays open and is silent; new connections are good
    missed = time.monotonic()
    servers.kube.delete("apps/v1", "StatefulSet", f"ws-{goes}", "default")
    put(servers, ends, replicas=0)
    put(servers, comes)
    while time.monotonic() - missed < SILENT_S - 2:
        put(servers, changes, replicas=int(time.monotonic()) % 2)  # so that versions go on
        time.sleep(1)
    put(servers, changes)

    following.until(goes, Seen.MISSING)
    following.until(ends, Seen.EXITED)
    following.until(comes, Seen.CREATED)
    following.until(changes, Seen.CREATED)
    assert following.known[stays].seen == Seen.CREATED
    assert following.error is None
    there = {names_of(one) for one in servers.kube.list("apps/v1", "StatefulSet", "default")}
    known = {uid for uid, found in following.known.items() if found.seen != Seen.MISSING}
    assert known == there
    return lists_of_sets(following) > lists


def lists_of_sets(following: Follower) -> int:
    asked = following.driver._watch.streams
    return int(sum(one.lists for one in asked if one._kind.plural == "statefulsets"))


def names_of(found: dict[str, Any]) -> str:
    return str(found["metadata"]["labels"][names.UID])
