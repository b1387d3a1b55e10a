"""The dialling pods' own programs: what is open for a moment only is told, else no test could fail."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster import dials

# What is dialled must last: real waits, which only `make test` has the time for.
SHUT_FOR_S, UNTIL_S = 2, 6
WATCHED_S = 20
TRIES = 3  # a pause of the machine in the wrong moment changes what there is to be told


@contextmanager
def a_door() -> Iterator[socket.socket]:
    """A port that refuses until it listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def once_of_some(told: Callable[[], bool]) -> bool:
    return any(told() for _ in range(TRIES))


def where(door: socket.socket) -> str:
    return f"127.0.0.1:{door.getsockname()[1]}"


def run(script: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=60)
    return json.loads(out)


@pytest.mark.long(
    "seconds of waiting: it shows that the dialling pods of test_isolation.py can fail"
)
def test_c10_what_was_closed_for_a_moment_only_is_told_open() -> None:
    def told() -> bool:
        with a_door() as door:
            dialling = run(dials.TCP, json.dumps({where(door): False}), str(UNTIL_S))
            time.sleep(SHUT_FOR_S)
            door.listen()
            return bool(said(dialling) == {where(door): True})

    assert once_of_some(told)


@pytest.mark.long(
    "seconds of waiting: it shows that the dialling pods of test_isolation.py can fail"
)
def test_what_stays_as_wanted_is_told_as_wanted() -> None:
    with a_door() as door, socket.create_server(("127.0.0.1", 0)) as open_:
        wanted = {where(door): False, where(open_): True}
        assert said(run(dials.TCP, json.dumps(wanted), str(UNTIL_S * 5))) == wanted


@pytest.mark.long(
    "seconds of waiting: it shows that the dialling pods of test_isolation.py can fail"
)
def test_l2_a_datagram_that_was_answered_late_is_told() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("127.0.0.1", 0))
        echo.settimeout(30)
        dialling = run(dials.UDP, json.dumps([where(echo), False]), str(UNTIL_S * 2))
        for answers in (False,) * 3 + (True,) * 3:  # three of a round
            data, sender = echo.recvfrom(2048)
            if answers:
                echo.sendto(data, sender)
        echo.close()
        assert said(dialling) is True


@pytest.mark.long(
    "seconds of waiting: it shows that the dialling pods of test_isolation.py can fail"
)
def test_c10_each_opening_of_what_was_closed_is_counted() -> None:
    def told() -> bool:
        with a_door() as door:
            watched = run(dials.LEAKS, json.dumps([where(door)]), "30", str(WATCHED_S))
            time.sleep(dials.HOLDS_S + WATCHED_S / 2)
            door.listen()
            found = said(watched)
            was_shut = found["before"] == {where(door): False}
            return bool(was_shut and 0 < found["opened"][where(door)] < found["rounds"])

    assert once_of_some(told)


def test_c10_nothing_is_counted_where_it_was_never_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_:
        target = where(open_)
        found = said(run(dials.LEAKS, json.dumps([target]), "1", "1"))
    assert found == {"before": {target: True}, "opened": {target: 0}, "rounds": 0}
