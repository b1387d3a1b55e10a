"""Workspaces as real pods: real portal processes, real proxy, real API server and node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from devcluster.kube import Kube
from tests.cluster.hearing import KEPT, by_request, by_upgrade, container, portal_cookies, upgraded
from tests.cluster.visitors import BASE, Person, is_sign_in, named, portal_of_people, until
from tests.hubapi.live.fleet import NAVIGATE, Browser
from tests.support.clustered import ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
CHECK = "projects/demo/images/check"
GPUS = "nvidia.com/gpu"
SAYS = """
echo said=$SAID gpus=$NVIDIA_VISIBLE_DEVICES tokens=$(grep -c serviceaccount /proc/mounts)
df -m /dev/shm
exec tini sleep 600
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "ws") as running:
        yield running


def pods(kube: Kube, row: dict[str, Any]) -> list[Any]:
    found = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={row['uid']}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def test_a_notebook_in_a_pod_opens_with_sign_in_stops_resumes_and_keeps_its_files(
    ann: Person, ben: Person, kube: Kube, portal: ClusteredPortal
) -> None:
    row = ann.launch()
    url = row["status"]["url"]
    assert is_sign_in(Browser().open(url), portal)
    assert ben.open(url).status_code == 403

    assert ann.open(url).status_code == 200
    assert ann.run(url, "1+1") == "2"
    home = "import os; open('kept.txt', 'w').write('here'); (os.getcwd(), os.environ['HOME'], os.getuid())"
    assert ann.run(url, home) == "('/home/berth', '/home/berth', 1000)"
    assert len(pods(kube, row)) == 1

    ann.act(row, "stop", "stopped")
    until(lambda: not pods(kube, row))
    until(lambda: ann.http.get(url, headers=NAVIGATE).status_code == 424)

    ann.act(row, "start", "running")
    assert ann.open(url).status_code == 200
    assert ann.script("GET", f"{url}api/contents/kept.txt").json()["content"] == "here"

    ok(ann.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: ann.api.get(f"{BASE}/{row['id']}").status_code == 404)
    for kind, api in (("StatefulSet", "apps/v1"), ("Secret", "v1"), ("Pod", "v1")):
        until(
            lambda k=kind, a=api: not kube.list(a, k, labelSelector=f"berth.dev/uid={row['uid']}"),
        )
    volumes = kube.list("v1", "PersistentVolume", labelSelector=f"berth.dev/uid={row['home']}")
    assert len(volumes) == 1  # the home stays


HOOK = """
import os, pathlib
hook = pathlib.Path.home() / ".berth/on-park"
hook.parent.mkdir(exist_ok=True)
hook.write_text("#!/bin/sh\\ncp $BERTH_NOTICE_FILE ~/why.json; echo the hook was here\\n")
hook.chmod(0o755)
os.environ["BERTH_NOTICE_FILE"], os.path.exists(os.environ["BERTH_NOTICE_FILE"])
"""


@pytest.mark.long("40 s; the hook on one machine: drivers/local/test_lifecycle.py")
def test_a_notebook_in_a_pod_shows_notices_and_its_owners_hook_runs_before_it_is_parked(
    ann: Person, portal: ClusteredPortal
) -> None:
    row = ann.launch(name=named("parks"))
    url = row["status"]["url"]
    assert ann.open(url).status_code == 200
    script = f"{url}lab/extensions/@berth/notices/static/notices.js"
    assert "berth:press-notice" in ann.script("GET", script).text
    assert ann.run(url, HOOK).endswith("notice.json', False)")
    ann.act(row, "park", "stopped")
    log = ann.api.get(f"{BASE}/{row['id']}/logs").text
    assert "the hook was here" in log
    ann.act(row, "start", "running")
    assert ann.open(url).status_code == 200
    why = json.loads(ann.script("GET", f"{url}api/contents/why.json").json()["content"])
    assert why["why"] == "parked"
    assert why["until"] > row["created_at"]
    ok(ann.api.delete(f"{BASE}/{row['id']}"))


def test_a_notebook_with_a_gpu_has_it_and_shows_the_projects_volume_in_its_files(
    ann: Person, kube: Kube, devcluster: dict[str, Any]
) -> None:
    row = ann.launch(name=named("gpu"), gpus=1)
    assert [seen["name"] for seen in row["spec"]["volumes"]] == ["shared"]
    (pod,) = pods(kube, row)
    (main,) = pod["spec"]["containers"]
    assert pod["spec"]["nodeName"] == devcluster["node"]
    assert main["resources"]["limits"][GPUS] == main["resources"]["requests"][GPUS] == "1"

    url = row["status"]["url"]
    assert ann.open(url).status_code == 200
    code = (
        "import os; shared = os.path.join(os.environ['BERTH_VOLUMES'], 'shared'); "
        "open(f'{shared}/made.txt', 'w').write('by the kernel'); "
        "(shared, os.environ.get('NVIDIA_VISIBLE_DEVICES') != 'void', "
        "os.environ['NVIDIA_DRIVER_CAPABILITIES'])"
    )
    assert ann.run(url, code) == "('/volumes/shared', True, 'compute,utility')"

    def listed(path: str) -> list[str]:
        """As the file browser asks for it."""
        answer = ann.script("GET", f"{url}api/contents/{path}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["type"] == "directory"
        return [entry["name"] for entry in answer.json()["content"]]

    assert "volumes" in listed("")
    assert listed("volumes") == ["shared"]
    assert "made.txt" in listed("volumes/shared")
    file = f"{url}api/contents/volumes/shared/made.txt"
    assert ann.script("GET", file).json()["content"] == "by the kernel"
    link = "import os; os.readlink(os.path.expanduser('~/volumes'))"
    assert ann.run(url, link) == "'/volumes'"
    ok(ann.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: not pods(kube, row))


def test_b1_a_port_of_a_container_is_behind_the_sign_in_and_gets_no_portal_cookie(
    ann: Person, ben: Person, portal: ClusteredPortal, devcluster: dict[str, Any]
) -> None:
    cyd = Person(portal, "cyd")
    row = ann.launch(
        kind="container",
        name=named("echo"),
        image=devcluster["images"]["echo"]["reference"],
        ports=[{"port": 8888, "name": "echo"}],
        gpus=1,
        cpu_milli=200,
        memory_mib=256,
        shm_mib=32,
    )
    url = row["status"]["ports"][0]["url"]
    assert is_sign_in(Browser().open(url), portal)
    assert ben.open(url).status_code == 403
    assert cyd.open(url).status_code in {403, 404}

    answer = ann.open(url)
    assert answer.status_code == 200, answer.text
    ours = portal_cookies(ann)
    assert not {f"{name}=" for name in ours if f"{name}=" in answer.text}
    assert by_request(ann, url) == {KEPT}

    # shared by the portal's own page and by no other, then taken back: cut within seconds
    shares = f"{portal.url}/api/v1/{BASE}/{row['id']}/shares"
    for page, wanted in ((url, 403), (portal.url, 201)):
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(page))
        headers = {"Origin": origin, "Referer": page, "X-CSRFToken": ours["berth_csrf"]}
        asks = ann.http.post(shares, json={"username": "ben"}, headers=headers)
        assert asks.status_code == wanted, (page, asks.text)
        if page == url:
            refuses_streams(ann, row, headers)
    asked = ben.open(url)
    assert "belongs to" in asked.text
    assert ben.submit(asked, {}, "/hub/consent").status_code == 200
    ok(ann.api.delete(f"{BASE}/{row['id']}/shares/ben"))
    until(lambda: is_refused(ben, url), 60)


def refuses_streams(person: Person, row: dict[str, Any], headers: dict[str, str]) -> None:
    """A stream that nobody there could read would still be one of the few that a person has."""
    asks = {**headers, "Accept": "text/event-stream"}
    base = person.portal.url
    streams = (
        f"/api/v1/{BASE}/{row['id']}/events",
        f"/events/stream?topics=workspace:{row['uid']}",
    )
    for stream in streams:
        assert person.http.get(f"{base}{stream}", headers=asks).status_code == 403, stream


def is_refused(person: Person, url: str) -> bool:
    """One whose request was under way is cut: what counts is the answer to the next one."""
    try:
        return person.http.get(url, headers=NAVIGATE).status_code != 200
    except httpx.RemoteProtocolError:
        return False


def test_b1_b5_a_websocket_of_a_containers_port_needs_its_owner_and_gets_no_portal_cookie(
    ann: Person, ben: Person, portal: ClusteredPortal, devcluster: dict[str, Any]
) -> None:
    row = ann.launch(name=named("hears"), **container(devcluster))
    url = row["status"]["ports"][0]["url"]
    assert ben.open(url).status_code == 403
    assert ann.open(url).status_code == 200
    assert by_upgrade(ann, url) == {KEPT}

    own, theirs = ann.cookies(url), ben.cookies(url)
    portals = "; ".join(f"{name}={value}" for name, value in portal_cookies(ann).items())
    for who, cookie, page in (
        ("nobody", "", ""),
        ("a member", theirs, ""),
        ("the owner's portal cookies", portals, ""),
        ("the owner at the portal's page", own, portal.url),
        ("the owner at a stranger's page", own, "https://evil.example"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            upgraded(url, cookie, page)
        assert refused.value.response.status_code == 403, who
    ok(ann.api.delete(f"{BASE}/{row['id']}"))


def test_a_container_without_ports_runs_its_command_with_its_environment_and_no_gpu(
    ann: Person, kube: Kube, devcluster: dict[str, Any]
) -> None:
    image = devcluster["images"]["tool"]["reference"]
    # a start waits for the registry for a moment only, and goes by the tag where that is late
    asked = {"image": image, "kind": "container", "cluster": "dev"}
    until(lambda: ok(ann.api.post(CHECK, json=asked)).json()["verdict"] == "good")
    row = ann.launch(
        kind="container",
        name=named("tool"),
        image=image,
        command=["sh", "-c", SAYS],
        env={"SAID": "a b"},
        shm_mib=64,
        cpu_milli=100,
        memory_mib=256,
    )
    assert row["status"]["url"] is None
    text = until(lambda: _log(ann, row))
    assert "said=a b gpus=void tokens=0\n" in text
    assert " 64 " in text
    spec = pods(kube, row)[0]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["image"].endswith(devcluster["images"]["tool"]["digest"])


def _log(person: Person, row: dict[str, Any]) -> str:
    text = person.api.get(f"{BASE}/{row['id']}/logs").json().get("text", "")
    return text if "shm" in text else ""


def test_an_image_that_does_not_exist_is_said_in_plain_words(
    ann: Person, devcluster: dict[str, Any]
) -> None:
    made = ann.api.post(
        BASE,
        json={
            "kind": "container",
            "cluster": "dev",
            "name": named("missing"),
            "image": f"{devcluster['registry']}/berth/nothing:1",
            "command": ["true"],
        },
    )
    if made.status_code == 400:  # the check before the launch knew
        assert "image" in made.json()["fields"]
        return
    row = ok(made).json()

    def look() -> Any:
        status = ann.api.get(f"{BASE}/{row['id']}").json()["status"]
        return status if status["reason"] in {"image-not-found", "image-pull"} else None

    assert "image" in until(look)["message"].lower()
