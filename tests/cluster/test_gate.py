"""Terminal, files, logs and SSH of a real pod, through the gate that ``berth up`` started."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from websockets.exceptions import ConnectionClosed

from benchmarks.lib import timed
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.cluster.ways import (
    SSH,
    answers,
    cookies,
    enter,
    files,
    gate_url,
    is_sized,
    needs_ssh,
    register,
    screen,
    ssh,
    terminal,
    told,
)
from tests.support.chromium import browser as open_browser
from tests.support.chromium import executable
from tests.support.clustered import ClusteredPortal, ok
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(900),
]
SFTP = Path("/usr/lib/openssh/sftp-server")


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "gate", {"BERTH_GATE_STREAMS_PER_USER": "200"}) as running:
        try:
            until(lambda: answers(f"{gate_url(running)}/livez"), 180)
        except AssertionError:
            log = running.var / "log" / "gate.log"
            pytest.fail(f"{running.tail()}\n{log.read_text() if log.exists() else 'no gate.log'}")
        yield running


@pytest.fixture(scope="module")
def row(ann: Person) -> dict[str, Any]:
    """One running workspace of ann for all tests here."""
    return ann.launch(env={"GREETING": "good morning"})


@pytest.fixture(scope="module")
def key(ann: Person, tmp_path_factory: Any) -> Path:
    return register(ann, tmp_path_factory.mktemp("keys"))


def test_status_names_the_gate(portal: ClusteredPortal) -> None:
    command = [sys.executable, "-m", "portal.server", "status"]
    done = subprocess.run(command, env=portal.env, capture_output=True, text=True, check=False)
    assert "The gate to clusters runs" in done.stdout


def test_a_terminal_shows_takes_sizes_and_ends(ann: Person, row: dict[str, Any]) -> None:
    with terminal(ann, row) as ws:
        assert told(ws)["type"] == "ready"
        ws.send(b"id -u; echo $GREETING-$((40+2))\r")
        seen = screen(ws, b"good morning-42")
        assert b"1000" in seen
        is_sized(ws, "30 100")
        ws.send(json.dumps({"type": "resize", "cols": 91, "rows": 27}))
        is_sized(ws, "27 91")
        ws.send(b"exit 9\r")
        ended = told(ws)
        assert (ended["type"], ended["code"]) == ("ended", 9)


def test_others_get_no_terminal(ben: Person, row: dict[str, Any]) -> None:
    with terminal(ben, row) as ws:
        assert told(ws)["code"] == "forbidden"
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=60)


def test_fifty_mebibytes_go_there_and_back(ann: Person, row: dict[str, Any]) -> None:
    data, folder = os.urandom(50 * 2**20), f"folder {secrets.token_hex(4)}"
    base, there = f"/gate/files/{row['id']}", {"path": f"{folder}/big.bin"}
    with files(ann) as http:
        put = http.put(f"{base}/upload", params=there, content=data)
        assert put.status_code == 404  # no such folder yet
        ok(http.post(f"{base}/act", json={"act": "mkdir", "path": folder}))
        put = ok(http.put(f"{base}/upload", params=there, content=data))
        (entry,) = ok(http.get(f"{base}/list", params={"path": folder})).json()["entries"]
        assert (entry["name"], entry["size"]) == ("big.bin", len(data))
        got = ok(http.get(f"{base}/download", params={"path": entry["path"]})).content
        assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
        assert len(ok(http.get(f"{base}/archive", params={"path": folder})).content) > len(data)
        ok(http.post(f"{base}/act", json={"act": "delete", "path": folder}))
        names = [e["name"] for e in ok(http.get(f"{base}/list")).json()["entries"]]
        assert folder not in names


# What a shell sets by itself.
SHELLS = {"_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLORTERM"}


def variables(raw: bytes) -> dict[str, str]:
    pairs = (item.decode().partition("=") for item in raw.split(b"\0") if item)
    return {name: value for name, _sep, value in pairs if name not in SHELLS}


@needs_ssh
def test_ssh_has_the_environment_of_the_main_process(
    ann: Person, row: dict[str, Any], key: Path
) -> None:
    mine = ssh(ann, key, row, "env -0")
    assert mine.returncode == 0, mine.stderr
    main = ssh(ann, key, row, "cat /proc/1/environ")
    expected = variables(main.stdout)
    assert expected["GREETING"] == "good morning"
    assert variables(mine.stdout) == expected


@needs_ssh
def test_ssh_gives_exit_codes(ann: Person, row: dict[str, Any], key: Path) -> None:
    assert ssh(ann, key, row, "exit 42").returncode == 42
    assert ssh(ann, key, row, "kill -9 $$").returncode != 0


@needs_ssh
def test_scp_carries_files_by_the_containers_own_sftp_server(
    ann: Person, row: dict[str, Any], key: Path, tmp_path: Path
) -> None:
    port = str(ann.portal.port + 5)
    base = ["scp", *SSH, "-q", "-i", str(key), "-P", port]
    data, there, back = os.urandom(5 * 2**20), tmp_path / "up", tmp_path / "down"
    there.write_bytes(data)
    up = [*base, str(there), f"{row['id']}@localhost:x.bin"]
    ssh(ann, key, row, "rm -f ~/.local/bin/sftp-server")  # of an earlier try
    if ssh(ann, key, row, "test -x /usr/lib/openssh/sftp-server").returncode:
        refused = subprocess.run(up, check=False, timeout=180, capture_output=True)
        assert refused.returncode
        assert b"openssh-sftp-server" in refused.stderr
        if not SFTP.exists():
            pytest.skip("neither the image nor this machine has an sftp-server")
        ssh(ann, key, row, "mkdir -p ~/.local/bin")
        with files(ann) as http:
            put = {"path": ".local/bin/sftp-server"}
            ok(http.put(f"/gate/files/{row['id']}/upload", params=put, content=SFTP.read_bytes()))
        assert ssh(ann, key, row, "chmod +x ~/.local/bin/sftp-server").returncode == 0
    subprocess.run(up, check=True, timeout=180, capture_output=True)
    down = [*base, f"{row['id']}@localhost:x.bin", str(back)]
    subprocess.run(down, check=True, timeout=180, capture_output=True)
    assert back.read_bytes() == data
    assert ssh(ann, key, row, "rm x.bin").returncode == 0


@needs_ssh
def test_ssh_reaches_ports_of_the_pod_and_nothing_else(
    ann: Person, row: dict[str, Any], key: Path
) -> None:
    here = free_port()
    command = ["ssh", *SSH, "-i", str(key), "-p", str(ann.portal.port + 5), "-N"]
    command += ["-L", f"127.0.0.1:{here}:localhost:8888", f"{row['id']}@localhost"]
    forwarding = subprocess.Popen(command)
    try:
        path = httpx.URL(row["status"]["url"]).path
        until(lambda: answered(f"http://127.0.0.1:{here}{path}api"), 120)
    finally:
        forwarding.terminate()
        forwarding.wait(60)
    outside = ssh(ann, key, row, extra=("-W", "10.244.0.1:6443"))
    assert outside.returncode == 255


def answered(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=30).status_code in {200, 403}
    return False


@needs_ssh
def test_a3_a_visitor_who_is_let_out_is_cut_within_a_minute(
    ann: Person, ben: Person, row: dict[str, Any], tmp_path: Path
) -> None:
    theirs = register(ben, tmp_path)
    assert ssh(ben, theirs, row, "true").returncode == 255
    shares = f"{BASE}/{row['id']}/shares"
    ok(ann.api.post(shares, json={"username": "ben"}))
    command = ["ssh", *SSH, "-i", str(theirs), "-p", str(ben.portal.port + 5)]
    entered = subprocess.Popen(
        [*command, f"{row['id']}@localhost", "echo in; sleep 600"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(entered.kill)
        stack.callback(ann.api.delete, f"{shares}/ben")  # whatever fails: he begins outside
        ws = stack.enter_context(terminal(ben, row))
        told(ws)
        assert entered.stdout is not None
        assert entered.stdout.readline() == b"in\n"
        ok(ann.api.delete(f"{shares}/ben"))
        began = time.monotonic()
        assert told(ws)["code"] == "forbidden"
        assert entered.wait(60) == 255
        assert time.monotonic() - began < 60


def test_the_log_is_followed(ann: Person, row: dict[str, Any]) -> None:
    with files(ann) as http, http.stream("GET", f"/gate/logs/{row['id']}") as answer:
        for line in answer.iter_lines():
            if line.startswith("data:") and "text" in line:
                assert json.loads(line[5:])["text"]
                return
    pytest.fail("nothing was told")


def test_the_page_shows_objects_without_secrets(
    ann: Person, ben: Person, row: dict[str, Any]
) -> None:
    page = ann.open(f"{ann.portal.url}/projects/demo/workspaces/{row['id']}/cluster/").text
    assert "kind: StatefulSet" in page
    assert "kind: Pod" in page
    assert "managedFields" not in page
    theirs = ben.open(f"{ben.portal.url}/projects/demo/workspaces/{row['id']}/cluster/").text
    assert "kind: StatefulSet" in theirs
    assert "good morning" not in theirs


@pytest.fixture
def neighbour(ben: Person) -> Iterator[dict[str, Any]]:
    """A workspace of somebody else in a pod of its own."""
    row = ben.launch(cpu_milli=500, memory_mib=512)
    yield row
    ok(ben.api.delete(f"{BASE}/{row['id']}"))


@pytest.mark.long("a flood of readers; one that does not read: gate/test_streams.py")
def test_f4_readers_that_do_not_read_hurt_nobody(
    ann: Person, ben: Person, row: dict[str, Any], neighbour: dict[str, Any]
) -> None:
    """Forty terminals full of output that nobody takes.

    Somebody else's terminal is asked: in the flooded pod itself the forty programs take turns on
    that pod's own processors until each is stopped by its reader, whatever the gate does.
    """
    number = gate_process(ann.portal)
    before = memory_mib(number)
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            ws = stack.enter_context(terminal(ann, row))
            stack.callback(ws.socket.close)
            ws.send(b"yes 0123456789 | head -c 20000000\r")
        time.sleep(5)
        lives = best(lambda: ok(httpx.get(f"{gate_url(ann.portal)}/livez", timeout=60)))
        took = best(lambda: enter(ben, neighbour))
        held = unread_mib(ann.portal)
        grown = memory_mib(number) - before
    assert grown < 100, grown
    assert held < 40, held  # in the kernel: less than a mebibyte for each
    assert lives < 5, lives
    assert took < 15, took
    until(lambda: streams_open(ann.portal) == 0)


def best(act: Callable[[], Any]) -> float:
    """How long the quickest of three took: the machine may stand still during one."""
    return min(timed(act) for _ in range(3))


def unread_mib(portal: ClusteredPortal) -> float:
    """What the gate's sockets hold for readers that do not read."""
    port = f":{portal.port + 4:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(r[4].split(":")[0], 16) for r in rows if r[1].endswith(port)) / 2**20


def gate_process(portal: ClusteredPortal) -> int:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            variables_ = (entry / "environ").read_bytes()
            if b"gate" in words and f"BERTH_VAR={portal.var}".encode() in variables_:
                return int(entry.name)
    raise AssertionError("no gate runs")


def memory_mib(number: int) -> float:
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    line = next(one for one in lines if "VmRSS" in one)
    return int(line.split()[1]) / 1024


def streams_open(portal: ClusteredPortal) -> float:
    token = json.loads((Path(portal.var) / "secrets.json").read_text())["BERTH_METRICS_TOKEN"]
    given = {"authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{portal.port + 6}/metrics"
    text = httpx.get(url, headers=given, timeout=60).text
    lines = [one for one in text.splitlines() if one.startswith("berth_gate_streams{")]
    return sum(float(one.rsplit(" ", 1)[1]) for one in lines)


def berth(person: Person, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("BERTH_")},
        "PYTHONPATH": str(Path("cli").resolve()),
        "BERTH_URL": person.portal.url,
        "BERTH_TOKEN": person.portal.token(person.name),
        "BERTH_PROJECT": "demo",
        "BERTH_CONFIG": str(person.portal.var / "client" / "config.json"),
    }
    command = [sys.executable, "-m", "berth_cli", "workspace", *words]
    return subprocess.run(
        command, env=env, input=given, capture_output=True, timeout=180, check=False
    )


def test_the_command_line_runs_commands_and_carries_files(
    ann: Person, row: dict[str, Any], tmp_path: Path
) -> None:
    ran = berth(ann, "exec", row["id"], "sh", "-c", "cat; echo $GREETING; exit 6", given=b"in ")
    assert (ran.returncode, ran.stdout) == (6, b"in good morning\n"), ran.stderr
    data, there, back = os.urandom(3 * 2**20), tmp_path / "up.bin", tmp_path / "down.bin"
    there.write_bytes(data)
    name = f"a {secrets.token_hex(4)}.bin"
    done = berth(ann, "files", "cp", str(there), f"{row['id']}:{name}")
    assert done.returncode == 0, done.stderr
    assert name.encode() in berth(ann, "files", "ls", row["id"]).stdout
    done = berth(ann, "files", "cp", f"{row['id']}:{name}", str(back))
    assert done.returncode == 0, done.stderr
    assert back.read_bytes() == data


@needs_ssh
def test_the_command_line_enters_by_the_key_that_is_named(ann: Person, row: Any, key: Path) -> None:
    ran = berth(ann, "ssh", row["id"], *SSH, "-i", str(key), "echo $GREETING; exit 5")
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, b"good morning\n", b"")
    assert "ssh-ed25519" in (ann.portal.var / "client" / "known_hosts").read_text()


@pytest.mark.browser
@pytest.mark.skipif(executable() is None, reason="no Chromium on this machine")
@pytest.mark.long("the pages in a browser: browser/test_workspace_pages.py")
def test_the_pages_work_in_a_browser_under_the_strict_policy(
    ann: Person, row: dict[str, Any]
) -> None:
    with open_browser() as chromium:
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        mine = cookies(ann).items()
        context.add_cookies([{"name": n, "value": v, "url": ann.portal.url} for n, v in mine])
        page = context.new_page()
        problems: list[str] = []
        page.on(
            "console",
            lambda m: problems.append(f"{m.text} {m.location}") if m.type == "error" else None,
        )
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.goto(f"{ann.portal.url}/projects/demo/workspaces/{row['id']}/terminal/")
        expect(page.locator("#terminal-state")).to_have_text("Connected", timeout=60_000)
        coloured = "printf '\\033[38;2;10;200;30mcolour\\033[0m\\n'"
        page.keyboard.type(f"{coloured}; echo $((40+2))-there\n")
        expect(page.locator(".xterm-rows")).to_contain_text("42-there", timeout=60_000)
        page.keyboard.press("Shift+Escape")
        expect(page.locator("#terminal-copy")).to_be_focused(timeout=60_000)
        page.goto(f"{ann.portal.url}/projects/demo/workspaces/{row['id']}/files/")
        name = f"from a browser {secrets.token_hex(4)}.txt"  # one that is there is asked about
        with page.expect_response("**/upload*"):
            page.set_input_files(
                "#files-upload", {"name": name, "mimeType": "text/plain", "buffer": b"hello"}
            )
        page.wait_for_selector(f"text={name}")
        with page.expect_download() as loading:
            page.click(f"tr:has-text('{name}') >> text=Download")
        assert Path(loading.value.path()).read_bytes() == b"hello"
        page.goto(f"{ann.portal.url}/projects/demo/workspaces/{row['id']}/logs/")
        expect(page.locator("#log-state")).to_have_text("Following", timeout=60_000)
        expect(page.locator("#log")).to_contain_text("upyter", timeout=60_000)
        assert problems == []


@needs_ssh
def test_a_stopped_workspace_lets_nobody_in_and_says_so(
    ann: Person, row: dict[str, Any], key: Path
) -> None:
    with terminal(ann, row) as ws:
        told(ws)
        ann.act(row, "stop", "stopped")
        assert told(ws)["type"] in {"error", "ended"}
    refused = ssh(ann, key, row, "true")
    assert refused.returncode == 255
    assert b"does not run" in refused.stderr
