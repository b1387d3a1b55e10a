"""The ways into a pod as people have them: terminal, files and SSH of the gate, and kubectl."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.cluster.visitors import Person, until
from tests.support.clustered import KEY, ClusteredPortal, ok

SSH = [
    "-F",
    "/dev/null",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "IdentitiesOnly=yes",
    "-o",
    "IdentityAgent=none",
    "-o",
    "BatchMode=yes",
    "-o",
    "LogLevel=ERROR",
]


def register(person: Person, folder: Path) -> Path:
    file = folder / person.name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    public = file.with_suffix(".pub").read_text()
    ok(person.api.post("me/ssh-keys", json={"public_key": public, "name": "test"}))
    return file


def gate_url(portal: ClusteredPortal) -> str:
    return f"http://localhost:{portal.port + 4}"


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=30).status_code == 200
    return False


def cookies(person: Person) -> dict[str, str]:
    return {c.name: str(c.value) for c in person.http.cookies.jar if "session" in c.name}


def terminal(
    person: Person,
    row: dict[str, Any],
    query: str = "cols=100&rows=30",
    *,
    page: str = "",
    way: str = "terminal",
) -> ClientConnection:
    """With a ticket of the portal's page; ``page``: where its script is from, else the portal's own.

    ``way``: or ``exec``, whose query is the command.
    """
    query = f"{query}&ticket={ticket(person, row['id'])}"
    return connect(
        f"ws://localhost:{person.portal.port + 4}/gate/{way}/{row['id']}?{query}",
        origin=Origin(page or person.portal.url),
        compression=None,
        proxy=None,
        max_size=None,
        open_timeout=60,
        close_timeout=2,  # what nobody reads can't be closed in order
        ping_interval=None,
    )


def told(ws: ClientConnection, within_s: float = 60) -> dict[str, Any]:
    while True:
        message = ws.recv(timeout=within_s)
        if isinstance(message, str):
            return dict(json.loads(message))


def screen(ws: ClientConnection, until_: bytes, within_s: float = 60) -> bytes:
    seen, deadline = b"", time.monotonic() + within_s
    while until_ not in seen:
        assert time.monotonic() < deadline, seen[-1000:]
        with contextlib.suppress(TimeoutError):
            message = ws.recv(timeout=1)
            if isinstance(message, bytes):
                seen += message
    return seen


def is_sized(ws: ClientConnection, size: str) -> None:
    """The shell itself says when it has that size: it comes beside what is typed."""
    look = f'until [ "$(stty size)" = "{size}" ]; do sleep 0.2; done; echo sized-$((40+2))\r'
    ws.send(look.encode())
    screen(ws, b"sized-42")


def enter(person: Person, row: dict[str, Any]) -> None:
    """Open a terminal, and get an answer in it."""
    with terminal(person, row) as mine:
        told(mine)
        mine.send(b"echo fast-$((1+1))\r")
        screen(mine, b"fast-2")


def ticket(person: Person, name: str) -> str:
    """What lets a page of theirs through the gate to this workspace or volume, for a minute."""
    asked = httpx.get(
        f"{person.portal.url}/tickets/any/{name}",
        cookies=cookies(person),
        headers={"Accept": "application/json"},
        timeout=120,
    )
    return str(asked.json()["ticket"])


class WithTickets(httpx.Auth):
    """As the scripts of pages do it: each request to the gate bears a ticket."""

    def __init__(self, person: Person) -> None:
        self.person = person

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        name = request.url.path.split("/")[3]
        request.url = request.url.copy_add_param("ticket", ticket(self.person, name))
        yield request


def files(person: Person) -> httpx.Client:
    headers = {"Origin": person.portal.url}
    return httpx.Client(
        base_url=gate_url(person.portal), headers=headers, auth=WithTickets(person), timeout=120
    )


def ssh(
    person: Person, key: Path, row: dict[str, Any], *words: str, extra: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    port = str(person.portal.port + 5)
    command = ["ssh", *SSH, "-i", str(key), "-p", port, *extra, f"{row['id']}@localhost", *words]
    return subprocess.run(
        command, capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )


class Kubectl:
    """kubectl with a file that its owner downloaded, with a token in it."""

    def __init__(self, person: Person, folder: Path) -> None:
        self.program = person.portal.state["programs"]["kubectl"]
        base = "projects/demo/kubeconfigs"
        made = ok(person.api.post(base, json={"cluster": KEY, "kind": "token", "hours": 1})).json()

        def download() -> Any:
            answer = person.api.post(f"{base}/{made['id']}/file")
            return None if answer.status_code == 409 else ok(answer)  # 409: rights are being made

        self.file = folder / f"{person.name}.kubeconfig"
        self.file.touch(mode=0o600)
        self.file.write_text(until(download).json()["kubeconfig"])

    def command(self, *words: str) -> tuple[list[str], dict[str, str]]:
        return [self.program, *words], {**os.environ, "KUBECONFIG": str(self.file)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command, env = self.command(*words)
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    def inside(self, row: dict[str, Any], script: str) -> subprocess.CompletedProcess[str]:
        return self.run("exec", f"ws-{row['id']}-0", "--", "sh", "-c", script)


needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")
