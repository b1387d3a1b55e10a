"""Pages of a listing that are asked for ahead, of stores that take the question in their own way."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy import pages
from dataplane.copy.journal import Journal, Row
from dataplane.copy.problems import Final
from dataplane.safepath import Folder
from tests.support.copying import Copying
from tests.support.hostile_store import Call, Handler, HostileS3, list_xml, row_xml

COUNT = 200
PAGE = 10
NAMES = [f"{n // 30:02d}/{n:04d}.bin" for n in range(COUNT)]


@pytest.fixture
def synced(load: Any, copying: Copying, hostile: HostileS3) -> Copying:
    """Everything is there; from now on it is told what was asked."""
    copying.mode = "sync"
    for name in NAMES:
        hostile.put(name, name.encode())
    hostile.page = PAGE
    assert load(copying)[0].final is Final.DONE
    hostile.calls.clear()
    return copying


def asked(hostile: HostileS3, word: str = "list-type") -> list[Call]:
    return [call for call in hostile.calls if word in call.query]


def there(copying: Copying) -> list[str]:
    return sorted(
        path.relative_to(copying.target).as_posix()
        for path in copying.target.rglob("*")
        if path.is_file()
    )


def test_what_an_earlier_run_saw_is_asked_for_ahead(
    load: Any, synced: Copying, hostile: HostileS3
) -> None:
    order, progress = load(synced, delete_extra=True)
    assert order.final is Final.DONE
    assert (progress.unchanged, progress.found, progress.deleted) == (COUNT, COUNT, 0)
    assert len(asked(hostile, "start-after")) > COUNT // PAGE // 2
    assert len(asked(hostile)) <= COUNT // (PAGE - 1) + 2  # each begins with what is known


def test_one_call_at_a_time_is_kept(load: Any, synced: Copying, hostile: HostileS3) -> None:
    order, progress = load(synced, concurrency=1)
    assert (order.final, progress.unchanged) == (Final.DONE, COUNT)
    assert not asked(hostile, "start-after")
    assert len(asked(hostile)) == COUNT // PAGE


def _without(*words: str) -> Callable[[Handler, Call], bool]:
    def ignores(handler: Handler, call: Call) -> bool:
        handler.listing(
            Call("GET", "", {k: v for k, v in call.query.items() if k not in words}, {})
        )
        return True

    return ignores


def _skips(handler: Handler, call: Call) -> bool:
    """Begins a little later than it was asked to."""
    at = NAMES.index(call.query["start-after"])
    later = NAMES[min(at + 1, COUNT - 1)]
    handler.listing(Call("GET", "", {**call.query, "start-after": later}, {}))
    return True


def _skips_the_folder(handler: Handler, call: Call) -> bool:
    folder = call.query["start-after"].partition("/")[0]
    handler.listing(Call("GET", "", {**call.query, "start-after": f"{folder}/~"}, {}))
    return True


def _begins_with_it(handler: Handler, call: Call) -> bool:
    at = NAMES.index(call.query["start-after"])
    if at == 0:
        return _without("start-after")(handler, call)
    handler.listing(Call("GET", "", {**call.query, "start-after": NAMES[at - 1]}, {}))
    return True


def _refuses(handler: Handler, _call: Call) -> bool:
    handler.error(400, "InvalidArgument")
    return True


def _hangs_up(handler: Handler, _call: Call) -> bool:
    handler.close_connection = True
    return True


def _says_nothing_is_left(handler: Handler, _call: Call) -> bool:
    handler.say(200, list_xml(""))
    return True


def _is_no_listing(handler: Handler, _call: Call) -> bool:
    handler.say(200, b"<html>hello</html>")
    return True


def _shuffles(handler: Handler, call: Call) -> bool:
    """Begins with the right key and is out of order from there."""
    at = NAMES.index(call.query["start-after"]) + 1
    some = [NAMES[at], *reversed(NAMES[at + 1 : at + PAGE])]
    rows = "".join(row_xml(n.encode(), handler.store.things[n.encode()]) for n in some)
    handler.say(200, list_xml(rows, base64.b64encode(some[-1].encode()).decode()))
    return True


def _says_the_last_page_again(handler: Handler, call: Call) -> bool:
    before = NAMES[max(0, NAMES.index(call.query["start-after"]) - PAGE)]
    handler.listing(Call("GET", "", {**call.query, "start-after": before}, {}))
    return True


@pytest.mark.parametrize(
    "answer",
    [
        _without("start-after"),
        _skips,
        _skips_the_folder,
        _begins_with_it,
        _refuses,
        _hangs_up,
        _says_nothing_is_left,
        _is_no_listing,
        _shuffles,
        _says_the_last_page_again,
    ],
    ids=lambda answer: answer.__name__.strip("_"),
)
def test_a_store_that_takes_it_otherwise_is_listed_page_by_page(
    load: Any, synced: Copying, hostile: HostileS3, answer: Callable[[Handler, Call], bool]
) -> None:
    """Nothing is missed, so nothing is deleted, and it is not asked in vain for ever."""

    def trick(handler: Handler, call: Call) -> bool:
        return "start-after" in call.query and answer(handler, call)

    hostile.tricks.append(trick)
    order, progress = load(synced, delete_extra=True)
    assert order.final is Final.DONE
    assert (progress.unchanged, progress.found, progress.deleted) == (COUNT, COUNT, 0)
    assert there(synced) == NAMES
    ahead = {call.query["start-after"] for call in asked(hostile, "start-after")}
    assert 0 < len(ahead) <= pages.LOST_MOST + pages.AHEAD
    assert len(asked(hostile, "list-type")) - len(asked(hostile, "start-after")) == COUNT // PAGE


def test_a_store_without_order_is_listed_page_by_page(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    """As directory buckets are: by no order that is known, and tokens only."""

    def backwards(handler: Handler, call: Call) -> bool:
        if "list-type" not in call.query:
            return False
        at = int(call.query.get("continuation-token", 0))
        some = NAMES[::-1][at : at + PAGE]
        rows = "".join(row_xml(n.encode(), hostile.things[n.encode()]) for n in some)
        handler.say(200, list_xml(rows, str(at + PAGE) if at + PAGE < COUNT else ""))
        return True

    copying.mode = "sync"
    for name in NAMES:
        hostile.put(name, name.encode())
    hostile.tricks.append(backwards)
    for _ in range(2):
        hostile.calls.clear()
        order, progress = load(copying, delete_extra=True)
        assert (order.final, progress.found, progress.deleted) == (Final.DONE, COUNT, 0)
        assert len(asked(hostile)) <= COUNT // PAGE + pages.LOST_MOST + pages.AHEAD
    assert progress.unchanged == COUNT
    assert there(copying) == NAMES


CHANGES: dict[str, tuple[list[str], list[str]]] = {
    "one more at the front": (["00/.first"], []),
    "one more in the middle": (["03/0100.bin.more"], []),
    "many more at the end": ([f"99/{n:03d}" for n in range(3 * PAGE)], []),
    "the first gone": ([], NAMES[:1]),
    "ends of pages gone": ([], NAMES[PAGE - 1 :: PAGE]),
    "the second half gone": ([], NAMES[COUNT // 2 :]),
    "all but one gone": ([], NAMES[1:]),
    "here and there": ([NAMES[5], "02/~", "04/x"], NAMES[17::31]),
    "another order of magnitude": ([f"05/{n:05d}.x" for n in range(10 * PAGE)], NAMES[::7]),
}


@pytest.mark.parametrize(("more", "gone"), CHANGES.values(), ids=CHANGES)
def test_whatever_changed_is_found(
    load: Any, synced: Copying, hostile: HostileS3, more: list[str], gone: list[str]
) -> None:
    for name in gone:
        hostile.things.pop(name.encode())
    for name in more:
        hostile.put(name, b"new " + name.encode())
    wanted = sorted(key.decode() for key in hostile.things)
    order, progress = load(synced, delete_extra=True)
    assert order.final is Final.DONE
    assert there(synced) == wanted
    assert (progress.done, progress.deleted) == (len(more), len(gone))
    assert len(asked(hostile)) <= len(wanted) // (PAGE - 1) + pages.LOST_MOST + 2 * pages.AHEAD


def test_a_name_that_can_not_be_read_is_named_once(
    load: Any, synced: Copying, hostile: HostileS3
) -> None:
    """It stands at the end of a page, where what follows it is asked for by a key."""
    hostile.put(b"00/0009.bin\xff", b"bad")
    hostile.put(b"03/0098.bin\xff", b"bad")
    order, progress = load(synced, delete_extra=True)
    assert order.final is Final.PARTIAL
    assert (progress.skipped, progress.unchanged, progress.deleted) == (2, COUNT, 0)


def test_a_file_changed_or_deleted_by_hand_is_noticed(
    load: Any, synced: Copying, hostile: HostileS3
) -> None:
    (synced.target / NAMES[42]).write_bytes(b"by hand")
    (synced.target / NAMES[137]).unlink()
    order, progress = load(synced)
    assert order.final is Final.DONE
    assert (progress.done, progress.unchanged) == (2, COUNT - 2)
    assert (synced.target / NAMES[42]).read_bytes() == NAMES[42].encode()


def test_an_export_asks_ahead_too(load: Any, copying: Copying, hostile: HostileS3) -> None:
    for name in NAMES:
        path = copying.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    hostile.page = PAGE
    copying.direction = "out"
    assert load(copying)[0].final is Final.DONE
    hostile.calls.clear()
    order, progress = load(copying)
    assert (order.final, progress.unchanged, progress.done) == (Final.DONE, COUNT, 0)
    assert len(asked(hostile, "start-after")) > COUNT // PAGE // 2


# --- the journal --------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Folder.at(tmp_path) as folder:
        one = Journal(folder)
        one.put([Row(n, f"raw/{n}", 1, "e", "", 0, 0, "", "", 1) for n in NAMES])
        yield one
        one.close()


@pytest.mark.parametrize(
    "paths",
    [[], NAMES, NAMES[3:5], NAMES[::50], [NAMES[-1], NAMES[0]], ["none", NAMES[7], "00", "日本"]],
    ids=["nothing", "all", "a few", "far apart", "backwards", "some unknown"],
)
def test_rows_are_found_wherever_they_lie(journal: Journal, paths: list[str]) -> None:
    found = journal.rows(paths)
    assert {path: found[path].key for path in paths if path in found} == {
        path: f"raw/{path}" for path in paths if path in NAMES
    }


def test_the_end_of_a_page_is_told_while_more_follows(journal: Journal) -> None:
    assert journal.ends("", 10) == (f"raw/{NAMES[8]}", f"raw/{NAMES[9]}")
    assert journal.ends(NAMES[9], 10) == (f"raw/{NAMES[18]}", f"raw/{NAMES[19]}")
    assert journal.ends("", COUNT - 1) == (f"raw/{NAMES[-3]}", f"raw/{NAMES[-2]}")
    assert journal.ends("", COUNT) is None
    assert journal.ends("", 1) is None
