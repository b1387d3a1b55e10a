"""Files of volumes through the gate: a real gate, a real server beside the data."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from common import disk
from tests.gate.conftest import ORIGIN, PATIENCE_S, Running, with_ticket
from tests.support.files_served import Served


@pytest.fixture
def opened(volume: Any, project: Any, alice: Any, principal: Any) -> Callable[..., Any]:
    """Return a function that opens a person's files, served at an address."""
    from files.models import FileSession
    from files.services import session_open

    def make(user: Any, served: Served) -> Any:
        row = session_open(principal=principal(user), project=project, volume_uid=volume.uid)
        FileSession.objects.filter(pk=row.pk).update(
            phase="running", address=f"127.0.0.1:{served.port}"
        )
        return row

    return make


@pytest.fixture
def served(tmp_path: Path, volume: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """One server; every session's token is the one it knows."""
    from files import reconciler
    from gate import access
    from tests.support.files_served import TOKEN

    assert reconciler.token_of is access.token_of
    monkeypatch.setattr(access, "token_of", lambda _row: TOKEN)
    base = tmp_path / "volumes"
    base.mkdir()
    one = Served(base)
    yield one
    one.close()


@pytest.fixture
async def files(
    gate: Running, alice: Any, cookie: Any, opened: Any, served: Served, volume: Any
) -> AsyncIterator[httpx.AsyncClient]:
    await sync_to_async(opened)(alice, served)
    async with gate.client(await cookie(alice)) as client:
        client.base_url = httpx.URL(f"{gate.url}/gate/volumes/{volume.uid}/")
        yield client


async def test_all_of_it_goes_through(files: httpx.AsyncClient, served: Served) -> None:
    data = os.urandom(3_000_000)
    put = await files.put("file", params={"path": "d/a.bin"}, content=data)
    assert put.status_code == 201, put.text
    listed = (await files.get("list", params={"path": "d"})).json()
    assert [e["name"] for e in listed["entries"]] == ["a.bin"]
    got = await files.get("file", params={"path": "d/a.bin"}, headers={"Range": "bytes=10-19"})
    assert (got.status_code, got.content) == (206, data[10:20])
    assert got.headers["access-control-allow-origin"] == ORIGIN
    assert got.headers["content-security-policy"].startswith("default-src 'none'")
    made = (await files.post("uploads", json={"path": "b", "size": len(data)})).json()
    for at in range(0, len(data), 1_000_000):
        piece = data[at : at + 1_000_000]
        check = {"X-Berth-Checksum": f"sha256={hashlib.sha256(piece).hexdigest()}"}
        answer = await files.patch(
            f"uploads/{made['id']}", params={"offset": at}, content=piece, headers=check
        )
        assert answer.status_code == 200, answer.text
    done = await files.post(f"uploads/{made['id']}/finish", json={})
    assert json.loads(done.text.splitlines()[-1])["done"]["size"] == len(data)
    assert (served.root / "b").read_bytes() == data
    gone = (await files.post("delete", json={"paths": ["d", "b"]})).json()
    assert (await files.post("restore", json={"id": gone["id"]})).status_code == 200
    zipped = await files.get("zip", params={"path": "d"})
    assert zipped.content[:2] == b"PK"


async def test_refusals_are_sentences(files: httpx.AsyncClient) -> None:
    missing = await files.get("file", params={"path": "none"})
    assert (missing.status_code, missing.json()["code"]) == (404, "missing")
    assert missing.json()["detail"] == "There is nothing of this name any more."
    made = (await files.post("uploads", json={"path": "b", "size": 4})).json()
    wrong = await files.patch(f"uploads/{made['id']}", params={"offset": 3}, content=b"x")
    assert (wrong.json()["code"], wrong.json()["offset"]) == ("offset", 0)
    assert (await files.get("../../livez")).status_code in {404, 200}
    for act in ("nothing", "list/%2e%2e/x", "uploads/..%2f..%2fx"):
        assert (await files.get(act)).status_code == 404
    chunked = await files.put("file", params={"path": "c"}, content=_parts())
    assert chunked.json()["code"] == "no-length"


async def _parts() -> AsyncIterator[bytes]:
    yield b"x"


async def test_no_cookie_and_no_token_of_the_portal_goes_along(
    gate: Running, alice: Any, cookie: Any, opened: Any, volume: Any
) -> None:
    """A server that is somebody else's learns nothing but the token of its own session."""
    seen: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)

    class There:
        port = server.sockets[0].getsockname()[1]

    await sync_to_async(opened)(alice, There)
    mine = await cookie(alice)
    async with gate.client(mine) as client:
        url = f"/gate/volumes/{volume.uid}/info?x=1&y=%2F"
        answer = await client.get(url, headers={"X-Own": "1"})
    server.close()
    assert answer.json() == {}
    assert "set-cookie" not in answer.headers
    (head,) = seen
    said = head.lower()
    assert b"get /info?x=1&y=%2f " in said
    for foreign in (b"cookie", b"ticket", mine.encode().lower(), b"x-own", b"origin", b"forwarded"):
        assert foreign not in said


async def test_b5_a_foreign_page_can_do_nothing(
    gate: Running, alice: Any, cookie: Any, files: httpx.AsyncClient, served: Served, volume: Any
) -> None:
    (served.root / "a").write_text("x")
    url = f"/gate/volumes/{volume.uid}"
    mine = await cookie(alice)
    cookies, path = {"berth_session": mine}, f"{url}/delete"
    async with httpx.AsyncClient(base_url=gate.url, cookies=cookies, timeout=PATIENCE_S) as bare:
        for origin in ("https://evil.example", "null"):
            for way in (path, with_ticket(path, mine)):  # were it to get hold of one
                answer = await bare.post(way, json={"paths": ["a"]}, headers={"Origin": origin})
                assert answer.status_code == 403
        assert (await bare.post(path, json={"paths": ["a"]})).status_code == 401
    assert (served.root / "a").exists()


async def test_a1_who_may_not_gets_nothing(
    gate: Running,
    files: httpx.AsyncClient,
    served: Served,
    volume: Any,
    cookie: Any,
    people: dict[str, Any],
) -> None:
    (served.root / "a").write_text("x")
    for name, status in (("charlie", 404), ("vera", 403), ("olga", 403), ("bob", 409)):
        async with gate.client(await cookie(people[name])) as other:
            answer = await other.get(f"/gate/volumes/{volume.uid}/list")
            assert answer.status_code == status, (name, answer.text)
    async with gate.client() as nobody:
        assert (await nobody.get(f"/gate/volumes/{volume.uid}/list")).status_code == 401
        assert (await nobody.get("/gate/volumes/not-a-uid/list")).status_code == 401


@pytest.fixture
def people(alice: Any, bob: Any, vera: Any, charlie: Any, operator: Any) -> dict[str, Any]:
    return {"alice": alice, "bob": bob, "vera": vera, "charlie": charlie, "olga": operator}


async def test_who_may_only_read_changes_nothing(
    gate: Running, bob: Any, cookie: Any, opened: Any, served: Served, volume: Any
) -> None:
    from volumes.models import Volume

    (served.root / "a").write_text("x")
    await sync_to_async(opened)(bob, served)
    narrow = Volume.objects.filter(pk=volume.pk).update
    await sync_to_async(narrow)(write_policy="managers")
    async with gate.client(await cookie(bob)) as client:
        url = f"/gate/volumes/{volume.uid}"
        assert (await client.get(f"{url}/file?path=a")).text == "x"
        refused = await client.post(f"{url}/delete", json={"paths": ["a"]})
        assert refused.status_code == 403
        counted = await client.post(f"{url}/count", json={"paths": ["a"]})
        assert counted.status_code == 200
    assert (served.root / "a").exists()


async def test_a3_a_download_is_cut_when_the_right_ends(
    files: httpx.AsyncClient, served: Served, project: Any, alice: Any, volume: Any
) -> None:
    from projects.models import Membership

    (served.root / "big").write_bytes(b"x" * (200 << 20))
    rows = Membership.objects.filter(project=project, user=alice)
    taken = [0]

    async def read(answer: httpx.Response) -> None:
        async for part in answer.aiter_raw(65536):
            taken[0] += len(part)
            await asyncio.sleep(0.02)

    async with files.stream("GET", "file", params={"path": "big"}) as answer:
        assert answer.status_code == 200
        await sync_to_async(rows.delete)()
        with pytest.raises(httpx.TransportError):
            await read(answer)
    assert taken[0] < 200 << 20


async def test_e18_short_of_room_the_gate_writes_nothing_to_the_portals_disk(
    files: httpx.AsyncClient, served: Served, settings: Any
) -> None:
    everything = 2**40  # MiB: more than any disk has
    settings.BERTH_VOLUMES_DIR = settings.BERTH_VAR
    begun = (await files.post("uploads", json={"path": "b", "size": 1})).json()
    assert (await files.put("file", params={"path": "a"}, content=b"1")).status_code == 201
    settings.BERTH_DISK_FLOOR_MIB = everything
    for answer in (
        await files.put("file", params={"path": "c"}, content=b"1"),
        await files.post("uploads", json={"path": "c", "size": 1}),
        await files.patch(f"uploads/{begun['id']}", params={"offset": 0}, content=b"1"),
        await files.post("copy", json={"paths": ["a"], "to": "", "conflict": "keep-both"}),
        await files.post("mkdir", json={"path": "c"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (507, "disk-full")
        assert "The portal's disk is full" in answer.json()["detail"]
    assert [p.name for p in served.root.iterdir() if not p.name.startswith(".")] == ["a"]
    assert (await files.get("file", params={"path": "a"})).content == b"1"
    assert (await files.delete(f"uploads/{begun['id']}")).status_code == 200
    assert (await files.post("delete", json={"paths": ["a"]})).status_code == 200
    settings.BERTH_DISK_FLOOR_MIB = 1
    assert (await files.put("file", params={"path": "c"}, content=b"1")).status_code == 201


async def test_e18_nor_does_it_take_what_would_leave_too_little(
    files: httpx.AsyncClient, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BERTH_VOLUMES_DIR = settings.BERTH_VAR
    monkeypatch.setattr(disk, "free_mib", lambda: settings.BERTH_DISK_FLOOR_MIB + 2)
    assert (await files.put("file", params={"path": "a"}, content=b"1")).status_code == 201
    large = await files.put("file", params={"path": "b"}, content=bytes(3 * 2**20))
    assert (large.status_code, large.json()["code"]) == (507, "disk-full")


async def test_e18_a_volume_on_another_disk_has_room_of_its_own(
    files: httpx.AsyncClient, settings: Any
) -> None:
    settings.BERTH_DISK_FLOOR_MIB = 2**40
    settings.BERTH_VOLUMES_DIR = Path("/proc")  # is one of its own everywhere
    assert (await files.put("file", params={"path": "a"}, content=b"1")).status_code == 201
    from clusters.models import Cluster
    from volumes.models import Volume

    settings.BERTH_VOLUMES_DIR = settings.BERTH_VAR
    await Cluster.objects.aupdate_or_create(key="far", defaults={"driver": "kubernetes"})
    await Volume.objects.aupdate(cluster_key="far")
    assert (await files.put("file", params={"path": "b"}, content=b"1")).status_code == 201


async def test_a_full_volume_takes_nothing_and_can_be_emptied(
    files: httpx.AsyncClient, served: Served, volume: Any
) -> None:
    from volumes.models import Volume

    (served.root / "a").write_text("x")
    fill = Volume.objects.filter(pk=volume.pk).update
    await sync_to_async(fill)(size_limit_mib=1, used_bytes=1024 * 1024)
    refused = await files.put("file", params={"path": "b"}, content=b"1")
    assert (refused.status_code, refused.json()["code"]) == (507, "quota")
    assert (await files.post("delete", json={"paths": ["a"]})).status_code == 200


async def test_a_server_that_is_gone_is_said_in_words(
    files: httpx.AsyncClient, served: Served
) -> None:
    served.process.kill()
    served.process.wait()
    answer = await files.get("list")
    assert (answer.status_code, answer.json()["code"]) == (503, "files-away")


async def test_files_that_are_not_open_are_said_so(
    gate: Running, alice: Any, cookie: Any, volume: Any
) -> None:
    async with gate.client(await cookie(alice)) as client:
        answer = await client.get(f"/gate/volumes/{volume.uid}/list")
    assert (answer.status_code, answer.json()["code"]) == (409, "files-closed")


async def test_a_token_needs_no_origin_and_a_reading_one_only_reads_shared_files(
    gate: Running, alice: Any, files: httpx.AsyncClient, served: Served, volume: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create

    (served.root / "a").write_text("x")
    make = sync_to_async(token_create)
    url = f"{gate.url}/gate/volumes/{volume.uid}"
    _token, secret = await make(who=principal(alice), name="all")
    _token, reading = await make(who=principal(alice), name="reads", read_only=True)
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {reading}"}, timeout=PATIENCE_S
    ) as client:
        assert (await client.get(f"{url}/file?path=a")).text == "x"
        assert (await client.get(f"{url}/list?path=")).status_code == 200
        assert (await client.post(f"{url}/delete", json={"paths": ["a"]})).status_code == 403
        assert (await client.put(f"{url}/file?path=b", content=b"y")).status_code == 403
        assert (await client.post(f"{url}/mkdir", json={"path": "c"})).status_code == 403
    assert [entry.name for entry in served.root.iterdir()] == ["a"]
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {secret}"}, timeout=PATIENCE_S
    ) as client:
        assert (await client.get(f"{url}/file?path=a")).text == "x"
        assert (await client.post(f"{url}/delete", json={"paths": ["a"]})).status_code == 200


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await sync_to_async(holds)():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)


async def test_nobody_waits_for_what_is_only_noted(
    files: httpx.AsyncClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use and writing are noted when the database has time: on one machine it has one writer."""
    from datetime import timedelta

    from common.clock import now
    from files.models import FileSession
    from gate import access

    held, notes = threading.Event(), []

    def busy(**said: Any) -> None:
        notes.append(said)
        assert held.wait(2 * PATIENCE_S)

    monkeypatch.setattr(access.services, "session_touch", busy)
    monkeypatch.setattr(access, "volume_measure_soon", busy)
    old = now() - timedelta(minutes=5)
    await sync_to_async(FileSession.objects.update)(last_used_at=old)
    try:
        async with asyncio.timeout(PATIENCE_S):
            put = await files.put("file", params={"path": "a"}, content=b"x")
            listed = [await files.get("list", params={"path": ""}) for _ in range(3)]
    finally:
        held.set()
    assert put.status_code == 201
    assert [one.json()["total"] for one in listed] == [1, 1, 1]
    await until(lambda: len(notes) == 2)
    await asyncio.sleep(0.1)
    assert sorted("uid" in said for said in notes) == [False, True]  # each of them once


async def test_using_it_keeps_it_open_and_deleting_is_history(
    files: httpx.AsyncClient, served: Served, volume: Any
) -> None:
    from datetime import timedelta

    from common.clock import now
    from events.models import Event
    from files.models import FileSession

    (served.root / "a").write_text("x")
    old = now() - timedelta(minutes=5)
    await sync_to_async(FileSession.objects.update)(last_used_at=old)
    await files.post("delete", json={"paths": ["a"]})
    await until(lambda: FileSession.objects.get().last_used_at > old)  # beside the answer
    told = Event.objects.filter(verb="volume.files-deleted")
    assert await sync_to_async(told.count)() == 1


async def test_a_large_upload_is_never_gathered(
    gate: Running, files: httpx.AsyncClient, served: Served
) -> None:
    """The server stops taking; the gate must stop reading, whatever the sender wants."""
    import psutil

    me = psutil.Process()
    made = (await files.post("uploads", json={"path": "b", "size": 300 << 20})).json()
    os.kill(served.process.pid, 19)  # SIGSTOP
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(300):
            sent += 1 << 20
            yield b"x" * (1 << 20)

    before = me.memory_info().rss
    task = asyncio.create_task(
        files.patch(
            f"uploads/{made['id']}",
            params={"offset": 0},
            content=body(),
            headers={"Content-Length": str(300 << 20)},
        )
    )
    await asyncio.sleep(2)
    assert sent < 60 << 20
    assert me.memory_info().rss - before < 80 << 20
    os.kill(served.process.pid, 18)  # SIGCONT
    assert (await task).json()["offset"] == 300 << 20


async def test_what_an_endpoint_serves_is_not_taken_away(
    files: httpx.AsyncClient, served: Served, volume: Any, project: Any, alice: Any
) -> None:
    """By no way of writing its path; what lies beside it goes as ever."""

    def serve() -> Any:
        from serving.models import Endpoint, Model, ModelVersion

        model = Model.objects.create(project=project, name="digits", created_by=alice)
        version = ModelVersion.objects.create(
            model=model, name="v1", source="volume", origin="x", volume=volume, folder="models/a"
        )
        return Endpoint.objects.create(
            project=project, owner=alice, name="reads", version=version, cluster_key="local"
        )

    (served.root / "models" / "a").mkdir(parents=True)
    (served.root / "models" / "a" / "model.onnx").write_bytes(b"x")
    (served.root / "models" / "ab").mkdir()
    endpoint = await sync_to_async(serve)()
    for path in ("models", "models/a", "models/a/model.onnx", "./models//a/", "%6dodels%2Fa"):
        for act, said in (
            ("delete", {"paths": ["models/ab", path]}),
            ("delete", {"paths": [path], "forever": True}),
            ("move", {"paths": [path], "to": "elsewhere"}),
            ("rename", {"path": path, "to": "other"}),
        ):
            answer = await files.post(act, json=said)
            assert (answer.status_code, answer.json()["code"]) == (409, "model-serves"), (path, act)
            assert "reads" in answer.json()["detail"]
    assert (served.root / "models" / "a" / "model.onnx").exists()
    assert (await files.post("delete", json={"paths": ["models/ab"]})).status_code == 200
    assert (await files.post("delete", json={"paths": ["../x"]})).status_code == 400
    wide = {"paths": ["x" * 200] * 6000}
    assert (await files.post("delete", json=wide)).status_code == 400
    await sync_to_async(endpoint.delete)()
    assert (await files.post("delete", json={"paths": ["models"]})).status_code == 200
