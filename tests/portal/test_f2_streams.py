"""F2: streams through the handler that ``web`` runs: counted, without a thread, and given back."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.test import Client

from clusters import streams
from portal.server.handler import Handler
from runtime import sse

pytestmark = pytest.mark.django_db(transaction=True)
PAGES = "/events/stream"


class Visit:
    """One request to the handler as a server would pass it on; the client stays until ``leave``."""

    def __init__(self, handler: Handler, path: str, query: str, cookie: str) -> None:
        self.status = 0
        self.said: asyncio.Queue[bytes] = asyncio.Queue()
        self._left = asyncio.Event()
        self._asked = False
        headers = [(b"host", b"testserver"), (b"cookie", cookie.encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [*headers, (b"accept", b"text/event-stream")],
            "server": ("testserver", 80),
            "client": ("127.0.0.1", 1),
        }
        self.task = asyncio.create_task(handler(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.said.put_nowait(message.get("body", b""))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._left.set()

    async def first(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.said.get()

    async def leave(self) -> None:
        self._left.set()
        await self.task


Visits = Callable[..., Any]


@pytest.fixture
def visit(alice: Any) -> Visits:
    handler, browser = Handler(), Client()
    browser.force_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())

    @asynccontextmanager
    async def visiting(path: str, count: int, query: str = "") -> AsyncIterator[list[Visit]]:
        visits = [Visit(handler, path, query, cookie) for _ in range(count)]
        try:
            yield visits
        finally:
            for one in visits:
                await one.leave()

    return visiting


@pytest.fixture
def log_path(launch: Any, alice: Any, settle: Any) -> str:
    return f"/api/v1/projects/vision/workspaces/{settle(launch(alice)).short_id}/logs"


async def test_f2_a_hundred_opened_at_once_are_no_more_than_the_limit(
    visit: Visits, alice: Any, log_path: str
) -> None:
    for path, places in ((PAGES, sse.places), (log_path, streams.places)):
        async with visit(path, 100, f"topics=user:{alice.uid}") as visits:
            await asyncio.gather(*(one.first() for one in visits))
            statuses = [one.status for one in visits]
            assert statuses.count(200) == places.most, path
            assert statuses.count(429) == 100 - places.most, path


async def test_f2_who_leaves_gives_the_place_back(visit: Visits, alice: Any, log_path: str) -> None:
    for path, places in ((PAGES, sse.places), (log_path, streams.places)):
        for at_once in (True, False):  # before the first byte, and in the middle
            for _ in range(3):
                async with visit(path, places.most, f"topics=user:{alice.uid}") as visits:
                    if not at_once:
                        for one in visits:
                            await one.first()
                            assert one.status == 200
                await _until(lambda places=places: not places)


async def test_f2_a_stream_costs_no_thread(visit: Visits, alice: Any, log_path: str) -> None:
    async with visit(PAGES, 1, f"topics=user:{alice.uid}") as (one,):
        await one.first()
    before, others = threading.active_count(), set(_threads_of_requests())
    async with (
        visit(PAGES, sse.places.most, f"topics=user:{alice.uid}") as pages,
        visit(log_path, streams.places.most) as logs,
    ):
        for one in [*pages, *logs]:
            await one.first()
        await _until(lambda: not set(_threads_of_requests()) - others)
        assert (
            threading.active_count() <= before + 8 + 5
        )  # shared by all: looks, and the loop's own


async def test_f2_what_is_told_speaks_the_language_of_its_reader(
    visit: Visits, alice: Any, monkeypatch: Any
) -> None:
    from django.utils import translation

    monkeypatch.setattr(sse, "event", lambda _message: f": {translation.get_language()}\n\n")
    alice.language = "ja"
    await alice.asave()
    async with visit(PAGES, 1, f"topics=user:{alice.uid}&age=9999") as (one,):
        assert b"hello" in await one.first()
        assert await one.first() == b": ja\n\n"  # resync: it only begins to listen


def _threads_of_requests() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("ThreadPoolExecutor")]


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            gc.collect()
            await asyncio.sleep(0.02)
