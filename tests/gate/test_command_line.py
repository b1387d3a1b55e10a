"""``berth workspace …`` of a process of its own, through a listening portal and a gate."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
import termios
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.gate.conftest import PATIENCE_S, Running, until
from tests.gate.fake_kube import FakeKube

pytestmark = pytest.mark.real  # processes of the command line
CLIENT = Path(__file__).resolve().parents[2] / "cli"


@dataclass
class Berth:
    """The command line as somebody runs it."""

    env: dict[str, str]

    async def start(self, *words: str, **streams: Any) -> asyncio.subprocess.Process:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        command = [sys.executable, "-m", "berth_cli", "workspace", *words]
        return await asyncio.create_subprocess_exec(*command, env=self.env, **pipes | streams)

    async def run(self, *words: str, given: bytes = b"") -> tuple[int | None, bytes, bytes]:
        process = await self.start(*words)
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate(given)
        return process.returncode, out, err


Of = Callable[[Any], Awaitable[Berth]]


@pytest.fixture
def berth(live_server: Any, gate: Running, settings: Any, tmp_path: Path, principal: Any) -> Of:
    settings.BERTH_GATE_URL = gate.url

    async def of(user: Any) -> Berth:
        from accounts.services.tokens import token_create

        _row, secret = await sync_to_async(token_create)(who=principal(user), name="cli")
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CLIENT),
            "TERM": "xterm",
            "BERTH_URL": live_server.url,
            "BERTH_PROJECT": "vision",
            "BERTH_TOKEN": secret,
            "BERTH_CONFIG": str(tmp_path / "own files" / "config.json"),
        }
        return Berth(env)

    return of


# --- exec --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [("-h",), ("-lat",), ("--tty", "-p", "x"), ("a", "--", "-b"), ("--help",), ("-o", "json")],
)
async def test_the_options_of_a_command_are_its_own(
    berth: Of, workspace: Any, alice: Any, words: tuple[str, ...]
) -> None:
    command = ("printf", "[%s]", *words)
    code, out, err = await (await berth(alice)).run("exec", workspace.short_id, *command)
    assert (code, err) == (0, b"")
    assert out.decode() == "".join(f"[{word}]" for word in words)


async def test_a_command_may_stand_behind_two_dashes(berth: Of, workspace: Any, alice: Any) -> None:
    client = await berth(alice)
    code, out, _err = await client.run("exec", workspace.short_id, "--", "echo", "-n", "--", "x")
    assert (code, out) == (0, b"-- x")
    nothing = await client.run("exec", workspace.short_id, "--")
    assert nothing[0] == 2


async def test_options_of_berth_stand_before_the_name(
    berth: Of, workspace: Any, alice: Any
) -> None:
    client = await berth(alice)
    code, out, err = await client.run("exec", "-t", workspace.short_id, "tty")
    assert (code, b"not a tty" in out) == (0, False), (out, err)
    elsewhere = await client.run("exec", "-p", "nowhere", workspace.short_id, "true")
    assert elsewhere[0] == 4


async def test_input_of_every_kind_arrives_whole(
    berth: Of, workspace: Any, alice: Any, tmp_path: Path
) -> None:
    client = await berth(alice)
    data = b"0123456789" * 60_000
    assert await client.run("exec", workspace.short_id, "cat", given=data) == (0, data, b"")
    file = tmp_path / "input"
    for content in (data, b""):
        file.write_bytes(content)
        with file.open("rb") as opened:
            process = await client.start("exec", workspace.short_id, "cat", stdin=opened)
            async with asyncio.timeout(PATIENCE_S):
                out, _err = await process.communicate()
        assert (process.returncode, out) == (0, content)
    left = await client.run("exec", workspace.short_id, "head", "-c1", given=data)
    assert (left[:2], left[2]) == ((0, b"0"), b"")


async def test_a_terminal_without_a_keyboard_ends_with_its_input(
    berth: Of, workspace: Any, alice: Any
) -> None:
    client = await berth(alice)
    script = b"cd /; pwd; echo $BERTH_MAIN\nexit 5\n"
    assert await client.run("terminal", workspace.short_id, given=script) == (5, b"/\nyes\n", b"")
    assert await client.run("terminal", workspace.short_id) == (0, b"", b"")
    nothing = asyncio.subprocess.DEVNULL
    process = await client.start("terminal", workspace.short_id, stdin=nothing)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert (process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize(
    ("program", "given", "code"),
    [("cat", b"", 0), ("cat", b"half a line", 0), ("sh", b"exit 5\n", 5)],
)
async def test_a_command_with_a_terminal_ends_with_the_input_that_is_piped_in(
    berth: Of, workspace: Any, alice: Any, program: str, given: bytes, code: int
) -> None:
    client = await berth(alice)
    ended, out, err = await client.run("exec", "-t", workspace.short_id, program, given=given)
    assert (ended, err) == (code, b"")
    assert given.strip() in out


async def test_standard_input_may_be_closed(berth: Of, workspace: Any, alice: Any) -> None:
    client = await berth(alice)
    for words in (("terminal", workspace.short_id), ("exec", "-t", workspace.short_id, "true")):
        process = await client.start(*words, preexec_fn=lambda: os.close(0))
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate()
        assert (process.returncode, err) == (0, b""), (words, out)


async def test_a_command_whose_output_nobody_reads_any_more_ends_in_silence(
    berth: Of, workspace: Any, alice: Any
) -> None:
    ours, theirs = os.pipe()
    process = await (await berth(alice)).start("exec", workspace.short_id, "yes", stdout=theirs)
    os.close(theirs)
    loop = asyncio.get_running_loop()
    assert (await loop.run_in_executor(None, os.read, ours, 2)) == b"y\n"
    os.close(ours)
    assert await ended(process) == 1
    assert process.stderr is not None
    assert await process.stderr.read() == b""


# --- at a keyboard -----------------------------------------------------------------------------


@dataclass
class Keys:
    """The two ends of a pseudo-terminal."""

    ours: int
    theirs: int

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.theirs)[3] & termios.ICANON

    async def seen(self, wanted: bytes) -> None:
        """Wait until it is on the screen."""
        screen = b""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while wanted not in screen:
                screen += await loop.run_in_executor(None, os.read, self.ours, 4096)


@pytest.fixture
def keys() -> Any:
    ours, theirs = pty.openpty()
    yield Keys(ours, theirs)
    os.close(ours)
    os.close(theirs)


async def ended(process: asyncio.subprocess.Process) -> int | None:
    """Return its exit code; nobody presses a key meanwhile."""
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_terminal_ends_with_its_shell_and_no_key_more(
    berth: Of, workspace: Any, alice: Any, keys: Keys
) -> None:
    both = {"stdin": keys.theirs, "stdout": keys.theirs, "stderr": keys.theirs}
    process = await (await berth(alice)).start("terminal", workspace.short_id, **both)
    await until(keys.is_raw)  # what was typed before is thrown away, as by ssh
    os.write(keys.ours, b"echo up-$((40+2))\r")
    await keys.seen(b"up-42")
    os.write(keys.ours, b"exit 3\r")
    assert await ended(process) == 3
    assert not keys.is_raw()


async def test_a_command_ends_at_a_keyboard_that_is_not_touched(
    berth: Of, workspace: Any, alice: Any, keys: Keys
) -> None:
    client = await berth(alice)
    process = await client.start(
        "exec", workspace.short_id, "sh", "-c", "exit 4", stdin=keys.theirs
    )
    assert await ended(process) == 4


# --- what the gate says no to --------------------------------------------------------------------


async def test_a_no_of_the_gate_has_the_exit_code_that_help_promises(
    berth: Of, workspace: Any, alice: Any, bob: Any
) -> None:
    mine = await berth(alice)
    lost = await mine.run("files", "ls", f"{workspace.short_id}:nowhere")
    assert lost[0] == 4, lost
    refused = await (await berth(bob)).run("files", "ls", workspace.short_id)
    assert refused[0] == 4
    assert b"let in" in refused[2]
    long = await mine.run("exec", workspace.short_id, "echo", "x" * 5000)
    assert (long[0], b"too long" in long[2]) == (2, True), long
    workspace.phase = "stopped"
    await sync_to_async(workspace.save)(update_fields=["phase"])
    for words in (("files", "ls", workspace.short_id), ("exec", workspace.short_id, "true")):
        stopped = await mine.run(*words)
        assert (stopped[0], b"does not run" in stopped[2]) == (5, True), (words, stopped)


async def test_a_listing_is_a_table_or_json_and_says_when_it_is_cut(
    berth: Of, workspace: Any, alice: Any, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gate import scripts

    for name in ("a.txt", "b.txt", "c.txt"):
        (kube.home / name).write_text(name)
    client = await berth(alice)
    code, out, err = await client.run("files", "ls", workspace.short_id, "-o", "json")
    assert (code, err) == (0, b"")
    assert [(row["name"], row["size"]) for row in json.loads(out)] == [
        ("a.txt", 5),
        ("b.txt", 5),
        ("c.txt", 5),
    ]
    table = await client.run("files", "ls", workspace.short_id)
    assert table[1].split()[:4] == [b"NAME", b"KIND", b"SIZE", b"CHANGED"]
    assert b"a.txt" in table[1]
    monkeypatch.setattr(scripts, "MOST_ENTRIES", 2)
    cut = await client.run("files", "ls", workspace.short_id, "-o", "json")
    assert len(json.loads(cut[1])) == 2
    assert b"This is not all" in cut[2]
