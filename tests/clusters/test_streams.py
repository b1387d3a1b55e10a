"""Following a log whatever its driver does with it."""

import json
from collections.abc import Callable

import pytest

from clusters import streams
from clusters.streams import LogPart
from common.streams import Places


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "POLL_S", 0.001)


def reading(logs: list[bytes]) -> Callable[..., LogPart]:
    """Each time that nothing new is there, the next log takes the place of the one before."""

    def read(*, offset: int) -> LogPart:
        at = min(offset, len(logs[0]))
        part = logs[0][at : at + 4]
        if not part and at == offset and len(logs) > 1:
            logs.pop(0)
        return LogPart(part, at, at + len(part))

    return read


async def told(logs: list[bytes]) -> list[tuple[str, str]]:
    over = iter((False, True))
    who = streams.Follower(Places(1).take("x"), lambda: None)
    what = streams.FollowedLog(who, reading(logs), lambda: next(over))
    found = []
    async for block in streams.follow_log(what, offset=0):
        lines = dict(line.split(": ", 1) for line in block.strip().split("\n"))
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"]).get("text", "")))
    return found


async def test_a_log_that_begins_anew_stands_for_what_was_told_before() -> None:
    assert await told([b"the first pod", b"another"]) == [
        ("log", "the "),
        ("log", "firs"),
        ("log", "t po"),
        ("log", "d"),
        ("reset", "anot"),
        ("log", "her"),
        ("end", ""),
    ]


async def test_a_log_that_is_gone_takes_nothing_away() -> None:
    assert await told([b"abc", b""]) == [("log", "abc"), ("end", "")]
