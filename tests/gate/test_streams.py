"""The streams of a cluster, against a server that runs real commands."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.drivers.kubernetes.streams import Endpoint, KubeStreams, ended_of
from runtime.protocol import Unreachable
from runtime.streams import STDERR, STDOUT, Gone, Pod
from tests.gate.conftest import until
from tests.gate.fake_kube import FakeKube

POD = Pod("berth-a", "ws-abc-0")


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[FakeKube]:
    async with FakeKube(tmp_path) as one:
        yield one


@pytest.fixture
async def streams(kube: FakeKube) -> AsyncIterator[KubeStreams]:
    one = KubeStreams(Endpoint(kube.url))
    yield one
    await one.aclose()


async def run(
    streams: KubeStreams, command: list[str], given: bytes | None = None
) -> tuple[bytes, bytes, int | None]:
    async with await streams.exec(POD, command) as running:
        if given is not None:
            await running.write(given)
        await running.end_of_input()
        found = {STDOUT: b"", STDERR: b""}
        async for channel, data in running.output():
            found[channel] += data
    return found[STDOUT], found[STDERR], running.ended.code


async def test_output_errors_and_exit_code_come_back(streams: KubeStreams) -> None:
    said = await run(streams, ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
    assert said == (b"out\n", b"err\n", 3)


async def test_words_of_a_command_arrive_as_they_are(streams: KubeStreams) -> None:
    words = ["a b", "$(x)", "ü%&+#", "-n", ""]
    out, _err, code = await run(streams, ["printf", "%s|", *words])
    assert code == 0
    assert out.decode() == "".join(f"{w}|" for w in words)


async def test_the_end_of_input_is_told(streams: KubeStreams) -> None:
    given = b"x" * 300_000
    out, _err, code = await run(streams, ["cat"], given)
    assert (code, out) == (0, given)


async def test_a_terminal_has_the_size_that_was_set(streams: KubeStreams) -> None:
    async with await streams.exec(POD, ["sh", "-c", "read x; stty size"], tty=True) as running:
        await running.resize(123, 45)
        await running.write(b"go\n")
        out = b"".join([data async for _channel, data in running.output()])
    assert b"45 123" in out


async def test_a_reader_that_does_not_read_stops_the_command(
    streams: KubeStreams, kube: FakeKube
) -> None:
    async with await streams.exec(POD, ["sh", "-c", "yes"]) as running:
        output = running.output()
        await anext(output)
        (process,) = kube.running
        before = ""
        async with asyncio.timeout(60):  # for every buffer on the way to be full
            while (now := _written(process.pid)) != before:
                before = now
                await asyncio.sleep(0.5)
        await output.aclose()
    await until(lambda: not kube.running)


def _written(pid: int) -> str:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(line for line in lines if line.startswith("wchar"))


async def test_a_port_is_reached(streams: KubeStreams) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with await streams.forward(POD, port) as one:
        await one.send(b"hello\n")
        assert b"".join([part async for part in one.received()]) == b"hello\n"
    server.close()


async def test_a_port_where_nothing_listens_says_so(streams: KubeStreams) -> None:
    async with await streams.forward(POD, 1) as one:
        assert [part async for part in one.received()] == []
        assert one.problem


async def test_a_log_is_read(streams: KubeStreams, kube: FakeKube) -> None:
    assert b"".join([part async for part in streams.log(POD, follow=True, tail=5)]) == kube.log
    assert "tailLines=5" in kube.asked[-1]


async def test_a_pod_that_is_not_there_is_named(streams: KubeStreams, kube: FakeKube) -> None:
    kube.refuse = (404, 'pods "ws-abc-0" not found')
    with pytest.raises(Gone, match="not found"):
        await streams.exec(POD, ["true"])
    with pytest.raises(Gone, match="not found"):
        [part async for part in streams.log(POD)]


async def test_a_refusal_and_a_silence_are_not_the_persons_fault(
    streams: KubeStreams, kube: FakeKube
) -> None:
    kube.refuse = (403, "forbidden: User cannot create resource pods/exec")
    with pytest.raises(Unreachable, match="refuses Berth"):
        await streams.exec(POD, ["true"])
    nowhere = KubeStreams(Endpoint("http://127.0.0.1:9"))
    with pytest.raises(Unreachable):
        await nowhere.exec(POD, ["true"])
    with pytest.raises(Unreachable):
        [part async for part in nowhere.log(POD)]
    await nowhere.aclose()


async def test_c2_an_address_is_checked_before_it_is_used(kube: FakeKube) -> None:
    def check(address: str) -> None:
        raise Unreachable(f"{address} is not allowed")

    barred = KubeStreams(Endpoint(kube.url, check=check))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        await barred.exec(POD, ["true"])
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        [part async for part in barred.log(POD)]
    assert kube.asked == []
    await barred.aclose()


async def test_each_address_of_a_name_is_tried(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what is read, as by what is opened: the first one may be of a family without a way."""
    port = int(kube.url.rpartition(":")[2])
    kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")

    async def both(*_asked: object, **_more: object) -> list[tuple[object, ...]]:
        return [(*kind, (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
    named = KubeStreams(Endpoint(f"http://cluster.example:{port}"))
    assert b"".join([part async for part in named.log(POD)]) == kube.log
    assert await run(named, ["true"]) == (b"", b"", 0)
    await named.aclose()


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_c2_a_redirect_is_not_followed(
    streams: KubeStreams, kube: FakeKube, scheme: str
) -> None:
    """Not even where its address would be allowed: nobody is connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        port = elsewhere.getsockname()[1]
        for kube.location in (f"{scheme}://127.0.0.1:{port}/", "/of/the/same/server"):
            for code in (301, 302, 303, 307, 308):
                kube.refuse = (code, "elsewhere")
                before = len(kube.asked)
                with pytest.raises(Unreachable):
                    await streams.exec(POD, ["true"])
                with pytest.raises(Unreachable):
                    [part async for part in streams.log(POD)]
                assert len(kube.asked) == before + 2
                with pytest.raises(BlockingIOError):  # nobody waits to be let in
                    elsewhere.accept()


def test_how_a_command_ended() -> None:
    assert ended_of(b'{"status":"Success"}').code == 0
    assert ended_of(b"nonsense").code is None
    assert ended_of(b'{"status":"Failure","message":"lost"}').message == "lost"
