"""What people open in a release of the chart: a web port, a terminal, files, the log and SSH."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.cluster.ways import SSH, needs_ssh, screen, told
from tests.deploy.chart import HOST, Browser, Release, until
from tests.deploy.front import Guest, Ingress
from tests.deploy.launching import WORKSPACES, launch

pytestmark = [pytest.mark.deploy, pytest.mark.cluster, pytest.mark.timeout(1800)]
SERVED = "echo good morning; echo from-the-pod > index.html; exec python3 -m http.server 8888"


@pytest.fixture(scope="module")
def guest(release: Release) -> Guest:
    doors = (release.address(name) for name in ("berth", "berth-gate", "berth-proxy"))
    one = Guest(Ingress(*doors))
    signed_in = one.sign_in(release.secret("BERTH_ADMIN_PASSWORD"))
    assert signed_in.status_code == httpx.codes.FOUND, signed_in.text[:500]
    return one


@pytest.fixture(scope="module")
def row(guest: Guest, operator: Browser, devcluster: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A container with a web port; nothing is started before the network was proved."""

    def proved() -> bool:
        rows = operator.ask("GET", "/api/v1/clusters/here/checks").json()
        return any(one["name"] == "network" and one["state"] == "green" for one in rows)

    until("the network is proved", proved)
    made = launch(
        guest,
        kind="container",
        name=f"doors-{uuid4().hex[:4]}",
        image=devcluster["images"]["tool"]["reference"],
        command=["sh", "-c", f"cd && {SERVED}"],
        ports=[{"port": 8888, "name": "web"}],
        cpu_milli=200,
        memory_mib=256,
    )
    yield made
    deleted = guest.ask("DELETE", f"{WORKSPACES}/{made['id']}")
    assert deleted.status_code < httpx.codes.BAD_REQUEST, deleted.text


def test_a_web_port_of_a_container_opens_for_its_owner_and_for_nobody_else(
    guest: Guest, row: dict[str, Any]
) -> None:
    url = row["status"]["ports"][0]["url"]
    until("the program", lambda: guest.open(url).status_code == httpx.codes.OK, 180)
    assert "from-the-pod" in guest.open(url).text
    stranger = Guest(guest.ingress).open(url)
    assert stranger.url.host == HOST
    assert "login" in stranger.url.path


def test_a_terminal_the_files_and_the_log_come_through_the_gate(
    guest: Guest, row: dict[str, Any]
) -> None:
    with guest.terminal(row["id"]) as ws:
        assert told(ws)["type"] == "ready"
        ws.send(b"echo there > ~/by-hand.txt; echo sum-$((40+2))\r")
        screen(ws, b"sum-42")
    page = {"Origin": f"https://{HOST}"}
    gate = f"https://{HOST}/gate"
    listed = guest.http.get(f"{gate}/files/{row['id']}/list", headers=page)
    assert listed.status_code == httpx.codes.OK, listed.text
    assert {"by-hand.txt", "index.html"} <= {one["name"] for one in listed.json()["entries"]}
    with guest.http.stream("GET", f"{gate}/logs/{row['id']}", headers=page) as answer:
        assert "good morning" in first_text(answer)


def first_text(answer: httpx.Response) -> str:
    """What is kept of the log comes at once, in one piece."""
    for line in answer.iter_lines():
        if line.startswith("data:") and "text" in line:
            return str(json.loads(line[5:])["text"])
    return ""


@needs_ssh
def test_ssh_enters_by_the_service_of_the_chart(
    release: Release, guest: Guest, row: dict[str, Any], tmp_path: Path
) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = {"public_key": key.with_suffix(".pub").read_text(), "name": f"doors-{uuid4().hex[:4]}"}
    made = guest.ask("POST", "/api/v1/me/ssh-keys", json=public)
    assert made.status_code == httpx.codes.CREATED, made.text
    host, _, port = release.address("berth-ssh").rpartition(":")
    entered = subprocess.run(
        ["ssh", *SSH, "-i", str(key), "-p", port, f"{row['id']}@{host}", "echo $((40+2)); exit 6"],
        capture_output=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (entered.returncode, entered.stdout) == (6, b"42\n"), entered.stderr
