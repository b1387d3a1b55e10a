"""What a program tells among its log's lines: by container and stamp, whichever process reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.drivers.kubernetes import events, names
from runtime.drivers.kubernetes.logs import Logs
from runtime.drivers.kubernetes.shapes import job
from runtime.drivers.kubernetes.shapes.base import firsts
from runtime.protocol import NotYet
from tests.drivers.kubernetes.pieces import AT, LATER, NS, ended, pod, runs
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.test_jobs import built, load

WHERE = ("ws-k7", NS)
SECOND = 100  # lines that the made-up log has of one


def event(step: int) -> bytes:
    return json.dumps({"step_count": step, "step_start_time": step}).encode()


class Node:
    """The logs that a node has: container → (second, line); it answers as a kubelet does."""

    def __init__(self, stub: Stub) -> None:
        self.logs: dict[str, list[tuple[int, bytes]]] = {}
        self.sent = 0
        stub.fault = self._answer

    def _answer(self, handler: Any, _method: str, path: str, query: dict[str, str]) -> bool:
        path = path.partition("?")[0]
        if not path.endswith("/log"):
            return False
        name = path.split("/")[-2] + ("-previous" if query.get("previous") else "")
        since = query.get("sinceTime", "")
        lines = [
            (f"2026-11-21T06:{at // 60:02}:{at % 60:02}.{n:09}Z", line)
            for n, (at, line) in enumerate(self.logs.get(name, []))
        ]
        wanted = [
            f"{stamp} ".encode() + line + b"\n" for stamp, line in lines if stamp[:19] >= since[:19]
        ]
        wanted = wanted[-int(query["tailLines"]) :] if query.get("tailLines") else wanted
        body = b"".join(wanted)[: int(query["limitBytes"])]
        self.sent += len(body)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return True


@pytest.fixture
def stub(tmp_path: Any) -> Iterator[Stub]:
    made = Stub(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def node(stub: Stub) -> Node:
    return Node(stub)


@pytest.fixture
def logs(stub: Stub) -> Logs:
    return Logs(stub.client())


def one(name: str, *, at: str = AT, main: Any = None) -> dict[str, Any]:
    meta = {"name": name, "uid": name, "creationTimestamp": at}
    return pod(main=main or runs(containerID=f"containerd://{name}"), metadata=meta)


def read(logs: Logs, *pods: Any, limit: int = 1 << 20) -> Callable[[], list[int]]:
    """Return what reads on: numbers of the steps that were told since."""
    cursor = ""

    def further(*now: Any) -> list[int]:
        nonlocal cursor
        found = []
        for _ in range(50):
            part = logs.read_events(now or pods, WHERE, 1, cursor, limit)
            found += [json.loads(line)["step_count"] for line in part.data.splitlines()]
            cursor = part.cursor
            if not part.more:
                return found
        raise AssertionError("there is always more")

    return further


def test_g9_each_line_is_read_once_and_no_more_than_was_printed_since(
    node: Node, logs: Logs
) -> None:
    lines = node.logs["a"] = [(0, b"x" * 1000) for _ in range(1000)]
    lines += [(1, event(0)), (1, b"50%\r{progress}"), (2, event(1))]
    more = read(logs, one("a"))
    assert more() == [0, 1]
    node.sent = 0
    assert more() == []
    assert node.sent < 200  # what there is of the last second
    lines += [(2, event(2)), (3, b"{" + b"x" * 5000 + b'_time"}'), (3, event(3))]
    assert more() == [2, 3]


def test_g9_a_pod_that_takes_anothers_place_is_read_from_its_begin_after_the_rest_of_that(
    node: Node, logs: Logs
) -> None:
    node.logs["first"] = [(0, event(0))]
    more = read(logs, first := one("first"))
    assert more() == [0]
    node.logs["first"] += [(0, event(1))]
    node.logs["second"] = [(9, b"a line"), *((9, event(n)) for n in range(10, 14))]
    second = one("second", at=LATER)
    assert more(second, first) == [1, 10, 11, 12, 13]
    assert more(second) == []  # the one that failed was swept away
    third = one("third", at="2026-11-21T06:10:00Z")
    node.logs["third"] = [(600, event(20))]
    assert more(third) == [20]


def test_g9_a_container_that_its_node_starts_again_is_another(node: Node, logs: Logs) -> None:
    again = one("a", main=ended(1) | {"containerID": "containerd://2"})
    again["status"]["containerStatuses"][0]["lastState"]["terminated"]["containerID"] = (
        "containerd://a"
    )
    node.logs["a"] = [(0, event(0))]
    more = read(logs, one("a"))
    assert more() == [0]
    node.logs = {"a-previous": [(0, event(0)), (0, event(1))], "a": [(5, event(7))]}
    assert more(again) == [1, 7]


def test_g9_what_a_stop_keeps_goes_on_where_the_pod_was_left(
    node: Node, logs: Logs, stub: Stub
) -> None:
    owner = {
        "metadata": {
            "name": "ws-k7",
            "namespace": NS,
            "annotations": {names.LAUNCH: "1"},
            "labels": {},
        }
    }
    pods = [one("silent"), one("a", at=LATER)]
    node.logs["silent"] = [(0, b"no word")]
    node.logs["a"] = [(1, event(0)), (1, b"a line")]
    more = read(logs, *pods)
    assert more() == [0]
    node.logs["a"] += [(2, event(1)), (3, event(2))]
    logs.keep(owner, [pods[-1]], pods)
    answers = stub.fault
    stub.fault = lambda *_: False
    found = logs.read_events([], WHERE, 1, "containerd://silent ", 1 << 20)
    assert [json.loads(line)["step_count"] for line in found.data.splitlines()] == [0, 1, 2]
    cursor = f"containerd://a 2026-11-21T06:00:01.{1:09}Z"
    found = logs.read_events([], WHERE, 1, cursor, 1 << 20)
    assert [json.loads(line)["step_count"] for line in found.data.splitlines()] == [1, 2]
    assert logs.read_events([], WHERE, 1, found.cursor, 1 << 20).data == b""
    assert logs.read_events([], WHERE, 2, found.cursor, 1 << 20).data == b""  # of another launch
    stub.fault = answers


def test_g9_a_second_with_more_than_an_answer_holds_is_passed_over_and_no_other(
    node: Node, logs: Logs
) -> None:
    flood = [(1, b"x" * 90) for _ in range(SECOND)]
    node.logs["a"] = [(0, event(0)), *flood, (1, event(1)), (2, event(2)), (3, event(3))]
    assert read(logs, one("a"), limit=2000)() == [0, 2, 3]
    node.logs["a"] = [(0, b"x" * 5000), (1, event(5))]  # no whole line at first
    more = read(logs, one("a"), limit=2000)
    assert (more(), more()) == ([], [5])
    node.logs["a"] = [(0, event(0)), *flood, (1, event(1)), (2, event(2)), (3, event(3))]
    assert read(logs, one("a"))() == [0, 1, 2, 3]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_g9_what_a_node_does_not_give_now_is_no_end(
    status: int, node: Node, logs: Logs, stub: Stub
) -> None:
    node.logs["a"] = [(0, event(0))]
    more = read(logs, one("a"))
    assert more() == [0]
    node.logs["a"] += [(1, event(1))]
    answers, stub.fault = stub.fault, lambda handler, *_: handler.refuse(status) or True
    with pytest.raises(NotYet):
        more()
    stub.fault = answers
    assert more() == [1]
    stub.fault = lambda handler, *_: handler.refuse(404) or True  # its container is gone
    assert more() == []


def test_g9_a_bar_of_progress_longer_than_an_answer_is_stepped_over_faster_each_time(
    node: Node, logs: Logs, stub: Stub
) -> None:
    """It ends no line for half an hour, after an hour of silence."""
    node.logs["a"] = [(0, event(0))]
    more = read(logs, one("a"), limit=2000)
    assert more() == [0]
    bar, begun = "50%\r" * 1000, datetime(2026, 11, 21, 7, tzinfo=UTC)
    asked: list[datetime] = []

    def fault(handler: Any, _method: str, _path: str, query: dict[str, str]) -> bool:
        asked.append(since := datetime.fromisoformat(query["sinceTime"]))
        at = max(since, begun)  # the rest of a line has the stamp of where it is cut
        over = (at - begun).total_seconds() > 1800
        text = f"{at:%FT%T}.5Z {event(1).decode()}\n" if over else f"{at:%FT%TZ} {bar}"
        body = text.encode()[: int(query["limitBytes"])]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return True

    stub.fault = fault
    looks = [more() for _ in range(20)]
    assert [found for found in looks if found] == [[1]]
    assert len(asked) == len(looks)  # one answer a look: the pause between them holds
    steps = [(late - early).total_seconds() for early, late in itertools.pairwise(asked[1:10])]
    assert steps == [2, 4, 8, 16, 32, 64, 128, 256]
    stub.fault = lambda *_: False
    kept = events.packed(["containerd://a"], [events.Line("containerd://a", AT, event(0))])
    assert events.unpacked(kept, f"containerd://a {AT} 4").data == b""


def test_g9_what_is_kept_fits_into_a_secret() -> None:
    lines = [
        events.Line("containerd://a", f"2026-11-21T06:00:00.{n:09}Z", event(n))
        for n in range(20_000)
    ]
    kept = events.packed(["containerd://a"], lines)
    assert len(kept) < 256 * 1024
    told = events.unpacked(kept, "").data.splitlines()
    assert json.loads(told[-1])["step_count"] == 19_999
    assert 1000 < len(told) < 20_000


def test_g9_the_first_replica_is_told_from_the_others_and_from_another_launch() -> None:
    owner = built(load(launch=1))
    owner["kind"] = "Job"
    name = owner["metadata"]["name"]
    mine = [pod(metadata={"name": n, "labels": {names.JOB: name}}) for n in ("a", "b")]
    older = pod(launch=0, metadata={"name": "c", "labels": {names.JOB: name}})
    other = pod(metadata={"name": "d", "labels": {names.JOB: "another"}})
    assert firsts(job.pods, owner, [*mine, older, other]) == mine
