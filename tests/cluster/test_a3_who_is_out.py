"""A3: a person who is disabled, removed or lowered while much is open: all of it falls in a minute.

A notebook of one's own with a kernel that is talked to, a page, a stream of events by the session
and one by a token, and a load that copies; and kubectl with a token that was given already, which
only the API server itself can refuse. Terminal and SSH: test_people_in_pods.py.
"""

from __future__ import annotations

import base64
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.asking import answered, is_refused
from tests.cluster.lakes import owner_with_its_key, portal_by_a_store
from tests.cluster.test_loads import LABEL
from tests.cluster.test_portal_by_gateway import falls, kernel
from tests.cluster.visitors import BASE, Person, is_sign_in, named, until
from tests.cluster.ways import Kubectl
from tests.hubapi.live.fleet import NAVIGATE, execute, result_of
from tests.support.clustered import ClusteredPortal, ok
from tests.support.stores import VersityS3, run_client

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(1500),
    pytest.mark.long(
        "minutes of waiting; A3 by HTTP: security/test_a3_streams.py, kubectl: test_kubectl.py"
    ),
]
LOST_WITHIN_S = 60.0
LATE_S = 180.0
TRIES = 2  # something else may hold a small machine meanwhile
SLOWEST = 64 * 1024
OBJECTS, SIZE = 16, 2**20  # at that pace more than four minutes: it is not done before LATE_S
LOADS = "projects/demo/loads"
FILES = "projects/demo/kubeconfigs"
WAIT = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], store: VersityS3) -> Iterator[ClusteredPortal]:
    with portal_by_a_store(devcluster, store, "out") as running:
        yield running


@pytest.fixture(scope="module")
def ann(portal: ClusteredPortal, store: VersityS3) -> Person:
    return owner_with_its_key(portal, store)


@pytest.fixture(scope="module")
def bucket(store: VersityS3) -> str:
    name = store.make_bucket(f"set-{secrets.token_hex(4)}")
    body = base64.b64encode(os.urandom(SIZE)).decode()
    puts = [
        {"do": "put", "bucket": name, "key": f"images/{n}", "body": body} for n in range(OBJECTS)
    ]
    run_client(store, puts)
    return name


def a_member(portal: ClusteredPortal) -> Person:
    """A new one each time: whoever was put out is out."""
    name = f"g{secrets.token_hex(4)}"
    portal.shell(
        "from accounts.models import User; from projects.models import Membership, Project\n"
        "known = User.objects.get(username='ben').password\n"
        f"user = User(username={name!r}, email='{name}@example.org', password=known)\n"
        "user.save()\n"
        "project = Project.objects.get(slug='demo')\n"
        "Membership.objects.create(project=project, user=user, role='member')\n"
        "answer = True"
    )
    return Person(portal, name)


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
    """All that a new member has open; what is left of it goes at the end."""

    def __init__(self, ann: Person) -> None:
        self.ann, self.guest = ann, a_member(ann.portal)
        guest = self.guest
        self.row = guest.launch(name=f"{guest.name}s", memory_mib=512)
        self.load: dict[str, Any] | None = None
        self.url = self.row["status"]["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.load:
            self.ann.api.post(f"{LOADS}/{self.load['id']}/cancel")
        self.ann.api.delete(f"{BASE}/{self.row['id']}")

    def listen(self) -> list[Listening]:
        """By a token and by the session."""
        guest, path = self.guest, f"{BASE}/{self.row['id']}/events"
        page = httpx.Client(cookies=guest.http.cookies)
        token = guest.portal.api(guest.portal.token(guest.name))
        return [
            Listening(token, path),
            Listening(page, f"{guest.portal.url}/api/v1/{path}"),
        ]

    def copy(self, bucket: str) -> None:
        """Begin a load. The last thing, so that it surely copies still."""
        asked = {
            "url": f"s3://{bucket}/images",
            "credential": "lake",
            "folder": self.guest.name,
            "bandwidth_bytes_s": SLOWEST,
        }
        self.load = ok(self.guest.api.post(LOADS, json=asked)).json()
        until(lambda: self.of_load(self.guest.api)["state"] == "copying")

    def of_load(self, api: httpx.Client) -> dict[str, Any]:
        assert self.load is not None
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


def in_a_minute(once: Callable[[], float]) -> None:
    took: list[float] = []
    while len(took) < TRIES:
        took.append(once())
        if took[-1] < LOST_WITHIN_S:
            return
    raise AssertionError(took)


@pytest.mark.parametrize("end", [disabled, removed])
def test_a3_who_is_out_loses_kernel_session_streams_and_load_and_his_work_stops(
    ann: Person, kube: Kube, bucket: str, end: Callable[..., None]
) -> None:
    def once() -> float:
        with Inside(ann) as inside:
            return loses_all(inside, kube, bucket, end)

    in_a_minute(once)


def loses_all(inside: Inside, kube: Kube, bucket: str, end: Callable[..., None]) -> float:
    """Return how long it took until all was over."""
    ann, guest, portal = inside.ann, inside.guest, inside.guest.portal
    assert guest.open(inside.url).status_code == 200
    streams = inside.listen()
    with kernel(guest, inside.url) as talk:
        inside.copy(bucket)
        execute(talk, "6*7")
        assert result_of(talk) == "42"
        assert all(stream.is_alive() for stream in streams)

        end(ann, guest.name)
        began = time.monotonic()
        over = began + LATE_S
        falls(talk, LATE_S)
    for stream in streams:
        stream.join(over - time.monotonic())
        assert not stream.is_alive()

    def is_stopped(look: Callable[..., dict[str, Any]]) -> bool:
        found = look(ann.api)
        return (found["phase"], found["reason"]) == ("stopped", "owner-disabled")

    until(lambda: is_stopped(inside.of_workspace), over - time.monotonic())
    until(lambda: inside.of_load(ann.api)["state"] == "stopped", over - time.monotonic())
    assert inside.load is not None
    for uid in (inside.row["uid"], inside.load["id"]):
        until(lambda u=uid: not inside.pods(kube, u), over - time.monotonic())
    assert guest.api.get(BASE).status_code in {401, 404}
    page = guest.http.get(f"{portal.url}/projects/demo/", headers=NAVIGATE, follow_redirects=True)
    assert is_sign_in(page, portal) or page.status_code in {403, 404}
    return time.monotonic() - began


def test_a3_who_is_lowered_to_a_viewer_loads_no_more_and_keeps_what_runs(
    ann: Person, kube: Kube, bucket: str
) -> None:
    """His notebook is his own still: to open, to stop and to delete, and to start no more."""

    def once() -> float:
        with Inside(ann) as inside:
            return keeps_what_runs(inside, kube, bucket)

    in_a_minute(once)


def keeps_what_runs(inside: Inside, kube: Kube, bucket: str) -> float:
    """Return how long the load went on."""
    ann, guest = inside.ann, inside.guest
    inside.copy(bucket)
    assert inside.load is not None
    uid = inside.load["id"]
    lowered(ann, guest.name)
    began = time.monotonic()
    over = began + LATE_S
    until(lambda: inside.of_load(ann.api)["state"] == "stopped", over - time.monotonic())
    until(lambda: not inside.pods(kube, uid), over - time.monotonic())
    took = time.monotonic() - began
    assert guest.api.post(BASE, json={"name": "more", "cluster": "dev"}).status_code == 403
    assert inside.of_workspace(ann.api)["phase"] == "running"
    ok(guest.api.post(f"{BASE}/{inside.row['id']}/stop"))
    guest.settle(inside.row, "stopped")
    assert guest.api.post(f"{BASE}/{inside.row['id']}/start").status_code == 403
    return took


# --- kubectl, with a token that was given already ---------------------------------------------------


def a_file(person: Person, folder: Path) -> Kubectl:
    """Downloaded with a token in it, and good: from here on the portal is not asked any more."""
    folder.mkdir(parents=True)
    kubectl = Kubectl(person, folder)
    assert "token:" in kubectl.file.read_text()
    until(lambda: kubectl.run("get", "pods").returncode == 0)
    return kubectl


def is_good(kubectl: Kubectl, *words: str) -> bool:
    done = answered(lambda: kubectl.run(*words))
    assert done.returncode == 0 or is_refused(done), done.stderr
    return done.returncode == 0


def refused_after(kubectl: Kubectl) -> float:
    """How long the API server still took its token; the portal's own worker takes the rights."""
    began = time.monotonic()
    until(lambda: not is_good(kubectl, "get", "pods"), LATE_S)
    return time.monotonic() - began


def a_container(person: Person) -> dict[str, Any]:
    return person.launch(
        kind="container",
        name=named("kube"),
        image=person.portal.state["images"]["tool"]["reference"],
        command=WAIT,
        cpu_milli=200,
        memory_mib=256,
    )


def test_a3_the_token_of_a_file_that_was_revoked_is_refused_and_another_ones_is_not(
    ann: Person, tmp_path: Path
) -> None:
    """The owner revokes it by the API, and does nothing else."""

    def once() -> float:
        guest = a_member(ann.portal)
        first = a_file(guest, tmp_path / guest.name / "first")
        (grant,) = ok(guest.api.get(FILES)).json()["results"]
        second = a_file(guest, tmp_path / guest.name / "second")
        assert is_good(first, "get", "pods")
        assert ok(guest.api.delete(f"{FILES}/{grant['id']}")).status_code == 204
        took = refused_after(first)
        assert is_good(second, "get", "pods")
        return took

    in_a_minute(once)


@pytest.mark.parametrize("end", [disabled, removed])
def test_a3_the_token_of_who_is_out_is_refused(
    ann: Person, tmp_path: Path, end: Callable[..., None]
) -> None:
    def once() -> float:
        guest = a_member(ann.portal)
        row = a_container(guest)
        try:
            kubectl = a_file(guest, tmp_path / guest.name)
            pod = f"ws-{row['id']}-0"
            until(lambda: is_good(kubectl, "exec", pod, "--", "true"))
            end(ann, guest.name)
            took = refused_after(kubectl)
            assert not is_good(kubectl, "exec", pod, "--", "true")
            assert not is_good(kubectl, "logs", pod)
            assert guest.api.get(FILES).status_code in {401, 404}
            return took
        finally:
            ann.api.delete(f"{BASE}/{row['id']}")

    in_a_minute(once)


def test_a3_who_is_lowered_to_a_viewer_keeps_kubectl_for_what_is_his_own_and_no_more(
    ann: Person, tmp_path: Path
) -> None:
    """Viewers may use kubectl; it never did more than look, and enter one's own."""
    guest = a_member(ann.portal)
    own, hers = a_container(guest), a_container(ann)
    try:
        kubectl = a_file(guest, tmp_path / guest.name)
        enters = ("exec", f"ws-{own['id']}-0", "--", "true")
        until(lambda: is_good(kubectl, *enters))
        lowered(ann, guest.name)
        ok(guest.api.post(f"{BASE}/{own['id']}/stop"))  # what he may do still, and not undo
        guest.settle(own, "stopped")
        assert guest.api.post(f"{BASE}/{own['id']}/start").status_code == 403
        assert is_good(kubectl, "get", "pods")
        for words in (
            ("exec", f"ws-{hers['id']}-0", "--", "true"),
            ("logs", f"ws-{hers['id']}-0"),
            ("scale", "statefulset", f"ws-{own['id']}", "--replicas=1"),
            ("run", "mine", "--image=x"),
        ):
            assert not is_good(kubectl, *words), words
    finally:
        for row in (own, hers):
            ann.api.delete(f"{BASE}/{row['id']}")
