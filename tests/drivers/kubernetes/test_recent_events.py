"""C11: the newest events of an object, however many there are, within bounds of memory and time."""

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gate import rpc
from runtime.drivers.kubernetes.client import KubeClient
from runtime.drivers.kubernetes.inspection import recent_events

PAGE = 500
NAMES = ("ws-x", "ws-x-0")


@pytest.fixture
def client(stub) -> Iterator[KubeClient]:
    made = stub.client()
    yield made
    made.close()


def event(number: int, about: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{about}.{number:08x}", "namespace": "ns"},
        "involvedObject": {"kind": "Pod", "name": about},
        "type": "Warning",
        "reason": "FailedMount",
        "message": f"try {number}",
        "lastTimestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        "count": 1,
    }


class Pages:
    """A server that answers lists of events in pages, in no order of time, as a real one does."""

    def __init__(self, flood: str, pages: int, *, wait_s: float = 0.0, endless: bool = False):
        self.flood, self.pages, self.wait_s, self.endless = flood, pages, wait_s, endless
        self.order = random.Random(7).sample(range(pages * PAGE), pages * PAGE)
        self.asked: list[str] = []

    def __call__(self, handler: Any, _method: str, path: str, query: dict[str, str]) -> bool:
        if not path.partition("?")[0].endswith("/events"):
            return False
        about = query["fieldSelector"].partition("=")[2]
        self.asked.append(about)
        if about != self.flood:
            handler.say(200, {"metadata": {}, "items": [event(86_399, about)]})
            return True
        time.sleep(self.wait_s)
        at = int(query.get("continue", 0))
        part = self.order[at % len(self.order) :][:PAGE]
        rest = self.endless or at + PAGE < len(self.order)
        said = {"continue": str(at + PAGE)} if rest else {}
        handler.say(200, {"metadata": said, "items": [event(n, about) for n in part]})
        return True


def test_c11_the_newest_of_a_flood_are_told_in_their_order_and_that_there_are_more(stub, client):
    stub.fault = Pages("ws-x-0", 4)
    found = recent_events(client, "ns", NAMES, most=100, seconds=60)
    said = [(one["involvedObject"]["name"], one["message"]) for one in found.rows]
    assert said[0] == ("ws-x", "try 86399")
    assert said[1:] == [("ws-x-0", f"try {n}") for n in range(1999, 1900, -1)]
    assert (found.more, found.unread) == (True, False)
    assert stub.lists() == 5


def test_c11_a_flood_without_an_end_takes_no_more_than_its_share_of_the_time(stub, client):
    pages = stub.fault = Pages("ws-x", 1, wait_s=0.05, endless=True)
    found = recent_events(client, "ns", NAMES, most=100, seconds=0.4)
    assert found.unread
    assert found.more
    assert pages.asked[-1] == "ws-x-0"  # the pod's own are read all the same
    assert found.rows[0]["involvedObject"]["name"] == "ws-x-0"
    assert 2 <= len(pages.asked) <= 6  # half of the time, in steps of 50 ms and more


def test_what_is_all_told_says_of_no_more(stub, client):
    stub.fault = Pages("none", 0)
    found = recent_events(client, "ns", NAMES, most=100, seconds=0.0)
    assert len(found.rows) == 2
    assert (found.more, found.unread) == (False, False)


def test_c11_the_page_of_a_workspace_is_answered_in_time_whatever_the_cluster_holds(
    stub, driver, monkeypatch
):
    stub.fault = Pages("ws-x-0", 1, wait_s=0.05, endless=True)
    monkeypatch.setattr(rpc, "driver_for", lambda _key: driver)
    assert rpc.EVENTS_S <= rpc.TIMEOUT_S / 2  # the objects are asked for too
    monkeypatch.setattr(rpc, "EVENTS_S", 0.2)
    names = {"cluster": "c", "namespace": "ns", "name": NAMES[0], "pod": NAMES[1]}
    said = rpc.read_objects(names)
    assert len(said["events"]) == rpc.MOST_EVENTS
    assert (said["more"], said["unread"]) == (True, True)
