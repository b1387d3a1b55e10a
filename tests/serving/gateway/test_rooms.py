"""Which replica has room: what servers publish, and servers that publish nonsense."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from serving.gateway import rooms
from serving.gateway.rooms import Figures, ask_figures, read_figures, weights
from tests.serving.gateway.conftest import Running, until
from tests.serving.gateway.replica import Replica

VLLM = """# HELP vllm:num_requests_running how many
vllm:num_requests_running{model_name="a"} 3.0
vllm:num_requests_waiting{model_name="a"} 2.0
vllm:gpu_cache_usage_perc{model_name="a"} 0.5
process_open_fds 12
"""
TRITON = """nv_inference_pending_request_count{model="a",version="1"} 1
nv_inference_pending_request_count{model="b",version="1"} 4 1700000000
"""


def test_figures_of_known_servers() -> None:
    assert read_figures(VLLM) == Figures(3, 2, 0.5)
    assert read_figures(TRITON) == Figures(0, 5)
    assert read_figures(
        "berth_model_requests_running 1\nberth_model_requests_waiting 0\n"
    ) == Figures(1, 0)
    assert read_figures("process_open_fds 12\n") is None


NONSENSE = [
    "vllm:num_requests_waiting -5",
    "vllm:num_requests_waiting NaN",
    "vllm:num_requests_waiting +Inf",
    "vllm:num_requests_waiting many",
    "vllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 17",
    "<html>vllm:num_requests_waiting</html>",
    "",
]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_no_figure(text: str) -> None:
    assert read_figures(text) is None


def test_more_waiting_is_less_room_and_no_figures_are_the_mean() -> None:
    told = weights({"a": Figures(0, 0), "b": Figures(2, 0), "c": Figures(2, 5), "d": None})
    assert told["a"] == 256
    assert told["a"] > told["d"] > told["b"] > told["c"] >= rooms.LEAST
    assert weights({"a": None, "b": None}) == {"a": rooms.WEIGHT, "b": rooms.WEIGHT}


async def test_a_server_that_answers_late_or_without_end_has_no_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rooms, "ANSWERS_WITHIN_S", 0.3)

    async def late(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)
        writer.close()

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(64):
            writer.write(b"vllm:num_requests_waiting 0\n" * 2**12)
        writer.close()

    client, turn = httpx.AsyncClient(), asyncio.Semaphore(1)
    for serve in (late, endless):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        assert await ask_figures(client, f"127.0.0.1:{port}", "/metrics", turn) is None
        server.close()
    assert await ask_figures(client, f"127.0.0.1:{port}", "/metrics", turn) is None, (
        "nobody is there"
    )
    await client.aclose()


async def test_many_that_answer_late_are_asked_a_few_at_once_and_hold_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them answers before all hundred were given up, those too that had no turn."""
    monkeypatch.setattr(rooms, "ANSWERS_WITHIN_S", 0.5)
    open_now, most, over = 0, 0, asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await reader.read()  # until who asked has given up
        open_now -= 1
        await over.wait()
        writer.close()

    server = await asyncio.start_server(late, "127.0.0.1", 0)
    address, turn = f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asyncio.Semaphore(4)
    async with httpx.AsyncClient() as client:
        asks = [ask_figures(client, address, "/metrics", turn) for _ in range(100)]
        assert await asyncio.gather(*asks) == [None] * 100
    over.set()
    server.close()
    assert most <= 4


def test_lines_of_others_cost_next_to_nothing() -> None:
    """128 KiB of names and spaces, as long as can be, are read within moments."""
    for line in ("a" * 40 + " 1\n", "vllm:num_requests_waiting " + " " * 60 + "\n", " \t", "{" * 9):
        text = (line * (rooms.LONGEST // len(line) + 1))[: rooms.LONGEST]
        began = time.process_time()
        assert read_figures(text) is None
        assert time.process_time() - began < 0.1
    assert read_figures("vllm:num_requests_waiting " + "1" * 100_000) is None


async def test_requests_go_where_there_is_room(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    """Both answer at once, so only what they publish tells them apart."""
    replica.figures = "berth_model_requests_running 9\nberth_model_requests_waiting 40\n"
    other.figures = "berth_model_requests_running 0\nberth_model_requests_waiting 0\n"
    await gateway.route(replica, other, metrics="/metrics")
    async with gateway.client() as client, client.stream("GET", "/stream"):
        await until(lambda: gateway.gateway._weights.get(replica.address) == rooms.LEAST)
        seen = len(replica.seen)
        streams = [client.stream("GET", "/stream") for _ in range(10)]
        for one in streams:
            await one.__aenter__()
        assert len(replica.seen) - seen <= 1
        for one in streams:
            await one.__aexit__(None, None, None)
