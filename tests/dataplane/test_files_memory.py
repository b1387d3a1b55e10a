"""What many and large requests may hold together (C11): the server's memory is 256 MiB."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchmarks.lib import poll
from dataplane.files import listing, memory, notes, server, zipping
from dataplane.files.http import MOST_CONNECTIONS
from dataplane.files.memory import Line, Room, Share
from dataplane.files.names import Refusal
from dataplane.files.tree import Tree
from dataplane.safepath import Folder
from tests.support.files_served import Served, code

LIMIT_KIB = 256 * 1024
MANY = 60_000


def filled(folder: Path, count: int, name: Callable[[int], bytes]) -> None:
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY)
    try:
        for number in range(count):
            os.close(os.open(name(number), os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    finally:
        os.close(fd)
    os.utime(folder, (1, 1))


def peak_kib(server: Served) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def another(server: Served) -> httpx.Client:
    base, headers = server.http.base_url, server.http.headers
    return httpx.Client(base_url=base, headers=headers, timeout=180, trust_env=False)


# --- the hostile case ------------------------------------------------------------------------------


@pytest.mark.long("a flood; the bounds themselves: the tests beside it")
def test_c11_64_listings_of_huge_folders_do_not_end_the_server(files: Served) -> None:
    """Each order costs tens of MiB: who can't be served is told so, and all else goes on."""
    filled(files.root / "many", MANY, lambda n: b"%06d" % n + b"\xff" * 120)
    orders = [(sort, order) for sort in listing.SORTS for order in ("asc", "desc")]

    def one(number: int) -> tuple[int, str]:
        sort, order = orders[number % len(orders)]
        query = {"path": "many", "sort": sort, "order": order, "limit": 1000}
        with another(files) as client:
            answer = client.get("/list", params=query)
        if answer.status_code == 200:
            return 200, str(len(answer.json()["entries"]))
        return code(answer)

    with ThreadPoolExecutor(64) as pool:
        asked = [pool.submit(one, number) for number in range(64)]
        time.sleep(0.5)
        sent = files.http.put("/file", params={"path": "mine"}, content=b"x" * 100_000)
        assert files.names() == ["many", "mine"]
        found = Counter(answer.result() for answer in asked)
    assert sent.status_code == 201
    assert set(found) <= {(200, "1000"), (503, "busy")}
    assert found[200, "1000"] >= 1
    assert peak_kib(files) < LIMIT_KIB * 3 // 4


def test_c11_connections_that_nobody_uses_keep_nobody_out(files: Served) -> None:
    """A gate keeps them for its next request; another gate has none."""
    idle = [another(files) for _number in range(MOST_CONNECTIONS + 8)]
    try:
        assert [client.get("/info").status_code for client in idle] == [200] * len(idle)
    finally:
        for client in idle:
            client.close()


def test_c11_heads_of_strangers_are_small(files: Served) -> None:
    """On one machine the work of others reaches the port, though it knows no token."""
    line = b"X-Much: " + b"x" * 60_000 + b"\r\n"
    strangers = [socket.create_connection(("127.0.0.1", files.port), 20) for _n in range(40)]
    for stranger in strangers:
        with contextlib.suppress(ConnectionError):
            stranger.sendall(b"GET /list HTTP/1.1\r\n" + line * 90)
    for stranger in strangers:
        with contextlib.suppress(ConnectionError):
            assert stranger.recv(100).split()[1:2] in ([b"431"], [])
        stranger.close()
    assert peak_kib(files) < 64 * 1024
    assert files.names() == []


def test_c11_names_of_nothing_but_numbers_cost_no_more_than_others(files: Served) -> None:
    filled(files.root / "odd", 15_000, lambda n: b"%05d" % n + b"a1" * 120)
    said = files.http.get("/list", params={"path": "odd", "limit": 10}).json()
    assert (said["total"], said["truncated"]) == (15_000, False)
    assert peak_kib(files) < 96 * 1024


def test_c11_a_notebook_of_nothing_but_brackets_is_shown_as_text(files: Served) -> None:
    """In memory they would be thirty times as much."""
    brackets = b"[{}]," * (7 * memory.MIB // 5)
    (files.root / "n.ipynb").write_bytes(b'{"cells": [' + brackets + b"0]}")
    said = files.http.get("/preview", params={"path": "n.ipynb"}).json()
    assert (said["kind"], said["truncated"]) == ("text", True)
    assert peak_kib(files) < 80 * 1024


def test_c11_large_notebooks_are_looked_at_one_after_another(files: Served) -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n"] * 30_000, "outputs": []}
    text = json.dumps({"cells": [cell] * 20})
    assert 6 * memory.MIB < len(text) < 8 * memory.MIB
    (files.root / "n.ipynb").write_text(text)

    def one(_number: int) -> tuple[int, str]:
        with another(files) as client:
            answer = client.get("/preview", params={"path": "n.ipynb"})
        return (200, answer.json()["kind"]) if answer.status_code == 200 else code(answer)

    with ThreadPoolExecutor(16) as pool:
        found = Counter(pool.map(one, range(16)))
    assert set(found) <= {(200, "notebook"), (503, "busy")}
    assert found[200, "notebook"] >= 1
    assert peak_kib(files) < LIMIT_KIB * 3 // 4


def test_c11_a_request_of_nothing_but_brackets_is_not_read(files: Served) -> None:
    body = b'{"paths": [' + b"[{}]," * (7 * memory.MIB // 5) + b"0]}"
    assert code(files.http.post("/count", content=body)) == (413, "too-large")
    assert peak_kib(files) < 80 * 1024


def test_c11_the_table_of_an_archive_is_packed_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million paths are some hundred MiB as they are written."""
    table, written = zipping._Table(), hashlib.sha256()
    with Share() as held:
        held.need(memory.LEAST_LARGE)
        for number in range(50_000):
            line = b"PK%046d" % 0 + b"a/long/path/of/many/parts/" * 4 + b"%07d" % number
            table.add(line)
            written.update(line)
            assert table.fits(held)
        assert held.size == memory.LEAST_LARGE
        again = hashlib.sha256()
        size = 0
        for part in table.parts():
            again.update(part)
            size += len(part)
    assert (size, again.digest()) == (table.size, written.digest())
    monkeypatch.setattr(memory, "LARGE", Room(16 * memory.MIB))  # sooner full than the real one
    with Share() as held:
        held.need(memory.LARGE.most)
        crowded = zipping._Table()
        while crowded.fits(held):
            crowded.add(os.urandom(memory.MIB))
        assert crowded.size < memory.LARGE.most + memory.MIB


def test_c11_made_up_notes_of_uploads_are_not_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Tree(tmp_path).writable() as top:
        with top.folder(notes.UPLOADS, make=True):
            pass
        for number in range(20):
            said = {"path": f"f{number}", "size": 1}
            notes.write(top, notes.asked(said, "p1"))
        assert len(list(notes.of_person(top, "p1", 3))) == 3
        assert not list(notes.of_person(top, "p2", 3))
        monkeypatch.setattr(notes, "MOST_SEEN", 10)
        assert len(list(notes.all_of(top))) <= 10


def test_c11_what_was_selected_is_kept_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SELECTED_LETTERS", 100)
    one = server.Files(Tree(tmp_path))
    for _number in range(5):
        one._keep_selection(["x" * 40])
    assert len(one._selections) == 2


# --- orders --------------------------------------------------------------------------------------


@pytest.fixture
def small_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "SMALL_BYTES", 2000)


def page(listings: listing.Listings, root: Path, **asked: object) -> dict[str, object]:
    said = {"sort": "name", "descending": False, "offset": 0, "limit": 1000, **asked}
    with Folder.at(root) as top, Share() as held:
        return listings.page(top, "", held, **said)  # type: ignore[arg-type]


def named(said: dict[str, object]) -> list[str]:
    return [entry["name"] for entry in said["entries"]]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("small_is_little")
def test_a_large_folder_is_in_the_same_order_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"Run {number}.{'ab'[number % 2]}").write_text("x" * (number % 7))
    (tmp_path / "run 007").mkdir()
    for sort in listing.SORTS:
        for descending in (False, True):
            large = named(page(listing.Listings(), tmp_path, sort=sort, descending=descending))
            with monkeypatch.context() as patch:
                patch.setattr(listing, "SMALL_BYTES", memory.MIB)
                asked = page(listing.Listings(), tmp_path, sort=sort, descending=descending)
            assert large == named(asked)
            assert len(large) == 41


@pytest.mark.usefixtures("small_is_little")
def test_pages_of_a_large_folder_end_where_it_ends(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("")
    listings = listing.Listings()
    parts = [named(page(listings, tmp_path, offset=at, limit=20)) for at in (0, 20, 40, 60)]
    assert [len(part) for part in parts] == [20, 20, 10, 0]
    assert [name for part in parts for name in part] == [f"{number:02}" for number in range(50)]


class Counted(Line):
    places = 0

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        self.places += 1  # by who holds the lock of the listings
        with super().place():
            yield


@pytest.mark.usefixtures("small_is_little")
def test_who_waited_for_a_folder_does_not_read_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it was changed in this very second: it was read after they asked."""
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("")
    listings, reads, go = listing.Listings(), [], threading.Event()
    inner = listing._names

    def slowly(folder: Folder, path: str, most: int, held: Share | None = None) -> object:
        found = inner(folder, path, most, held)
        if held is not None:
            reads.append(path)
            go.wait(60)
        return found

    monkeypatch.setattr(listing, "_names", slowly)
    monkeypatch.setattr(memory, "LINE", counted := Counted())
    monkeypatch.setattr(memory, "PATIENCE_S", 60.0)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(page, listings, tmp_path)
        poll(lambda: bool(reads), within_s=60, every_s=0.01)
        others = [pool.submit(page, listings, tmp_path) for _ in range(3)]
        poll(lambda: counted.places == 3, within_s=60, every_s=0.01)
        os.utime(tmp_path)  # what the first one reads may be older than what the others want
        go.set()
        totals = [one.result(60)["total"] for one in (first, *others)]
    assert totals == [50] * 4
    assert len(reads) == 2


@pytest.mark.usefixtures("small_is_little")
def test_names_beyond_the_memory_for_them_are_left_to_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_BYTES", 4000)
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("")
    said = page(listing.Listings(), tmp_path)
    assert said["truncated"] is True
    assert 10 < len(named(said)) < 50


@pytest.mark.usefixtures("small_is_little")
def test_a_folder_for_which_there_is_no_room_now_is_no_part_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PATIENCE_S", 0.1)
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("")
    listings = listing.Listings()
    with Share() as other:
        other.need(memory.LARGE.most)
        with pytest.raises(Refusal, match="try again"):
            page(listings, tmp_path)
    assert page(listings, tmp_path)["total"] == 50  # nobody holds the turn


def test_where_a_link_leads_is_cut_at_a_length(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x" * 4000)
    entry = page(listing.Listings(), tmp_path)["entries"][0]  # type: ignore[index]
    assert len(entry["target"]) == 401


# --- the room --------------------------------------------------------------------------------------


def test_what_is_small_does_not_wait_behind_what_is_large() -> None:
    with Share() as large, Share() as small:
        large.need(memory.LARGE.most)
        begun = time.monotonic()
        small.need(memory.MIB)
        assert time.monotonic() - begun < memory.PATIENCE_S / 2


def test_who_waits_gets_what_another_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PATIENCE_S", 20.0)
    first, then = Share(), Share()
    first.need(memory.LARGE.most)
    timer = threading.Timer(0.2, first.close)
    timer.start()
    with then:
        then.need(memory.LARGE.most)
        assert not then.grow(1)
    timer.join()
    first.close()  # again
    assert memory.LARGE.take(memory.LARGE.most)
    memory.LARGE.give(memory.LARGE.most)


def test_the_line_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LINE", Line(0))
    room = Room(10)
    monkeypatch.setattr(memory, "LARGE", room)
    with Share() as first, Share() as second:
        monkeypatch.setattr(memory, "IS_SMALL", 0)
        first.need(10)
        with pytest.raises(Refusal) as refused:
            second.need(1)
    assert (refused.value.status, refused.value.code) == (503, "busy")


def test_who_waited_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = threading.Semaphore(0)
    with pytest.raises(Refusal, match="try again"), memory.LINE.turn(turns, 0.05):
        pytest.fail("it had no turn")
