"""The process of the gateway beside a database: who may call by rows, and what it writes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test.utils import CaptureQueriesContext

from serving.gateway.program import Process
from tests.serving.gateway.conftest import PATIENCE_S
from tests.serving.gateway.replica import Replica

pytestmark = pytest.mark.django_db(transaction=True)


def key_for(endpoint: Any, secret: str, **columns: Any) -> Any:
    from serving.models import EndpointKey

    digest = hashlib.sha256(secret.encode()).hexdigest()
    return EndpointKey.objects.create(endpoint=endpoint, name=secret, digest=digest, **columns)


def token_for(user: Any, secret: str, **columns: Any) -> Any:
    from accounts.models import ApiToken

    digest = hashlib.sha256(secret.encode()).hexdigest()
    return ApiToken.objects.create(user=user, name=secret, prefix="x", digest=digest, **columns)


def answers(row: Any, *replicas: Replica) -> None:
    """As if these were seen of its launch."""
    from common.clock import now
    from runtime.models import ObservedWorkload

    told = [{"index": n, "seen": "ready", "address": one.address} for n, one in enumerate(replicas)]
    data = {"uid": str(row.uid), "seen": "ready", "launch": row.launch, "kind": "endpoint"}
    ObservedWorkload.objects.update_or_create(
        cluster_key=row.cluster_key,
        uid=row.uid,
        defaults={
            "kind": "endpoint",
            "seen": "ready",
            "launch": row.launch,
            "seen_at": now(),
            "data": {**data, "replicas": told},
        },
    )


@pytest.fixture
def endpoint(project: Any, alice: Any) -> Any:
    from serving.models import Endpoint

    said = {"name": "digits", "kind": "endpoint", "cluster_key": "local", "launch": 1, "wait_s": 60}
    return Endpoint.objects.create(project=project, owner=alice, **said)


@pytest.fixture
async def url(listener: socket.socket) -> AsyncIterator[str]:
    async with process(listener) as one:
        yield one


@contextlib.asynccontextmanager
async def process(listener: socket.socket) -> AsyncIterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="gw-"))
    running = asyncio.create_task(Process(folder, listener).run())
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/e/vision"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    shutil.rmtree(folder)


async def call(url: str, secret: str, path: str = "/digits/v1", **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        headers = {"Authorization": f"Bearer {secret}"}
        return await client.post(url + path, content=b"{}", headers=headers, **more)


async def becomes(status: int, url: str, secret: str, within_s: float = 15.0) -> float:
    """Call until it is answered so; return how long that took."""
    began = time.monotonic()
    while (told := (await call(url, secret)).status_code) != status:
        assert time.monotonic() - began < within_s, f"still {told}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_rows_decide_who_may_call_and_calls_become_rows(
    url: str, endpoint: Any, alice: Any, bob: Any, replica: Replica
) -> None:
    from serving.models import Calls, Endpoint, EndpointKey

    await sync_to_async(answers)(endpoint, replica)
    key = await sync_to_async(key_for)(endpoint, "of-a-key", requests_per_day=40)
    await sync_to_async(token_for)(bob, "of-bob")
    await sync_to_async(token_for)(bob, "reads-only", read_only=True)
    await sync_to_async(token_for)(bob, "elsewhere", project_uids=[str(alice.uid)])
    await becomes(200, url, "of-a-key")
    assert (await call(url, "of-bob")).status_code == 200
    assert (await call(url, "reads-only")).status_code == 401
    assert (await call(url, "elsewhere")).status_code == 404
    assert (await call(url, "of-a-key", "/other/v1")).status_code == 404
    for _ in range(10):
        await call(url, "of-bob")

    def counted() -> dict[str, int]:
        found: dict[str, int] = {}
        for one in Calls.objects.filter(endpoint=endpoint):
            found[one.caller] = found.get(one.caller, 0) + one.requests
            assert sum(one.histogram.values()) == one.requests
        return found

    async with asyncio.timeout(PATIENCE_S):
        while (await sync_to_async(counted)()).get(f"u{bob.pk}") != 11:  # noqa: ASYNC110 - rows
            await asyncio.sleep(0.2)
    row = await Endpoint.objects.aget(pk=endpoint.pk)
    assert row.called_at is not None
    assert (await EndpointKey.objects.aget(pk=key.pk)).last_used_at is not None
    for _ in range(45):
        await call(url, "of-a-key")
    await becomes(429, url, "of-a-key")


async def test_a_revoked_key_and_a_role_that_was_taken_away_end_within_seconds(
    url: str, endpoint: Any, bob: Any, replica: Replica
) -> None:
    from common.clock import now
    from projects.models import Membership
    from serving.models import Calls, EndpointKey

    await sync_to_async(answers)(endpoint, replica)
    key = await sync_to_async(key_for)(endpoint, "of-a-key")
    await sync_to_async(token_for)(bob, "of-bob")
    await becomes(200, url, "of-bob")
    headers = {"Authorization": "Bearer of-a-key"}
    async with (
        httpx.AsyncClient(timeout=PATIENCE_S, headers=headers) as client,
        client.stream("GET", f"{url}/digits/stream") as stream,
    ):
        assert stream.status_code == 200
        await EndpointKey.objects.filter(pk=key.pk).aupdate(revoked_at=now())
        assert await becomes(401, url, "of-a-key") < 4
        with contextlib.suppress(httpx.RemoteProtocolError):
            async for _line in stream.aiter_lines():
                pass
    async with asyncio.timeout(PATIENCE_S):  # what was cut off counts too
        while not await Calls.objects.filter(caller=f"k{key.pk}", bytes_out__gt=0).aexists():  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await Membership.objects.filter(user=bob).aupdate(role="viewer")
    await becomes(404, url, "of-bob")


@pytest.fixture
def unix_bus(settings: Any, tmp_path: Path) -> None:
    settings.BERTH_BUS, settings.BERTH_BUS_DIR = "unix", tmp_path


async def test_messages_of_other_work_keep_no_revoked_key_alive(
    unix_bus: None, url: str, endpoint: Any, replica: Replica
) -> None:
    from common.clock import now
    from runtime import bus
    from serving.models import EndpointKey

    await sync_to_async(answers)(endpoint, replica)
    key = await sync_to_async(key_for)(endpoint, "of-a-key")
    await becomes(200, url, "of-a-key")

    async def talk() -> None:
        while True:
            assert bus.send(["operators"], {"kind": "job"}) == 1
            await asyncio.sleep(0.1)

    talking = asyncio.create_task(talk())
    await asyncio.sleep(0.5)
    await EndpointKey.objects.filter(pk=key.pk).aupdate(revoked_at=now())
    assert await becomes(401, url, "of-a-key") < 4
    assert not talking.done()
    talking.cancel()


async def test_an_error_that_nobody_thought_of_ends_no_stream(
    url: str, endpoint: Any, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read meanwhile and not applied is read again."""
    from common.clock import now
    from serving.gateway import rows
    from serving.gateway.control import Gateway
    from serving.gateway.tallies import Tallies
    from serving.models import EndpointKey

    await sync_to_async(answers)(endpoint, replica)
    key = await sync_to_async(key_for)(endpoint, "of-a-key")
    await sync_to_async(key_for)(endpoint, "of-another")
    await becomes(200, url, "of-a-key")
    failed = set()

    def fails(name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            failed.add(name)
            raise LookupError(name)

        return fail

    where = [(rows, "read_table"), (Gateway, "apply"), (Gateway, "_look")]
    where += [(Tallies, "write_calls"), (Tallies, "write_pressures")]
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        headers = {"Authorization": "Bearer of-another"}
        async with client.stream("GET", f"{url}/digits/stream", headers=headers) as stream:
            lines = stream.aiter_lines()
            for place, name in where:
                with monkeypatch.context() as broken:
                    broken.setattr(place, name, fails(name))
                    if name == "apply":
                        await EndpointKey.objects.filter(pk=key.pk).aupdate(revoked_at=now())
                    async with asyncio.timeout(PATIENCE_S):
                        while name not in failed:
                            await call(url, "of-another")
                            await anext(lines)
            assert await becomes(401, url, "of-a-key") < 4
            for _ in range(40):
                assert await anext(lines) == "tick"


async def test_a_call_wakes_what_sleeps_and_nothing_else(
    url: str, endpoint: Any, replica: Replica
) -> None:
    from runtime.protocol import Desired
    from serving.models import Endpoint, Pressure

    asleep = {"desired": Desired.STOPPED, "phase": "stopped"}
    await Endpoint.objects.filter(pk=endpoint.pk).aupdate(**asleep, stop_reason="asleep")
    await sync_to_async(key_for)(endpoint, "of-a-key")
    assert (await call(url, "no-such-key")).status_code == 401
    await becomes(404, url + "/not", "of-a-key")  # the key is known
    held = [asyncio.create_task(call(url, "of-a-key")) for _ in range(5)]
    async with asyncio.timeout(PATIENCE_S):
        while (row := await Endpoint.objects.aget(pk=endpoint.pk)).desired != Desired.RUNNING:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert row.launch == 2
        while not await Pressure.objects.filter(endpoint=endpoint, waiting=5).aexists():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await sync_to_async(answers)(row, replica)
    assert {(await one).status_code for one in held} == {200}
    await Endpoint.objects.filter(pk=endpoint.pk).aupdate(**asleep, stop_reason="user")
    await becomes(503, url, "of-a-key")
    assert (await Endpoint.objects.aget(pk=endpoint.pk)).desired == Desired.STOPPED


def test_a_row_that_no_table_can_hold_is_away_alone(project: Any, alice: Any) -> None:
    """Whatever wrote it: the rest is served, revoked and woken as before."""
    from accounts.models import ApiToken
    from projects.models import Membership, Project
    from runtime.models import ObservedWorkload
    from serving.gateway.rows import read_table
    from serving.models import Endpoint, EndpointKey, Model, ModelVersion

    def made(name: str, **columns: Any) -> Any:
        said = {"kind": "endpoint", "cluster_key": "local", "launch": 1, "desired": "running"}
        said |= {"project": project, "owner": alice, "name": name}
        return Endpoint.objects.create(**said | columns)

    model = Model.objects.create(project=project, name="m")
    odd = ModelVersion.objects.create(model=model, name="-;shutdown", source="volume", origin="x")
    good, spoiled = made("good"), made("n;a")
    sick = made("sick", version=odd)
    canary = made("canary-1", version=odd, canary_of=good)
    replica = Replica("r", port=4711)
    for row in (good, spoiled, sick, canary):
        answers(row, replica)
    seen = ObservedWorkload.objects.get(uid=sick.uid)
    for n, data in enumerate([{}, {"seen": "no-such-word"}, ["x"], {"replicas": 7}]):
        ObservedWorkload.objects.create(
            cluster_key="local", uid=f"00000000-0000-0000-0000-{n:012}", kind="endpoint",
            seen=seen.seen, launch=1, seen_at=seen.seen_at, data=data,
        )  # fmt: skip
    key_for(good, "one")
    EndpointKey.objects.filter(pk=key_for(good, "two").pk).update(digest="no digest")
    token_for(alice, "three")
    ApiToken.objects.filter(pk=token_for(alice, "four").pk).update(digest="none either")
    elsewhere = Project.objects.create(name="Odd", slug="odd_one")
    Membership.objects.create(project=elsewhere, user=alice, role="owner")
    table = read_table()
    assert [one.name for one in table.endpoints] == ["good"]
    (one,) = table.endpoints
    assert one.main.replicas == (replica.address,)
    assert one.canary is None
    words = {principal.caller: principal for principal in table.principals.values()}
    assert len(table.principals) == 2
    assert words[f"u{alice.pk}"].projects == {project.slug}


def test_callers_of_what_was_stopped_read_why(project: Any, alice: Any) -> None:
    from serving.gateway.rows import read_table
    from serving.models import Endpoint

    said = {"kind": "endpoint", "project": project, "owner": alice, "desired": "stopped"}
    Endpoint.objects.create(name="asleep", stop_reason="asleep", **said)
    Endpoint.objects.create(name="parked", stop_reason="parked", **said)
    told = {one.name: (one.waiting > 0, one.stopped) for one in read_table().endpoints}
    assert told == {
        "asleep": (True, ""),
        "parked": (
            False,
            "It does not answer until somebody starts it. Parked; resume any time.",
        ),
    }


def test_reading_the_table_is_as_many_queries_for_a_thousand_endpoints(
    project: Any, alice: Any
) -> None:
    from django.db import connection

    from serving.gateway.rows import fingerprint, read_table
    from serving.models import Endpoint, Model, ModelVersion

    model = Model.objects.create(project=project, name="m")
    version = ModelVersion.objects.create(model=model, name="v1", source="volume", origin="x")
    said = {"project": project, "owner": alice, "kind": "endpoint", "version": version}

    def asked() -> int:
        with CaptureQueriesContext(connection) as seen:
            fingerprint()
            assert all(one.canary for one in read_table().endpoints)
        return len(seen)

    few = asked()
    for number in range(20):
        desired = "running" if number % 2 else "stopped"
        row = Endpoint.objects.create(name=f"n-{number}", desired=desired, **said)
        Endpoint.objects.create(name=f"canary-{number}", canary_of=row, **said)
        key_for(row, f"secret {number}")
    assert asked() == few
