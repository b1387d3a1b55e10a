"""Batch predictions by the program as it is run, of something that answers at an address."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.serving.batches import Batch, lines_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


class Odd(BaseHTTPRequestHandler):
    """An endpoint that is busy at first, breaks off once, and answers with what it was sent."""

    protocol_version = "HTTP/1.1"
    seen: list[Any]
    keys: set[str]

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))["instances"]
        self.keys.add(self.headers["authorization"])
        self.seen.append(sent)
        if len(self.seen) <= 2:
            self.say(503, {"detail": "asleep"}, {"Retry-After": "1"})
        elif [4] in sent and [9] not in sent:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.say(200, {"predictions": [one[0] for one in sent]}, {})

    def do_GET(self) -> None:
        self.say(404, {}, {})

    def say(self, status: int, body: Any, more: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**more, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words: Any) -> None:
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    Odd.seen, Odd.keys = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/e/p/n"
    server.shutdown()
    server.server_close()


class Nothing(list[Any]):
    """What was asked, of which nothing is kept."""

    def append(self, _one: Any) -> None:
        return

    def __len__(self) -> int:
        return 3  # no longer busy


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


def test_an_endpoint_is_asked_again_only_where_it_says_so(batch, endpoint) -> None:
    batch.write(20)
    words = ("--endpoint", endpoint, "--batch", "4", "--at-once", "2")
    code, said = batch.run(*words, BERTH_ENDPOINT_KEY="bep_secret")
    assert code == 0, said
    assert Odd.keys == {"Bearer bep_secret"}
    assert [one["prediction"] for one in batch.predictions()] == [
        n for n in range(20) if n not in range(4, 8)
    ]
    assert {one["error"] for one in batch.errors()} == {
        "The connection broke before the answer came; it was not sent again."
    }
    assert sum([4] in sent for sent in Odd.seen) <= 2  # busy, and the one that broke off
    everywhere = said + "".join(p.read_text() for p in batch.folder.rglob("*.json*"))
    assert "bep_secret" not in everywhere


class Counting(Odd):
    """An endpoint that answers slowly, with the version that did."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))["instances"]
        if len(self.seen) < 2:  # it has not heard of the key yet
            self.seen.append([])
            self.say(401, {"detail": "unknown"}, {})
            return
        time.sleep(0.01)
        self.say(200, {"predictions": [one[0] for one in sent]}, {"X-Berth-Version": "v7"})

    def do_GET(self) -> None:
        columns = {"name": "input", "shape": [-1, 1]}
        self.say(200 if len(self.seen) >= 2 else 401, {"inputs": [columns]}, {})
        self.seen.append([])


def test_killed_while_an_endpoint_is_asked_nothing_is_there_twice_and_nothing_is_missing(
    batch,
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    Counting.seen = []
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/e/p/n"
    words = ("--endpoint", url, "--batch", "4")
    batch.write(3000)
    try:
        for wanted in (200, 900, 1800):
            batch.killed_at(wanted, *words, BERTH_ENDPOINT_KEY="bep_secret")
        code, said = batch.run(*words, BERTH_ENDPOINT_KEY="bep_secret")
    finally:
        server.shutdown()
        server.server_close()
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == list(range(3000))
    assert {one["version"] for one in batch.predictions()} == {"v7"}
    assert not batch.errors()


@pytest.mark.long("its parts are read and asked alone in shorter ones; this adds them up")
@pytest.mark.parametrize(
    ("count", "line", "words", "most_mib"),
    [
        (1_000_000, "[1]\n", ("--batch", "1000"), 80),
        (24, f"[{'0.5,' * (2 * 2**20 - 3)}1]\n", (), 450),  # of 8 MiB each
    ],
    ids=["a-million", "of-8-mib"],
)
def test_the_program_holds_little_of_many_or_large_rows(
    batch, endpoint, count, line, words, most_mib
) -> None:
    Odd.seen = Nothing()
    with (batch.folder / "v/in/a.jsonl").open("w") as file:
        for _part in range(count // 1000 or count):
            file.write(line * (1000 if count > 1000 else 1))
    process = batch.begin("--endpoint", endpoint, *words)
    grown = 0
    while process.poll() is None:
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            seen = Path(f"/proc/{process.pid}/status").read_text()
            grown = int(seen.split("VmHWM:")[1].split()[0]) // 1024
        time.sleep(0.05)
    assert process.returncode == 0, process.stderr.read()
    told = lines_of(batch.folder / "events")[-1]
    assert (told["step_count"], told["failed"]) == (count, 0)
    assert 0 < grown < most_mib, grown


def replica(number: int, **more: str) -> dict[str, str]:
    return {"BERTH_REPLICA": str(number), "WORLD_SIZE": "2", **more}


@pytest.fixture
def counting() -> Iterator[str]:
    Counting.seen = [[], []]  # it knows every key
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/e/p/n"
    server.shutdown()
    server.server_close()


def test_the_first_replica_does_not_wait_for_ever_for_one_that_does_not_get_on(
    batch, counting
) -> None:
    batch.write(20)
    words = ("--endpoint", counting, "--batch", "4", "--others-within", "3")
    code, said = batch.run(*words, **replica(0))
    assert code == 69, said
    assert "Other replicas did not get on for 0.05 minutes: so far 12 instances" in said
    assert batch.run(*words, **replica(1))[0] == 0
    code, said = batch.run(*words, **replica(0))
    assert code == 0, said
    assert "20 instances are predicted, 0 are not" in said


def test_replicas_that_saw_different_inputs_end_with_a_sentence(batch, counting) -> None:
    batch.write(20)
    words = ("--endpoint", counting, "--batch", "4")
    assert batch.run(*words, **replica(1))[0] == 0
    batch.write(21)
    code, said = batch.run(*words, **replica(0))
    assert code == 65, said
    assert "The input changed while it ran" in said
    os.utime(batch.folder / "v/in/a.jsonl")
    elsewhere = {"BERTH_OUTPUT": str(batch.folder / "next")}  # another launch: it begins anew
    assert batch.run(*words, **replica(1, **elsewhere))[0] == 0
    assert batch.run(*words, **replica(0, **elsewhere))[0] == 0
