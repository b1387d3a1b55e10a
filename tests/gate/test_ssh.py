"""SSH through the gate, asked by the OpenSSH client."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from gate.ssh import server
from gate.ssh.server import SshServer
from gate.ssh.session import command_of
from tests.gate.conftest import PATIENCE_S, Running, until
from tests.gate.fake_kube import FakeKube

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")

SFTP = Path("/usr/lib/openssh/sftp-server").exists()
OPTIONS = [
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


@pytest.fixture
async def ssh(gate: Running, settings: Any, tmp_path: Path) -> AsyncIterator[SshServer]:
    settings.BERTH_SSH_HOST_KEY_FILE = str(tmp_path / "ssh" / "host_key")
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    server = await SshServer(gate.gate).start(one)
    yield server
    await server.stop()


@pytest.fixture
def key_of(tmp_path: Path) -> Callable[[Any], Any]:
    """Make a key and register it for somebody; return the private file."""

    async def make(user: Any, name: str = "key") -> Path:
        from accounts.principal import Principal
        from accounts.services.tokens import ssh_key_add

        file = tmp_path / f"{name}-{user.username}"
        done = await asyncio.create_subprocess_exec(
            "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)
        )
        assert await done.wait() == 0
        public = file.with_suffix(".pub").read_text()
        await sync_to_async(ssh_key_add)(who=Principal(user=user), public_key=public)
        return file

    return make


async def start(
    server: SshServer, key: Path, who: str, *words: str, extra: tuple[str, ...] = ()
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "ssh",
        *OPTIONS,
        *("-i", str(key), "-p", str(server.port), *extra, f"{who}@127.0.0.1"),
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(
    server: SshServer,
    key: Path,
    who: str,
    *words: str,
    given: bytes = b"",
    extra: tuple[str, ...] = (),
) -> tuple[int, bytes, bytes]:
    process = await start(server, key, who, *words, extra=extra)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, out, err


async def test_a_command_runs_with_output_errors_and_exit_code(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any
) -> None:
    key = await key_of(alice)
    command = "echo main=$BERTH_MAIN; pwd; echo oops >&2; exit 7"
    code, out, err = await run(ssh, key, workspace.short_id, command)
    assert code == 7, err
    assert out.decode().splitlines()[0] == "main=yes"
    assert out.decode().splitlines()[1].endswith("/home")
    assert err == b"oops\n"


async def test_input_and_large_output_arrive_whole(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any
) -> None:
    key = await key_of(alice)
    data = b"0123456789" * 500_000
    code, out, _err = await run(ssh, key, workspace.short_id, "cat", given=data)
    assert (code, out) == (0, data)


async def test_a_terminal_is_one(ssh: SshServer, workspace: Any, alice: Any, key_of: Any) -> None:
    key = await key_of(alice)
    extra = ("-tt",)
    given = b"test -t 0 && echo is-a-tty; exit 3\n"
    code, out, _err = await run(ssh, key, workspace.short_id, given=given, extra=extra)
    assert code == 3
    assert b"is-a-tty\r\n" in out


async def test_strangers_keys_and_names_open_nothing(
    ssh: SshServer, workspace: Any, alice: Any, bob: Any, charlie: Any, key_of: Any
) -> None:
    mine = await key_of(alice)
    for user in (bob, charlie):
        code, _out, err = await run(ssh, await key_of(user), workspace.short_id, "id")
        assert code == 255
        assert b"Permission denied" in err
    for name in ("nothere", "root", "x" * 100, "a-b"):
        code, _out, err = await run(ssh, mine, name, "id")
        assert code == 255
        assert b"Permission denied" in err


async def test_a_visitor_may_come_until_he_is_let_out(
    ssh: SshServer, workspace: Any, bob: Any, key_of: Any, gate: Running
) -> None:
    """A3."""
    from work.models import Share

    share = await sync_to_async(Share.objects.create)(workload=workspace, user=bob)
    key = await key_of(bob)
    visit = await start(ssh, key, workspace.short_id, "echo in; sleep 600")
    assert visit.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert await visit.stdout.readline() == b"in\n"
        await counted(gate, 1)
        await sync_to_async(share.delete)()
        out, err = await visit.communicate()
    assert (visit.returncode, out) == (255, b"")
    assert b"berth: Only its owner" in err


async def test_a_removed_key_is_cut(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any, gate: Running
) -> None:
    key = await key_of(alice)
    running = asyncio.create_task(run(ssh, key, workspace.short_id, "sleep 600"))
    await counted(gate, 1)
    await sync_to_async(alice.ssh_keys.all().delete)()
    code, _out, err = await running
    assert code == 255
    assert b"key was removed" in err


async def test_a_stopped_workspace_is_a_sentence_and_a_code(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any
) -> None:
    workspace.phase = "stopped"
    await sync_to_async(workspace.save)()
    code, _out, err = await run(ssh, await key_of(alice), workspace.short_id, "id")
    assert code == 255
    assert b"does not run" in err


async def test_local_ports_are_reached_and_no_others(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any
) -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    key = await key_of(alice)
    there = ("-W", f"localhost:{port}")
    _code, out, err = await run(ssh, key, workspace.short_id, given=b"you\n", extra=there)
    assert out == b"hello you\n", err
    assert await sync_to_async(forwards)() == [{"by": "ssh", "port": port}]
    for elsewhere in ("10.0.0.1:80", "169.254.169.254:80", "example.org:443"):
        extra = ("-W", elsewhere)
        code, out, err = await run(ssh, key, workspace.short_id, extra=extra)
        assert (code, out) == (255, b"")
        assert b"forwarding failed" in err
    server.close()


async def test_a_way_whose_client_is_gone_is_counted_no_more(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any, gate: Running
) -> None:
    """The pod's side never ends by itself here: a web server that keeps its connections."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    there = ("-W", f"localhost:{server.sockets[0].getsockname()[1]}")
    client = await start(ssh, await key_of(alice), workspace.short_id, extra=there)
    await counted(gate, 1)
    client.terminate()
    await client.wait()
    await counted(gate, 0)
    server.close()


async def counted(gate: Running, number: int) -> None:
    await until(lambda: len(gate.gate.guard.streams) == number)


def forwards() -> list[Any]:
    from events.models import Event

    rows = Event.objects.filter(verb="workspace.forward-opened")
    return list(rows.values_list("data", flat=True))


async def test_sftp_carries_files(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any, kube: FakeKube, tmp_path: Path
) -> None:
    if not SFTP:
        code, _out, err = await run(ssh, await key_of(alice), workspace.short_id, "-s", "sftp")
        assert code == 127
        assert b"openssh-sftp-server" in err
        return
    key, file = await key_of(alice), tmp_path / "up.bin"
    file.write_bytes(b"x" * 3_000_000)
    done = await asyncio.create_subprocess_exec(
        "scp",
        *OPTIONS,
        *("-q", "-i", str(key), "-P", str(ssh.port)),
        str(file),
        f"{workspace.short_id}@127.0.0.1:there.bin",
    )
    assert await done.wait() == 0
    assert (kube.home / "there.bin").read_bytes() == file.read_bytes()


async def test_entering_is_an_event_and_refusals_too(
    ssh: SshServer, workspace: Any, alice: Any, charlie: Any, key_of: Any
) -> None:
    from events.models import Event

    await run(ssh, await key_of(alice), workspace.short_id, "true")
    await run(ssh, await key_of(charlie), workspace.short_id, "true")
    verbs = sync_to_async(lambda: set(Event.objects.values_list("verb", flat=True)))
    async with asyncio.timeout(PATIENCE_S):  # a refusal is written beside the connection
        while not {"workspace.ssh-opened", "ssh.denied"} <= await verbs():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def hold_open(server: SshServer, key: Path, who: str) -> asyncio.subprocess.Process:
    """Sign in and ask for nothing, as ``ssh -N`` does; returns when the gate knows of it."""
    before = len([one for one in server.entrances if one.caller])
    process = await asyncio.create_subprocess_exec(
        "ssh",
        *OPTIONS,
        *("-N", "-i", str(key), "-p", str(server.port), f"{who}@127.0.0.1"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: len([one for one in server.entrances if one.caller]) > before)
    return process


async def test_f2_one_person_holds_a_bounded_number_of_connections(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any, settings: Any
) -> None:
    settings.BERTH_SSH_CONNECTIONS_PER_USER = 1
    key = await key_of(alice)
    held = await hold_open(ssh, key, workspace.short_id)
    code, _out, err = await run(ssh, key, workspace.short_id, "true", extra=("-oLogLevel=INFO",))
    assert code == 255
    assert b"too many SSH connections" in err
    held.terminate()
    await held.wait()
    await until(lambda: not [one for one in ssh.entrances if one.caller])
    assert (await run(ssh, key, workspace.short_id, "true"))[0] == 0


async def test_a_connection_with_nothing_in_it_ends_and_one_that_waits_does_not(
    gate: Running, ssh: SshServer, workspace: Any, alice: Any, key_of: Any, kube: FakeKube
) -> None:
    key = await key_of(alice)
    idle = await hold_open(ssh, key, workspace.short_id)
    command = "until [ -e ~/go ]; do sleep 0.05; done; echo over"
    waiting = asyncio.create_task(run(ssh, key, workspace.short_id, command))
    await until(lambda: gate.gate.guard.streams)
    await ssh._end_empty()
    assert idle.returncode is None
    for one in ssh.entrances:
        one._empty_since -= 5 * 3600
    await ssh._end_empty()
    async with asyncio.timeout(PATIENCE_S):
        assert await idle.wait() == 255
    (kube.home / "go").touch()
    assert (await waiting)[:2] == (0, b"over\n")


async def test_a3_a_connection_with_nothing_in_it_ends_with_its_key(
    ssh: SshServer, workspace: Any, alice: Any, key_of: Any
) -> None:
    idle = await hold_open(ssh, await key_of(alice), workspace.short_id)
    await sync_to_async(alice.ssh_keys.all().delete)()
    await ssh._end_empty()
    async with asyncio.timeout(PATIENCE_S):
        assert await idle.wait() == 255


async def test_f2_an_address_that_guesses_must_wait(
    ssh: SshServer, workspace: Any, alice: Any, charlie: Any, key_of: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(server, "FAILURES", 3)
    stranger, mine = await key_of(charlie), await key_of(alice)
    for _ in range(3):
        assert (await run(ssh, stranger, workspace.short_id, "id"))[0] == 255
    code, _out, err = await run(ssh, mine, workspace.short_id, "echo in")
    assert code == 255
    assert b"Permission denied" not in err


async def test_the_host_key_stays(ssh: SshServer, tmp_path: Path) -> None:
    from gate.ssh.server import host_key

    path = tmp_path / "ssh" / "host_key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert host_key(path).get_fingerprint() == host_key(path).get_fingerprint()


def test_what_is_run() -> None:
    assert command_of(None, "x11", "") is None
    shell = command_of(None, None, "xterm")
    assert shell is not None
    assert shell[-1] == "xterm"
    assert command_of("rm -rf '$x'", None, "")[-1] == "rm -rf '$x'"  # type: ignore[index]
