"""What web asks of the gate: only with the token, and errors come back as what they were."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from common.errors import BerthError, Conflict, Unavailable
from runtime import gateway
from runtime.capabilities.clusters import SupportsMetrics
from runtime.capabilities.workloads import SupportsLogs
from runtime.gateway import RemoteDriver
from runtime.protocol import Unreachable

TOKEN = "t" * 40
PATIENCE_S = 60.0  # with a machine that is busy


@pytest.fixture
async def inside(transactional_db: None, settings: Any) -> AsyncIterator[str]:
    from gate import internal
    from gate.server import Listener, config
    from gate.service import Gate

    settings.BERTH_GATE_TOKEN = TOKEN
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    gate = Gate()
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen(10)
    server = Listener(config(internal.app(gate)))
    serving = asyncio.create_task(server.serve(sockets=[one]))
    settings.BERTH_GATE_INTERNAL_URL = f"http://127.0.0.1:{one.getsockname()[1]}"
    yield settings.BERTH_GATE_INTERNAL_URL
    server.should_exit = True
    await serving


def greet(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    if payload.get("name") == "nobody":
        raise Conflict("There is nobody.", code="nobody", fields={"name": ["empty"]})
    if payload.get("name") == "broken":
        raise ZeroDivisionError
    return {"said": f"hello {payload['name']}"}


@pytest.fixture
def greeting(monkeypatch: Any) -> None:
    monkeypatch.setitem(gateway._handlers, "test/greet", greet)


async def ask(name: str) -> Mapping[str, Any]:
    return await sync_to_async(gateway.ask, thread_sensitive=False)("test/greet", {"name": name})


async def test_an_answer_comes_back(inside: str, greeting: None) -> None:
    assert await ask("you") == {"said": "hello you"}


async def test_an_error_comes_back_as_what_it_was(inside: str, greeting: None) -> None:
    with pytest.raises(BerthError) as told:
        await ask("nobody")
    assert (told.value.status, told.value.code) == (409, "nobody")
    assert told.value.fields == {"name": ["empty"]}
    with pytest.raises(Unavailable):
        await ask("broken")
    with pytest.raises(BerthError) as unknown:
        await sync_to_async(gateway.ask, thread_sensitive=False)("no/such", {})
    assert unknown.value.status == 404


async def test_without_the_token_nothing_is_told(
    inside: str, greeting: None, settings: Any
) -> None:
    async with httpx.AsyncClient(base_url=inside, timeout=PATIENCE_S) as client:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer x"}):
            answer = await client.post("/internal/test/greet", json={"name": "x"}, headers=header)
            assert answer.status_code == 401
        settings.BERTH_GATE_TOKEN = ""
        empty = {"Authorization": "Bearer"}
        answer = await client.post("/internal/test/greet", json={}, headers=empty)
        assert answer.status_code == 401
    assert isinstance(gateway.error_of(401, {}), Unavailable)


async def test_odd_questions_are_refused(inside: str, greeting: None) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=inside, headers=headers, timeout=PATIENCE_S) as client:
        for body in (b"{nope", b"[1]", b"x" * 2_000_000):
            answer = await client.post("/internal/test/greet", content=body)
            assert answer.status_code == 400


async def test_probes_and_numbers_are_there(inside: str, settings: Any) -> None:
    async with httpx.AsyncClient(base_url=inside, timeout=PATIENCE_S) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert "berth_gate_streams" in (await client.get("/metrics")).text
        settings.BERTH_METRICS_TOKEN = "s3cret"
        assert (await client.get("/metrics")).status_code == 403
        told = await client.get("/metrics", headers={"authorization": "Bearer s3cret"})
        assert "berth_gate_streams" in told.text


async def test_the_remote_driver_reads_and_nothing_else(inside: str, monkeypatch: Any) -> None:
    from clusters import registry
    from gate import rpc
    from runtime.drivers.fake import FakeDriver

    fake = FakeDriver(None)
    monkeypatch.setattr(rpc, "driver_for", lambda _key: fake)
    assert registry
    remote = RemoteDriver("k1")
    assert isinstance(remote, SupportsLogs)
    assert isinstance(remote, SupportsMetrics)
    read = sync_to_async(remote.read_log, thread_sensitive=False)
    if isinstance(fake, SupportsLogs):
        data, offset = await read("00000000-0000-0000-0000-000000000001", offset=0)
        assert isinstance(data, bytes)
        assert offset >= 0
    else:
        with pytest.raises(Unreachable):
            await read("00000000-0000-0000-0000-000000000001", offset=0)
    with pytest.raises(Unreachable, match="workers"):
        remote.stop("x", grace_s=1)
    with pytest.raises(Unreachable, match="workers"):
        remote.observe(["x"])


async def test_a_gate_that_is_away_is_unreachable(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    settings.BERTH_GATE_INTERNAL_URL = "http://127.0.0.1:9"
    with pytest.raises(Unreachable):
        await sync_to_async(RemoteDriver("k1").read_log, thread_sensitive=False)("x")


async def test_slow_questions_to_the_outside_do_not_keep_others_waiting(
    inside: str, greeting: None, monkeypatch: Any
) -> None:
    from gate.internal import OUTSIDE_THREADS

    until, begun = threading.Event(), threading.Semaphore(0)

    def slow(_payload: Mapping[str, Any]) -> Mapping[str, Any]:
        begun.release()
        until.wait(PATIENCE_S)
        return {}

    monkeypatch.setitem(gateway._handlers, "test/slow", slow)
    monkeypatch.setattr(gateway, "_outside", {"test/slow"})
    asked = sync_to_async(gateway.ask, thread_sensitive=False)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=inside, headers=headers, timeout=PATIENCE_S) as client:
        waiting = [
            asyncio.create_task(client.post("/internal/test/slow", json={}))
            for _ in range(OUTSIDE_THREADS + 20)
        ]
        try:
            for _ in range(OUTSIDE_THREADS):
                assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE_S)
            assert (await asked("test/greet", {"name": "you"}))["said"] == "hello you"
        finally:
            until.set()
            await asyncio.gather(*waiting)


def test_images_and_sign_ins_are_asked_about_in_threads_of_their_own() -> None:
    assert gateway.is_outside("image-check")
    assert gateway.is_outside("credential-test")
    assert not gateway.is_outside("driver/read_log")


def test_where_the_key_is_the_handler_runs_at_once(greeting: None, settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["key"]
    settings.BERTH_GATE_INTERNAL_URL = "http://127.0.0.1:9"
    assert gateway.ask("test/greet", {"name": "me"}) == {"said": "hello me"}


def test_streams_find_the_way_to_a_cluster_attached_by_the_key_of_another(
    db: None, monkeypatch: Any
) -> None:
    from clusters.models import Cluster
    from gate import service
    from runtime.drivers.kubernetes.access import KubeAccess
    from runtime.drivers.kubernetes.streams import KubeStreams

    def opened(cluster: Cluster) -> KubeAccess:
        return KubeAccess(server=f"http://{cluster.name}", ca_pem="")

    monkeypatch.setattr(service.registry, "access_of", opened)
    before = Cluster.objects.create(key="far", name="old", driver="kubernetes")
    known = service.locate("far", "")
    assert known is not None
    assert service.locate("far", known.version) is None
    before.delete()
    Cluster.objects.create(key="far", name="new", driver="kubernetes")
    found = service.locate("far", known.version)
    assert found is not None
    assert isinstance(found.streams, KubeStreams)
    assert found.streams.endpoint.server == "http://new"
