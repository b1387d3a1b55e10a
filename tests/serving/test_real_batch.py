"""Batch predictions by the program as it is run, with a model server of its own."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.serving.batches import Batch, lines_of, with_pyarrow
from tests.serving.server import make_sample, python
from tests.support.locked_environments import locked_environment

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


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
    assert sum(times for _why, times in told["failed_because"]) == 4
    assert any("five" in why for why, _times in told["failed_because"])


def test_killed_in_the_middle_it_goes_on_and_repeats_nothing(batch) -> None:
    batch.model("time.sleep(0.02)")
    batch.write(3000)
    for wanted in (300, 900):
        batch.killed_at(wanted, "--batch", "8")
    code, said = batch.run("--batch", "8")
    assert code == 0, said
    assert "goes on where it was" in said
    assert [one["prediction"] for one in batch.predictions()] == list(range(3000))
    assert batch.run("--batch", "8")[0] == 0  # done already: no server is started
    assert len(batch.predictions()) == 3000


@pytest.mark.long("one is killed, and two replicas tell of each other, in shorter ones here")
def test_three_replicas_killed_at_random_predict_each_once_and_tell_how_far_all_are(batch) -> None:
    batch.model("assert not (rows == 700).any(), 'seven'; time.sleep(0.1)")
    batch.write(3000)
    chance, running = random.Random(5), dict[int, subprocess.Popen[str]]()
    begun = dict.fromkeys(range(3), 0)
    until, hit_at = time.monotonic() + 150, time.monotonic()
    while time.monotonic() < until:
        for number in range(3):
            if number not in running or running[number].poll() not in {None, 0}:
                begun[number] += 1
                env = {"BERTH_REPLICA": str(number), "WORLD_SIZE": "3"}
                running[number] = batch.begin("--batch", "8", **env)
        if all(one.poll() == 0 for one in running.values()):
            break
        if sum(begun.values()) < 9 and time.monotonic() - hit_at > 2:
            one = chance.choice(list(running.values()))
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
                hit_at = time.monotonic()
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
    batch.model("time.sleep(0.04)")  # some looks at how far it is before it is done
    with_pyarrow(_MAKE, batch.folder / "v/in/a.parquet", 3000, 700)
    kept = batch.folder / "kept/batch-progress.json"
    words = ("--format", "parquet", "--batch", "16")
    process = batch.begin(*words)
    until = time.monotonic() + 120
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
