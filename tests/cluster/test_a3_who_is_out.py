"""A3: a person who is disabled, removed or lowered while much is open: all of it falls in a minute.

A notebook of one's own with a kernel that is talked to, a page, a stream of events by the session
and one by a token, and a load that copies. Terminal, SSH and kubectl: test_people_in_pods.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.test_loads import LABEL, bucket, store  # noqa: F401 - fixtures
from tests.cluster.test_portal_by_gateway import falls, kernel
from tests.cluster.visitors import BASE, Person, is_sign_in, portal_of_people, until
from tests.hubapi.live.fleet import NAVIGATE, execute, result_of
from tests.support.clustered import ClusteredPortal, ok
from tests.support.dataplane import settings_open_to
from tests.support.stores import VersityS3

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
LOST_WITHIN_S = 60.0
SLOWEST = 64 * 1024
LOADS = "projects/demo/loads"
GUESTS = {"disabled": "ben", "removed": "dan", "lowered": "eve"}


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], store: VersityS3) -> Iterator[ClusteredPortal]:  # noqa: F811
    """Its operator opened the store to loads and to the network of pods."""
    opened = store.outbound()
    env = {
        "BERTH_LOCAL_CLUSTER": "no",
        **settings_open_to(opened),
    }
    options = {"allowed_cidrs": opened["allow"]}
    with portal_of_people(devcluster, "out", env, options=options) as running:
        running.shell(
            "from accounts.models import User; from projects.models import Membership, Project\n"
            "ben = User.objects.get(username='ben')\n"
            "for name in ('dan', 'eve'):\n"
            "    user = User(username=name, email=f'{name}@example.org', password=ben.password)\n"
            "    user.save()\n"
            "    project = Project.objects.get(slug='demo')\n"
            "    Membership.objects.create(project=project, user=user, role='member')\n"
            "answer = True"
        )
        yield running


@pytest.fixture(scope="module")
def ann(portal: ClusteredPortal, store: VersityS3) -> Person:  # noqa: F811
    """The project's owner, with the key of the store in the project."""
    person = Person(portal, "ann")
    body = {
        "kind": "s3-compatible",
        "name": "lake",
        "endpoint": store.url,
        "region": "us-east-1",
        "path_style": True,
        "access_key": store.keys.access,
        "secret_key": store.keys.secret,
    }
    ok(person.api.post("projects/demo/credentials", json=body))
    return person


class Listening(threading.Thread):
    """Reads a stream of events until it ends."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        super().__init__(daemon=True)
        self.client, self.url = client, url
        self.heard = threading.Event()
        self.start()
        assert self.heard.wait(60)

    def run(self) -> None:
        asks = {"Accept": "text/event-stream"}
        try:
            with self.client.stream("GET", self.url, headers=asks, timeout=None) as answer:
                assert answer.status_code == 200
                for _part in answer.iter_raw():
                    self.heard.set()
        except httpx.TransportError:
            return  # cut in the middle of a part is cut


class Inside:
    """All that one guest has open."""

    def __init__(self, guest: Person, bucket: str) -> None:  # noqa: F811
        self.guest = guest
        self.row = guest.launch(name=f"{guest.name}s", memory_mib=512)
        self.url = self.row["status"]["url"]
        assert guest.open(self.url).status_code == 200
        asked = {
            "url": f"s3://{bucket}/images",
            "credential": "lake",
            "folder": guest.name,
            "bandwidth_bytes_s": SLOWEST,  # it would go on for a minute and a half
        }
        self.load = ok(guest.api.post(LOADS, json=asked)).json()
        until(lambda: self.of_load(guest.api)["state"] == "copying")
        path = f"{BASE}/{self.row['id']}/events"
        page = httpx.Client(cookies=guest.http.cookies)
        whole = f"{guest.portal.url}/api/v1/{path}"
        token = guest.portal.api(guest.portal.token(guest.name))
        self.streams = {"token": Listening(token, path), "session": Listening(page, whole)}

    def of_load(self, api: httpx.Client) -> dict[str, Any]:
        return dict(ok(api.get(f"{LOADS}/{self.load['id']}")).json()["status"])

    def of_workspace(self, api: httpx.Client) -> dict[str, Any]:
        return dict(ok(api.get(f"{BASE}/{self.row['id']}")).json()["status"])

    def pods(self, kube: Kube, uid: str) -> list[Any]:
        found = kube.list("v1", "Pod", labelSelector=f"{LABEL}={uid}")
        return [one for one in found if one["status"]["phase"] in {"Pending", "Running"}]


def disabled(ann: Person, name: str) -> None:
    uid = ann.portal.shell(
        f"from accounts.models import User\nanswer = str(User.objects.get(username={name!r}).uid)"
    )
    with ann.portal.api(ann.portal.token("admin")) as admin:
        ok(admin.patch(f"users/{uid}", json={"is_active": False}))


def removed(ann: Person, name: str) -> None:
    ok(ann.api.delete(f"projects/demo/members/{name}"))


def lowered(ann: Person, name: str) -> None:
    ok(ann.api.patch(f"projects/demo/members/{name}", json={"role": "viewer"}))


@pytest.mark.parametrize("end", [disabled, removed])
def test_a3_who_is_out_loses_kernel_session_streams_and_load_and_his_work_stops(
    portal: ClusteredPortal,
    ann: Person,
    kube: Kube,
    bucket: str,  # noqa: F811
    end: Callable[..., None],
) -> None:
    guest = Person(portal, GUESTS[end.__name__])
    inside = Inside(guest, bucket)
    with kernel(guest, inside.url) as talk:
        execute(talk, "6*7")
        assert result_of(talk) == "42"

        end(ann, guest.name)
        over = time.monotonic() + LOST_WITHIN_S
        falls(talk, LOST_WITHIN_S)
    for stream in inside.streams.values():
        stream.join(over - time.monotonic())
        assert not stream.is_alive()

    def is_stopped(look: Callable[..., dict[str, Any]]) -> bool:
        found = look(ann.api)
        return (found["phase"], found["reason"]) == ("stopped", "owner-disabled")

    until(lambda: is_stopped(inside.of_workspace), over - time.monotonic())
    until(lambda: inside.of_load(ann.api)["state"] == "stopped", over - time.monotonic())
    for uid in (inside.row["uid"], inside.load["id"]):
        until(lambda u=uid: not inside.pods(kube, u), over - time.monotonic())
    assert guest.api.get(BASE).status_code in {401, 404}
    page = guest.http.get(f"{portal.url}/projects/demo/", headers=NAVIGATE, follow_redirects=True)
    assert is_sign_in(page, portal) or page.status_code in {403, 404}
    assert time.monotonic() < over


def test_a3_who_is_lowered_to_a_viewer_loads_no_more_and_keeps_what_runs(
    portal: ClusteredPortal,
    ann: Person,
    kube: Kube,
    bucket: str,  # noqa: F811
) -> None:
    """His notebook is his own still: to open, to stop and to delete, and to start no more."""
    guest = Person(portal, GUESTS["lowered"])
    inside = Inside(guest, bucket)
    lowered(ann, guest.name)
    over = time.monotonic() + LOST_WITHIN_S
    until(lambda: inside.of_load(ann.api)["state"] == "stopped", over - time.monotonic())
    until(lambda: not inside.pods(kube, inside.load["id"]), over - time.monotonic())
    assert guest.api.post(BASE, json={"name": "more", "cluster": "dev"}).status_code == 403
    assert inside.of_workspace(ann.api)["phase"] == "running"
    ok(guest.api.post(f"{BASE}/{inside.row['id']}/stop"))
    guest.settle(inside.row, "stopped")
    assert guest.api.post(f"{BASE}/{inside.row['id']}/start").status_code == 403
