"""E14 on a cluster: what a version before made there goes on under this one.

The older version itself (``tests/support/versions.py``) attaches the cluster, launches pods and
leaves work in its queue. Then this version starts in its place, on its database and its folder.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.hearing import container
from tests.cluster.test_portal_by_gateway import kernel
from tests.cluster.visitors import (
    BASE,
    NO_MAIL,
    Person,
    is_sign_in,
    new_prefix,
    people,
    until,
)
from tests.hubapi.live.fleet import Browser, execute, result_of
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.portal import ROOT
from tests.support.versions import older

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long("an upgrade over a release; in one process: runtime/test_e14_old_payloads.py"),
]
LATE_S = 180.0
WAIT = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
ANSWER = "@@answer@@"
# A web process of the older version that is asked while no worker runs: what it sends on is queued.
ASKS = """
from django.test import Client
client = Client(headers={{"authorization": "Bearer {token}", "host": "localhost:{port}"}})
answer = []
for path, body in {asked}:
    said = client.post(path, body, content_type="application/json")
    answer.append([said.status_code, said.json()])
"""


class AgedPortal(ClusteredPortal):
    """One of the older version, until it is upgraded."""

    def __init__(self, devcluster: Mapping[str, Any], tree: Path) -> None:
        super().__init__(devcluster, new_prefix("old"), NO_MAIL)
        self.tree = tree
        del self.options["data_image"]  # of a later time

    def start(self) -> AgedPortal:
        self.up()  # the database is its own, from the first table on
        self.attach()
        return self

    def shell(self, code: str) -> Any:
        if self.tree == ROOT:
            return super().shell(code)
        said = self.manage(
            "shell", "-c", f"{code}\nimport json\nprint({ANSWER!r} + json.dumps(answer))"
        )
        return json.loads(said.rpartition(ANSWER)[2])

    def queue(self) -> list[Path]:
        """The messages in it, which belong to whom a web process's would."""
        folder = self.var / "broker" / "queue"
        found = sorted(folder.glob("*.msg"))
        for message in found:
            os.chown(message, folder.stat().st_uid, folder.stat().st_gid)
        return found


@dataclass
class Before:
    """What the older version made, and how it was when that ended."""

    portal: AgedPortal
    ann: Person
    notebook: dict[str, Any]
    web: dict[str, Any]
    stopped: dict[str, Any]  # told so in the queue
    late: dict[str, Any]  # launched in the queue
    kernel: str
    messages: list[Path]
    things: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)


def things_of(kube: Kube, row: dict[str, Any]) -> tuple[Any, ...]:
    """What would be another one, or have another number, had anybody touched it."""
    mine = f"berth.dev/uid={row['uid']}"
    (pod,) = kube.list("v1", "Pod", labelSelector=mine)
    (owner,) = kube.list("apps/v1", "StatefulSet", labelSelector=mine)
    restarts = [one["restartCount"] for one in pod["status"]["containerStatuses"]]
    meta = owner["metadata"]
    return pod["metadata"]["uid"], restarts, meta["uid"], meta["generation"]


def small(devcluster: Mapping[str, Any], name: str) -> dict[str, Any]:
    image = devcluster["images"]["tool"]["reference"]
    size = {"cpu_milli": 100, "memory_mib": 256}
    return {
        "kind": "container",
        "cluster": KEY,
        "name": name,
        "image": image,
        "command": WAIT,
        **size,
    }


@pytest.fixture(scope="module")
def before(kube: Kube, devcluster: dict[str, Any]) -> Iterator[Before]:
    """The upgrade is over. Whoever tries this again begins with a portal of the older version."""
    with tempfile.TemporaryDirectory(prefix="berth-older-") as folder:
        Path(folder).chmod(0o755)  # the portal's own user reads it
        running = AgedPortal(devcluster, older(Path(folder)))
        try:
            running.start()
            people(running)
            yield upgraded(running, Person(running, "ann"), kube)
        finally:
            running.close()


@pytest.fixture(scope="module")
def portal(before: Before) -> AgedPortal:
    return before.portal


@pytest.fixture(scope="module")
def ann(before: Before) -> Person:
    """Signed in since the older version."""
    return before.ann


def upgraded(portal: AgedPortal, ann: Person, kube: Kube) -> Before:
    """Let the older version work and end; return when the new worker has done something here."""
    notebook = ann.launch(name="notes")
    url = notebook["status"]["url"]
    assert ann.open(url).status_code == 200
    with kernel(ann, url) as talk:
        execute(talk, "kept = 40; open('kept.txt', 'w').write('here'); kept")
        assert result_of(talk) == "40"
    (running,) = ann.script("GET", f"{url}api/kernels").json()
    web = ann.launch(name="web", **container(portal.state))
    stopped = ann.launch(**small(portal.state, "stopped"))

    portal.down()
    asked = [
        (f"/api/v1/{BASE}/{stopped['id']}/stop", {}),
        (f"/api/v1/{BASE}", small(portal.state, "late")),
    ]
    token = ann.api.headers["Authorization"].removeprefix("Bearer ")
    said = portal.shell(ASKS.format(token=token, port=portal.port, asked=repr(asked)))
    assert all(status < 400 for status, _ in said), said
    messages = portal.queue()
    made = Before(portal, ann, notebook, web, stopped, said[1][1], running["id"], messages)
    for row in (notebook, web):
        made.things[row["name"]] = things_of(kube, row)

    portal.tree = ROOT
    portal.up()
    ann.settle(made.stopped, "stopped")
    ann.settle(made.late)
    return made


def test_e14_what_an_older_version_left_in_its_queue_is_done_on_a_cluster_once(
    before: Before, ann: Person, kube: Kube
) -> None:
    assert len(before.messages) >= 2
    until(lambda: not any(message.exists() for message in before.messages), LATE_S)
    mine = f"berth.dev/uid={before.stopped['uid']}"
    until(lambda: not kube.list("v1", "Pod", labelSelector=mine), LATE_S)
    _uid, restarts, _owner, generation = things_of(kube, before.late)
    assert (restarts, generation) == ([0], 1)
    assert ann.settle(before.late)["status"]["phase"] == "running"


def test_e14_pods_of_an_older_version_are_known_led_to_and_as_they_were(
    before: Before, portal: AgedPortal, ann: Person, ben: Person, kube: Kube
) -> None:
    for row in (before.notebook, before.web):
        assert ann.settle(row)["status"]["phase"] == "running"
        assert things_of(kube, row) == before.things[row["name"]]
    url = before.notebook["status"]["url"]
    until(lambda: is_sign_in(Browser().open(url), portal), LATE_S)
    assert ben.open(url).status_code == 403
    assert ann.open(url).status_code == 200
    with ann.kernel_socket(url, before.kernel) as talk:  # nobody has restarted it
        execute(talk, "kept + 2")
        assert result_of(talk) == "42"
    page = before.web["status"]["ports"][0]["url"]
    until(lambda: ann.open(page).status_code == 200, LATE_S)
    assert ben.open(page).status_code == 403


def test_e14_pods_of_an_older_version_stop_and_start_with_their_home(
    before: Before, ann: Person, kube: Kube
) -> None:
    row, url = before.notebook, before.notebook["status"]["url"]
    mine = f"berth.dev/uid={row['uid']}"
    ann.act(row, "stop", "stopped")
    until(lambda: not kube.list("v1", "Pod", labelSelector=mine), LATE_S)
    ann.act(row, "start", "running")
    until(lambda: ann.open(url).status_code == 200, LATE_S)
    assert ann.script("GET", f"{url}api/contents/kept.txt").json()["content"] == "here"


def test_e14_pods_of_an_older_version_leave_nothing(
    before: Before, ann: Person, kube: Kube
) -> None:
    """Last in the module."""
    rows = (before.notebook, before.web)
    for row in rows:
        if row["id"] not in before.removed:  # by an earlier try
            ok(ann.api.delete(f"{BASE}/{row['id']}"))
            before.removed.add(row["id"])
    for row in rows:
        until(lambda o=row: ann.api.get(f"{BASE}/{o['id']}").status_code == 404, LATE_S)
        uid = f"berth.dev/uid={row['uid']}"
        for api, kind in (("apps/v1", "StatefulSet"), ("v1", "Pod"), ("v1", "Secret")):
            until(lambda a=api, k=kind, u=uid: not kube.list(a, k, labelSelector=u), LATE_S)
