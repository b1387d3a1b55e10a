"""Batch predictions by the program as it is run: its own model server, and an endpoint."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.serving.server import make_sample, python
from tests.support.locked_environments import locked_environment
from tests.support.portal import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

PROGRAM = ["-m", "serving.programs.batch_predict"]


class Batch:
    """A folder with a model, an input and an output, and the program on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, python()[0]
        for name in ("v/in", "v/model", "out", "kept"):
            (folder / name).mkdir(parents=True)

    def model(self, body: str) -> None:
        """Have a model of one column whose ``predict`` is this."""
        (self.folder / "v/model/own.py").write_text(
            "import os, time, numpy as np\n"
            "class Own:\n"
            "    n_features_in_ = 1\n"
            "    def predict(self, rows):\n"
            f"        {body}\n"
            "        return rows[:, 0]\n"
        )
        make = "import joblib, own; joblib.dump(own.Own(), 'model.joblib')"
        said = [python()[0], "-c", make]
        subprocess.run(said, cwd=self.folder / "v/model", check=True)

    def write(self, count: int) -> None:
        lines = "".join(f"[{number}]\n" for number in range(count))
        (self.folder / "v/in/a.jsonl").write_text(lines)

    def begin(self, *more: str, limit: int = 0, **env: str) -> subprocess.Popen[str]:
        place = self.folder
        told = {"BERTH_VOLUMES": place / "v", "BERTH_OUTPUT": place / "out"}
        told |= {"BERTH_CHECKPOINTS": place / "kept", "BERTH_EVENTS": place / "events"}
        path = f"{ROOT}:{place / 'v/model'}"
        words = [*self.own(), "--input", "in", *more]
        return subprocess.Popen(
            [self.python, *PROGRAM, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **{k: str(v) for k, v in told.items()}, **env},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))  # noqa: PLW1509 - no other thread is there
            if limit
            else None,
        )

    def own(self) -> list[str]:
        return ["--framework", "sklearn", "--model-dir", "model", "--name", "m"]

    def run(self, *more: str, **env: Any) -> tuple[int, str]:
        process = self.begin(*more, **env)
        _none, said = process.communicate(timeout=120)
        return process.returncode, said

    def predictions(self) -> list[dict[str, Any]]:
        return lines_of(self.folder / "out/predictions-00000.jsonl")

    def errors(self) -> list[dict[str, Any]]:
        return lines_of(self.folder / "out/errors.jsonl")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


def test_each_instance_is_predicted_in_its_order_and_what_is_none_stands_beside(batch) -> None:
    batch.model("assert not (rows == 5).any(), 'five'")
    batch.write(200)
    with (batch.folder / "v/in/a.jsonl").open("a") as file:
        file.write("[1,\n[1, 2]\n")
    (batch.folder / "v/in/b.csv").write_text("only\n7\nseven\n")
    code, said = batch.run("--batch", "16")
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == [
        *(n for n in range(200) if n != 5),
        7,
    ]
    assert batch.predictions()[0] == {
        "file": "a.jsonl",
        "line": 1,
        "instance": [0],
        "prediction": 0,
    }
    wrong = {(one["file"], one["line"]): one["error"] for one in batch.errors()}
    assert set(wrong) == {("a.jsonl", 6), ("a.jsonl", 201), ("a.jsonl", 202), ("b.csv", 3)}
    assert "five" in wrong["a.jsonl", 6]  # it alone, of the sixteen that were asked together
    told = json.loads((batch.folder / "events").read_text().splitlines()[-1])
    assert (told["step_count"], told["progress"], told["failed"]) == (204, 1.0, 4)


def test_killed_in_the_middle_it_goes_on_and_repeats_nothing(batch) -> None:
    batch.model("time.sleep(0.02)")
    batch.write(3000)
    kept = batch.folder / "kept/batch-progress.json"
    for wanted in (300, 900):
        process = batch.begin("--batch", "8")
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if kept.exists() and json.loads(kept.read_text())["predicted"] >= wanted:
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL
    code, said = batch.run("--batch", "8")
    assert code == 0, said
    assert "goes on where it was" in said
    assert [one["prediction"] for one in batch.predictions()] == list(range(3000))
    assert batch.run("--batch", "8")[0] == 0  # done already: no server is started
    assert len(batch.predictions()) == 3000


def test_three_replicas_killed_at_random_predict_each_once_and_tell_how_far_all_are(batch) -> None:
    batch.model("assert not (rows == 700).any(), 'seven'; time.sleep(0.02)")
    batch.write(3000)
    chance, running = random.Random(5), dict[int, subprocess.Popen[str]]()
    begun = dict.fromkeys(range(3), 0)
    until = time.monotonic() + 150
    while time.monotonic() < until:
        for number in range(3):
            if number not in running or running[number].poll() not in {None, 0}:
                begun[number] += 1
                env = {"BERTH_REPLICA": str(number), "WORLD_SIZE": "3"}
                running[number] = batch.begin("--batch", "8", **env)
        if all(one.poll() == 0 for one in running.values()):
            break
        if sum(begun.values()) < 9 and not chance.randrange(30):
            one = chance.choice(list(running.values()))
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
        time.sleep(0.1)
    assert sum(begun.values()) == 9, begun
    paths = sorted((batch.folder / "out").glob("predictions-*-of-03-*"))
    lines = sorted(one["line"] for path in paths for one in lines_of(path))
    assert lines == [n for n in range(1, 3001) if n != 701]
    errors = sorted((batch.folder / "out").glob("errors-*"))
    assert [one["line"] for path in errors for one in lines_of(path)] == [701]
    told = lines_of(batch.folder / "events")
    assert (told[-1]["step_count"], told[-1]["progress"], told[-1]["failed"]) == (3000, 1, 1)
    assert [one["step_count"] for one in told] == sorted(one["step_count"] for one in told)
    assert all(one["progress"] < 1 for one in told if one["step_count"] < 3000)


def test_a_replica_whose_share_is_all_errors_fails_only_where_all_replicas_do(batch) -> None:
    batch.model("assert not (rows < 4).any(), 'small'")
    batch.write(8)
    env = [{"BERTH_REPLICA": str(number), "WORLD_SIZE": "2"} for number in range(2)]
    both = [batch.begin("--batch", "4", **one) for one in env]
    ended = [one.communicate(timeout=100)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], ended
    assert "4 instances are predicted, 4 are not" in ended[0]


def test_what_ends_the_server_is_found_and_spoils_no_other(batch) -> None:
    batch.model("(rows == 13).any() and os._exit(9)")
    batch.write(40)
    code, said = batch.run("--batch", "2")
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == [n for n in range(40) if n != 13]
    (wrong,) = batch.errors()
    assert wrong["line"] == 14
    assert wrong["error"] == "The model server ended while it answered this."


def test_a_full_output_ends_it_with_a_sentence_and_later_it_goes_on(batch) -> None:
    batch.model("time.sleep(0.001)")
    batch.write(4000)
    code, said = batch.run(limit=64 * 1024)
    assert code == 74, said
    assert "can't be written" in said
    code, said = batch.run()
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == list(range(4000))


def test_a_model_that_can_t_be_served_ends_it_with_the_servers_own_sentence(batch) -> None:
    batch.write(3)
    code, said = batch.run()
    assert code == 66, said
    assert "The folder has no model.joblib" in said
    assert not (batch.folder / "out/predictions-00000.jsonl").read_text()


def test_where_nothing_is_predicted_the_job_has_failed_and_nothing_asked_is_no_failure(
    batch,
) -> None:
    batch.model("raise ValueError('never')")
    batch.write(3)
    code, said = batch.run()
    assert (code, len(batch.errors())) == (1, 3), said
    batch.write(0)
    assert batch.run()[0] == 0


def with_pyarrow(code: str, *words: Any) -> Any:
    """Run a piece in the model server's environment; return what it printed, as JSON."""
    said = [python()[0], "-c", code, *map(str, words)]
    done = subprocess.run(said, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout or "null")


_MAKE = """
import sys, pyarrow as pa
from pyarrow import parquet
count, size = int(sys.argv[2]), int(sys.argv[3])
with parquet.ParquetWriter(sys.argv[1], pa.schema([("x", pa.float64())])) as writer:
    for first in range(0, count, size):
        rows = pa.array([float(n) for n in range(first, min(count, first + size))])
        writer.write_table(pa.table({"x": rows}), row_group_size=size)
"""
_READ = """
import json, sys
from pyarrow import parquet
table = parquet.read_table(sys.argv[1])
print(json.dumps({"rows": table.to_pylist()[:5], "types": [str(f.type) for f in table.schema],
    "sum": sum(table["prediction"].to_pylist()), "count": table.num_rows}))
"""


def test_parquet_goes_in_and_out_and_killed_in_the_middle_it_goes_on(batch) -> None:
    batch.model("time.sleep(0.01)")
    with_pyarrow(_MAKE, batch.folder / "v/in/a.parquet", 3000, 700)
    kept = batch.folder / "kept/batch-progress.json"
    words = ("--format", "parquet", "--batch", "16")
    process = batch.begin(*words)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if kept.exists() and json.loads(kept.read_text())["predicted"] >= 800:
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    code, said = batch.run(*words)
    assert code == 0, said
    assert "goes on where it was" in said
    found = with_pyarrow(_READ, batch.folder / "out/predictions-00000.parquet")
    assert (found["count"], found["sum"]) == (3000, sum(range(3000)))
    row = {"file": "a.parquet", "line": 1, "instance": [0.0], "prediction": 0.0}
    assert found["rows"][0] == row
    assert found["types"] == ["string", "int64", "list<element: double>", "double"]
    left = sorted(path.name for path in (batch.folder / "out").iterdir())
    assert left == ["errors.jsonl", "predictions-00000.parquet"]
    assert batch.run(*words)[0] == 0  # done already
    batch.write(2)
    (batch.folder / "v/in/a.parquet").unlink()
    assert batch.run(*words)[0] == 0  # another input: it begins anew
    assert with_pyarrow(_READ, batch.folder / "out/predictions-00000.parquet")["count"] == 2


_MEMORY = """
import json, resource, sys
from pathlib import Path
from serving.programs.batch_input import Place, Shape, _parquet, records
path = Path(sys.argv[1])
_parquet(path)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _one in records([path], ["a"], Place(), Shape(count=1)))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([count, (after - before) // 1024]))
"""


def test_a_row_group_of_a_million_rows_is_not_held(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    with_pyarrow(_MAKE, path, 1_000_000, 1_000_000)
    count, grown_mib = with_pyarrow(_MEMORY, path)
    assert count == 1_000_000
    assert grown_mib < 60, grown_mib  # its numbers alone are 8 MiB, as rows of Python over 200


def test_a_row_of_100_mb_is_an_error_and_holds_up_no_other(batch) -> None:
    batch.model("pass")
    with (batch.folder / "v/in/a.jsonl").open("w") as file:
        file.write("[1]\n[")
        for _part in range(100):
            file.write("1," * 500_000)
        file.write("1]\n[2]\n")
    code, said = batch.run()
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == [1, 2]
    (wrong,) = batch.errors()
    assert (wrong["line"], wrong["error"]) == (2, "The line is longer than 8 MiB.")


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


class Nothing(list[Any]):
    """What was asked, of which nothing is kept."""

    def append(self, _one: Any) -> None:
        return

    def __len__(self) -> int:
        return 3  # no longer busy


@pytest.mark.timeout(900)
@pytest.mark.long("one environment of 1.4 GB; of the frameworks the first one is tried in each run")
def test_a_saved_model_of_tensorflow_is_asked_by_a_server_of_its_own(batch) -> None:
    locked_environment("serving-tensorflow")
    told = make_sample("tensorflow", batch.folder / "v/model", "serving-tensorflow")
    rows = [json.dumps(row) for row in told["instances"]] * 50
    (batch.folder / "v/in/a.jsonl").write_text("\n".join(rows))
    batch.own = lambda: ["--framework", "tensorflow", "--model-dir", "model", "--name", "m"]
    batch.python = python("serving-tensorflow")[0]
    code, said = batch.run("--batch", "16")
    assert code == 0, said
    found = [one["prediction"] for one in batch.predictions()]
    assert len(found) == len(rows)
    for one, wanted in zip(found, told["predictions"] * 50, strict=True):
        assert one == pytest.approx(wanted, rel=1e-4)
    assert not batch.errors()


def test_only_the_errors_are_tried_again_and_another_input_is_refused(batch) -> None:
    batch.model("assert os.path.exists('mended') or not (rows % 7 == 3).any(), 'not yet'")
    batch.write(50)
    assert batch.run("--batch", "4")[0] == 0
    failed = [one["line"] for one in batch.errors()]
    assert failed == [n + 1 for n in range(50) if n % 7 == 3]
    (batch.folder / "out").rename(batch.folder / "v/first")
    (batch.folder / "kept").rename(batch.folder / "v/state")
    batch.model("pass")
    words = ("--only", "first", "--only-state", "state", "--batch", "4")
    code, said = batch.run(*words)
    assert code == 0, said
    assert [one["line"] for one in batch.predictions()] == failed
    assert not batch.errors()
    batch.write(51)
    code, said = batch.run(*words)
    assert code == 65, said
    assert "input has changed since" in said


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
    kept = batch.folder / "kept/batch-progress.json"
    try:
        for wanted in (200, 900, 1800):
            process = batch.begin(*words, BERTH_ENDPOINT_KEY="bep_secret")
            until = time.monotonic() + 60
            while time.monotonic() < until and process.poll() is None:
                if kept.exists() and json.loads(kept.read_text())["predicted"] >= wanted:
                    break
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.returncode == -signal.SIGKILL
        code, said = batch.run(*words, BERTH_ENDPOINT_KEY="bep_secret")
    finally:
        server.shutdown()
        server.server_close()
    assert code == 0, said
    assert [one["prediction"] for one in batch.predictions()] == list(range(3000))
    assert {one["version"] for one in batch.predictions()} == {"v7"}
    assert not batch.errors()
