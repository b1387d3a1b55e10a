"""The files panel: what is shown, carried, refused; names of any bytes."""

import asyncio
import contextlib
import hashlib
import html
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import httpx
import pytest
from asgiref.sync import sync_to_async
from hypothesis import given
from hypothesis import strategies as st

from gate import scripts
from tests.gate.conftest import PATIENCE_S, Running, until, with_ticket
from tests.gate.fake_kube import FakeKube


@pytest.fixture
async def files(gate: Running, alice: Any, cookie: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with gate.client(await cookie(alice)) as client:
        yield client


@pytest.fixture
def base(workspace: Any) -> str:
    return f"/gate/files/{workspace.short_id}"


async def test_the_home_is_listed_folders_first(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    (kube.home / "b.txt").write_text("hello")
    (kube.home / "data").mkdir()
    (kube.home / "link").symlink_to("/etc/passwd")
    said = (await files.get(f"{base}/list")).json()
    shown = [(e["name"], e["kind"], e["size"]) for e in said["entries"]]
    assert [row[:2] for row in shown] == [("data", "folder"), ("b.txt", "file"), ("link", "link")]
    assert shown[1][2] == 5
    assert said["truncated"] is False


HOSTILE = [
    b"a\nb",
    b"-rf",
    b"$(touch x)",
    b"a'b\"c",
    b"\xff\xfe",
    "ü 漢".encode(),
    b"..x",
    b"a%b\\n",
    b"* ?",
]


@pytest.mark.parametrize("name", HOSTILE)
async def test_d1_names_of_any_bytes_go_there_and_back(
    files: httpx.AsyncClient, base: str, kube: FakeKube, name: bytes
) -> None:
    path = quote_from_bytes(b"dir " + name + b"/" + name)
    made = await files.post(f"{base}/act", json={"act": "mkdir", "path": path.rsplit("/", 1)[0]})
    assert made.status_code == 200, made.text
    put = await files.put(f"{base}/upload", params={"path": path}, content=b"inside")
    assert put.status_code == 201, put.text
    assert (
        Path(os.fsdecode(os.fsencode(kube.home) + b"/dir " + name)) / os.fsdecode(name)
    ).exists()
    said = (await files.get(f"{base}/list", params={"path": path.rsplit("/", 1)[0]})).json()
    (entry,) = said["entries"]
    assert entry["kind"] == "file"
    assert "\n" not in entry["name"]
    got = await files.get(f"{base}/download", params={"path": entry["path"]})
    assert got.content == b"inside"
    gone = await files.post(f"{base}/act", json={"act": "delete", "path": entry["path"]})
    assert gone.status_code == 200
    assert sorted(p.name for p in kube.home.iterdir()) == [os.fsdecode(b"dir " + name)]


async def test_large_files_arrive_whole_both_ways(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    data = os.urandom(7 * 1024 * 1024 + 13)
    put = await files.put(f"{base}/upload", params={"path": "big.bin"}, content=data)
    assert put.status_code == 201, put.text
    assert (kube.home / "big.bin").read_bytes() == data
    got = await files.get(f"{base}/download", params={"path": "big.bin"})
    assert hashlib.sha256(got.content).digest() == hashlib.sha256(data).digest()
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["access-control-allow-origin"] == "http://localhost:8000"


async def test_what_is_carried_is_in_the_audit_by_name(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    from events.models import Event

    await files.put(f"{base}/upload", params={"path": "a.txt"}, content=b"not in the audit")
    await files.get(f"{base}/download", params={"path": "a.txt"})
    await files.post(f"{base}/act", json={"act": "delete", "path": "a.txt"})
    await files.get(f"{base}/download", params={"path": "nothing"})
    rows = Event.objects.filter(verb__startswith="workspace.file-").order_by("pk")
    said = await sync_to_async(lambda: [(e.verb, e.actor_name, e.data) for e in rows])()
    path = {"by": "session", "path": "a.txt"}
    assert said == [
        ("workspace.file-uploaded", "alice", path),
        ("workspace.file-downloaded", "alice", path),
        ("workspace.file-changed", "alice", {**path, "act": "delete"}),
    ]


async def test_whether_a_download_would_be_refused_is_told_without_one(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    from events.models import Event

    (kube.home / "a.txt").write_text("contents")
    (kube.home / "data").mkdir()
    for act, path, status in (
        ("download", "a.txt", 204),
        ("archive", "data", 204),
        ("archive", "", 204),
        ("download", "data", 409),
        ("download", "gone", 404),
        ("archive", "gone", 404),
    ):
        said = await files.get(f"{base}/{act}", params={"path": path, "check": "1"})
        assert (said.status_code, said.headers.get("content-disposition")) == (status, None)
        assert b"contents" not in said.content
        assert status == 204 or said.json()["detail"]
    rows = Event.objects.filter(verb="workspace.file-downloaded")
    assert not await sync_to_async(rows.exists)()


async def test_who_follows_a_link_to_what_is_refused_reads_a_page(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    asked = {"path": "gone"}
    told = await files.get(f"{base}/download", params=asked)
    read = await files.get(f"{base}/download", params=asked, headers=browser)
    kinds = [said.headers["content-type"].partition(";")[0] for said in (told, read)]
    assert kinds == ["application/problem+json", "text/html"]
    assert (told.status_code, read.status_code) == (404, 404)
    assert f"<p>{html.escape(told.json()['detail'])}</p>" in read.text
    policy = read.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; frame-ancestors 'none'; style-src 'sha256-")
    (kube.home / "a.txt").write_text("contents")
    got = await files.get(f"{base}/download", params={"path": "a.txt"}, headers=browser)
    assert (got.status_code, got.content) == (200, b"contents")


@pytest.mark.parametrize("check", ["0", "1"])
def test_what_only_its_mode_forbids_is_refused_before_anything_is_sent(check: str) -> None:
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    with tempfile.TemporaryDirectory() as home:  # one that is open to everybody
        Path(home).chmod(0o755)
        (Path(home) / "secret").touch(mode=0o000)
        (Path(home) / "closed").mkdir(mode=0o000)
        for what, name in ((scripts.DOWNLOAD, "secret"), (scripts.ARCHIVE, "closed")):
            said = subprocess.run(
                scripts.command(what, "", name, check),
                env={"HOME": home, "PATH": os.environ["PATH"]},
                capture_output=True,
                check=False,
                **(nobody if os.geteuid() == 0 else {}),
            )
            assert said.stdout == b"no denied\n"
    assert scripts.refusal("denied").message == "The file system does not allow this."


async def test_a_folder_comes_as_a_tar(files: httpx.AsyncClient, base: str, kube: FakeKube) -> None:
    (kube.home / "data").mkdir()
    (kube.home / "data" / "x").write_text("one")
    got = await files.get(f"{base}/archive", params={"path": "data"})
    with tarfile.open(fileobj=io.BytesIO(got.content)) as found:
        assert sorted(found.getnames()) == ["./data", "./data/x"]


async def test_d1_nothing_outside_the_home_is_given(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    (kube.home / "out").symlink_to("/etc")
    (kube.home / "pw").symlink_to("/etc/passwd")
    for path in ("../x", "a/../../x", "..", "%2e%2e/x"):
        assert (await files.get(f"{base}/list", params={"path": path})).status_code == 400
    assert (await files.get(f"{base}/list", params={"path": "out"})).status_code == 403
    assert (await files.get(f"{base}/download", params={"path": "pw"})).status_code == 403
    assert (await files.get(f"{base}/download", params={"path": "out/passwd"})).status_code == 403
    assert (await files.get(f"{base}/archive", params={"path": "out"})).status_code == 403
    put = await files.put(f"{base}/upload", params={"path": "out/x"}, content=b"1")
    assert put.status_code == 403
    assert (await files.get(f"{base}/list", params={"path": "a%00b"})).status_code == 400


async def test_what_is_there_is_not_overwritten_unasked(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    (kube.home / "a").write_text("old")
    put = await files.put(f"{base}/upload", params={"path": "a"}, content=b"new")
    assert (put.status_code, put.json()["code"]) == (409, "exists")
    put = await files.put(f"{base}/upload", params={"path": "a", "replace": "1"}, content=b"new")
    assert put.status_code == 201
    assert (kube.home / "a").read_text() == "new"
    (kube.home / "b").write_text("b")
    moved = await files.post(f"{base}/act", json={"act": "rename", "path": "b", "to": "a"})
    assert moved.json()["code"] == "exists"
    moved = await files.post(f"{base}/act", json={"act": "rename", "path": "b", "to": "c"})
    assert moved.status_code == 200
    assert (kube.home / "c").read_text() == "b"


async def test_half_an_upload_leaves_nothing(
    gate: Running, base: str, kube: FakeKube, alice: Any, cookie: Any
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    path = with_ticket(f"{base}/upload?path=half", await cookie(alice))
    head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(head.encode() + b"x" * 400_000)
    await writer.drain()
    await until(lambda: list(kube.home.iterdir()))
    writer.close()
    # The file goes first, then the gate hears that its stream is at its end.
    await until(lambda: not list(kube.home.iterdir()) and not gate.gate.guard.streams)
    del reader


async def test_a_download_that_breaks_does_not_look_whole(
    files: httpx.AsyncClient, base: str, kube: FakeKube
) -> None:
    (kube.home / "big").write_bytes(b"x" * 50_000_000)

    async def read() -> None:
        async with files.stream("GET", f"{base}/download", params={"path": "big"}) as got:
            async for _part in got.aiter_raw():
                for process in list(kube.running):
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()

    with pytest.raises(httpx.RemoteProtocolError):
        await read()


async def test_f4_a_slow_reader_is_cut_and_holds_little(
    gate: Running, base: str, kube: FakeKube, alice: Any, cookie: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gate.web.SLOW_S", 1.0)
    (kube.home / "big").write_bytes(b"x" * 80_000_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, limit=4096)
    path = with_ticket(f"{base}/download?path=big", await cookie(alice))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await reader.read(100)
    await until(lambda: not gate.gate.guard.streams and not kube.running)
    writer.close()


async def test_others_get_nothing(
    gate: Running, base: str, bob: Any, charlie: Any, alice: Any, cookie: Any
) -> None:
    for user, status in ((bob, 403), (charlie, 404)):
        async with gate.client(await cookie(user)) as client:
            assert (await client.get(f"{base}/list")).status_code == status
            put = await client.put(f"{base}/upload", params={"path": "x"}, content=b"1")
            assert put.status_code == status
    async with gate.client() as client:
        assert (await client.get(f"{base}/list")).status_code == 401
    async with gate.client(await cookie(alice), Origin="http://evil.example") as client:
        assert (await client.get(f"{base}/list")).status_code == 403
        act = {"act": "delete", "path": "x"}
        assert (await client.post(f"{base}/act", json=act)).status_code == 403


async def test_a_link_to_a_download_works_without_an_origin(
    gate: Running, base: str, kube: FakeKube, alice: Any, cookie: Any
) -> None:
    (kube.home / "a").write_text("x")
    link = with_ticket(f"{base}/download?path=a", await cookie(alice))
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    async with httpx.AsyncClient(base_url=gate.url, timeout=PATIENCE_S) as client:
        assert (await client.get(link, headers=headers)).text == "x"


async def test_a_visitor_who_was_let_in_may_use_files(
    gate: Running, base: str, workspace: Any, bob: Any, cookie: Any
) -> None:
    from work.models import Share

    await sync_to_async(Share.objects.create)(workload=workspace, user=bob)
    async with gate.client(await cookie(bob)) as client:
        assert (await client.get(f"{base}/list")).status_code == 200


async def test_odd_requests_are_told_what_is_wrong(files: httpx.AsyncClient, base: str) -> None:
    assert (await files.post(f"{base}/act", content=b"{nope")).status_code == 400
    assert (await files.post(f"{base}/act", json=["x"])).status_code == 400
    assert (await files.post(f"{base}/act", json={"act": "chmod", "path": "x"})).status_code == 400
    assert (await files.get(f"{base}/download", params={"path": "nothing"})).status_code == 404
    assert (await files.get(f"{base}/download", params={"path": ""})).status_code == 400
    assert (await files.get(f"{base}/list", params={"path": "x" * 5000})).status_code == 400


@given(st.binary(min_size=1, max_size=40).filter(lambda b: b"\0" not in b))
def test_escaped_names_are_plain_ascii(name: bytes) -> None:
    text = scripts.escaped(name)
    assert text.isascii()
    assert text.isprintable()
    assert "%" not in text


def test_a_listing_that_was_cut_says_so() -> None:
    record = b"81a4 5 1700000000 ./a\n b//\n"
    entries, cut = scripts.parse(record * 2 + b"81a4 5 17000")
    assert (len(entries), cut) == (2, True)
    assert entries[0].name == b"a\n b"
    assert scripts.parse(b"") == ([], False)
