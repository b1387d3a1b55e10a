"""Connections that were given back or that nobody waits for any more."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from dataplane.copy.calls import Client
from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Connection, now
from dataplane.copy.lanes import Lane
from dataplane.copy.plan import OutboundPlan
from dataplane.copy.problems import Final
from tests.support.copying import Copying


def client_of() -> Client:
    dialer = Dialer(OutboundPlan())
    return Client(dialer, dialer.endpoint("https://store.example"))


def test_a_line_that_was_given_back_is_not_looked_at() -> None:
    """The look was asked for while it was lent, and comes when it waits for its next use."""

    async def look() -> Connection:
        line = Connection()
        line.deadline = 0.0
        client_of()._look(line, now())
        return line

    assert asyncio.run(look()).reusable


def test_one_that_is_late_is_ended() -> None:
    async def look() -> Connection:
        line = Connection()
        line.deadline = now() - 1
        client_of()._look(line, now())
        return line

    assert not asyncio.run(look()).reusable


@pytest.fixture
def lane() -> Any:
    made = Lane(1)
    yield made
    made.close()


def test_what_is_opened_for_nobody_is_closed(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled while the connection is made, and too late to stop that."""
    begun, closed = threading.Event(), threading.Event()
    monkeypatch.setattr(Connection, "close", lambda _line: closed.set())

    class Late(Dialer):
        async def connect(self, _endpoint: Any) -> Connection:
            begun.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                return Connection()
            raise AssertionError

    async def cancel() -> Client:
        client = client_of()
        client._dialer = Late(OutboundPlan())
        task = asyncio.create_task(
            client._get(lane, client._dialer.endpoint("https://store.example"))
        )
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.close()
        return client

    client = asyncio.run(cancel())
    assert closed.wait(60)
    assert not client._lines


@pytest.mark.parametrize("answers", ["never connects", "never answers"])
def test_a_stop_cuts_what_a_library_waits_for(load: Any, tmp_path: Any, answers: str) -> None:
    """Neither the connection nor the answer of its listing is waited for any longer."""
    with socket.create_server(
        ("127.0.0.1", 0), backlog=0 if answers == "never connects" else 9
    ) as it:
        port, waiting = it.getsockname()[1], []
        while answers == "never connects" and len(waiting) < 4:  # nobody accepts: no room for more
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(("127.0.0.1", port))
        endpoint = f"http://127.0.0.1:{port}"
        keys = {"access_key": "a", "secret_key": "b"}
        place = {"kind": "s3-compatible", "endpoint": endpoint, "bucket": "data", **keys}
        opened = {"allow": [], "ports": [], "insecure_hosts": [f"127.0.0.1:{port}"]}
        stopping = threading.Event()
        threading.Timer(2.0, stopping.set).start()
        begun = now()
        order, _ = load(Copying(tmp_path, place, opened), stopping=stopping)
        took = now() - begun
        for one in waiting:
            one.close()
    assert order.final is Final.STOPPED
    assert 1.9 < took < 8  # a connection is waited for ten seconds, an answer thirty
