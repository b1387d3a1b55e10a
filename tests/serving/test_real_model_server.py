"""Real models of each framework, made by its own library, answer in both protocols."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.lib import poll
from tests.serving.server import (
    FRAMEWORK_OF,
    Started,
    debian_torch,
    make_sample,
    make_slow,
    python,
    run,
    serve,
)
from tests.support.locked_environments import locked_environment

pytestmark = pytest.mark.real

PREDICT, INFER = "/v1/models/sample:predict", "/v2/models/sample/infer"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_slow(tmp_path_factory.mktemp("slow"))


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("linear")
    told = make_sample("lightgbm", folder)
    with serve("lightgbm", folder, "--most-body-mib", "1") as started:
        yield started, told


def predicts(started: Started, told: dict[str, Any]) -> None:
    """What the server says is what the library says, in both protocols."""
    answer = started.post(PREDICT, json={"instances": told["instances"]})
    assert answer.status_code == 200, answer.text
    same(answer.json()["predictions"], told["predictions"])
    tells = started.get("/v2/models/sample").json()
    rows = told["instances"]
    if not isinstance(rows[0], list) or isinstance(rows[0][0], str):
        return  # texts and columns have a test of their own
    one = {"name": tells["inputs"][0]["name"], "datatype": tells["inputs"][0]["datatype"]}
    one |= {"shape": [len(rows), len(rows[0])], "data": rows}
    answer = started.post(INFER, json={"id": "7", "inputs": [one]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["id"] == "7"
    for output in answer.json()["outputs"]:
        wanted = told["predictions"]
        if isinstance(wanted[0], dict):
            wanted = [row[output["name"]] for row in wanted]
        same(np.array(output["data"]).reshape(output["shape"]).tolist(), wanted)


def same(said: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert len(said) == len(wanted)
        for one, other in zip(said, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, dict):
        same(list(said.values()), list(wanted.values()))
    else:
        assert said == (pytest.approx(wanted, abs=1e-5) if isinstance(wanted, float) else wanted)


@pytest.mark.parametrize("kind", ["sklearn", "xgboost", "lightgbm", "onnx"])
def test_a_model_answers_as_its_own_library(kind: str, tmp_path: Path) -> None:
    told = make_sample(kind, tmp_path)
    described = json.loads(run(kind, tmp_path, "--describe").stdout)
    assert described["inputs"][0]["shape"] == [-1, 3]
    with serve(kind, tmp_path) as started:
        predicts(started, told)
        assert started.get("/v2/models/sample").json()["inputs"] == described["inputs"]
        wrong = started.post(PREDICT, json={"instances": [[1.0, 2.0]]})
        assert wrong.status_code == 400
        assert "shape [1, 2], not [-1, 3]" in wrong.json()["error"]


def test_onnx_runtime_tells_its_makers_nothing(tmp_path: Path) -> None:
    """It would keep a number of this machine in the home, and send what it does."""
    home = tmp_path / "home"
    home.mkdir()
    make_sample("onnx", tmp_path / "model")
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "PATH": os.environ["PATH"]}
    told = run("onnx", tmp_path / "model", "--describe", env=env)
    assert told.returncode == 0
    assert not told.stderr
    assert list(home.rglob("*")) == []


def test_columns_have_names_and_types_of_their_own(tmp_path: Path) -> None:
    told = make_sample("sklearn_columns", tmp_path)
    with serve("sklearn", tmp_path) as started:
        predicts(started, told)
        by_name = [dict(zip(("city", "size"), row, strict=True)) for row in told["instances"]]
        answer = started.post(PREDICT, json={"instances": by_name})
        assert answer.json()["predictions"] == told["predictions"]
        columns = [
            {"name": "city", "datatype": "BYTES", "shape": [2], "data": ["Kyoto", "Osaka"]},
            {"name": "size", "datatype": "FP64", "shape": [2], "data": [1.5, 1.5]},
        ]
        outputs = [{"name": "predict"}, {"name": "predict_proba"}]
        answer = started.post(INFER, json={"inputs": columns, "outputs": outputs})
        labels, chances = answer.json()["outputs"]
        assert labels["data"] == told["predictions"]
        assert (labels["datatype"], chances["shape"]) == ("BYTES", [2, 2])
        assert sum(chances["data"]) == pytest.approx(2)
        lacks = started.post(PREDICT, json={"instances": [{"city": "Kyoto"}]})
        assert lacks.json() == {"error": "Instance 0 has no value for size."}


@pytest.mark.parametrize("kind", ["sklearn_texts", "xgboost_columns"])
def test_texts_and_the_binary_form_of_xgboost(kind: str, tmp_path: Path) -> None:
    told = make_sample(kind, tmp_path)
    with serve(FRAMEWORK_OF[kind], tmp_path) as started:
        predicts(started, told)


@pytest.mark.long("TensorFlow has 1.4 GB; the same of ONNX: serving/test_real_model_server.py")
def test_a_saved_model_of_tensorflow_answers(tmp_path: Path) -> None:
    locked_environment("serving-tensorflow")
    told = make_sample("tensorflow", tmp_path, "serving-tensorflow")
    with serve("tensorflow", tmp_path, command=python("serving-tensorflow")) as started:
        predicts(started, told)


def test_torchscript_answers_under_the_systems_own_pytorch(tmp_path: Path) -> None:
    """PyTorch as PyPI has it is 5.3 GB. Debian's is beside a server without anything else."""
    bare, env = debian_torch()
    told = make_sample("pytorch", tmp_path, command=[bare], env=env)
    with serve("pytorch", tmp_path, command=[bare], env=env) as started:
        predicts(started, told)
        assert started.get("/v2/models/sample").json()["inputs"][0]["name"] == "input"
        wrong = started.post(PREDICT, json={"instances": [[1.0, 2.0]]})
        assert wrong.status_code == 400
        assert "shapes cannot be multiplied (1x2 and 3x2)" in wrong.json()["error"]


def test_tensors_go_as_bytes_behind_the_json(linear: tuple[Started, dict[str, Any]]) -> None:
    started, told = linear
    rows = np.array(told["instances"])
    one = {"name": "input", "datatype": "FP64", "shape": list(rows.shape)}
    one["parameters"] = {"binary_data_size": rows.nbytes}
    said = {"inputs": [one], "outputs": [{"name": "predict", "parameters": {"binary_data": True}}]}
    head = json.dumps(said).encode()
    length = "Inference-Header-Content-Length"
    answer = started.post(INFER, content=head + rows.tobytes(), headers={length: str(len(head))})
    cut = int(answer.headers[length])
    output = json.loads(answer.content[:cut])["outputs"][0]
    assert (output["datatype"], output["shape"]) == ("FP64", [4])
    assert np.frombuffer(answer.content[cut:]).tolist() == pytest.approx(told["predictions"])


def test_a_body_of_1_gib_is_refused_in_bounded_memory(
    linear: tuple[Started, dict[str, Any]],
) -> None:
    """With its length said, and in pieces without."""
    started, told = linear
    before = started.memory_mib()
    piece = b" " * 2**20
    for headers in ({"content-length": str(2**30)}, {"transfer-encoding": "chunked"}):
        body = (piece for _ in range(2**10))
        answer = started.post(PREDICT, content=body, headers=headers)
        assert answer.status_code == 413
        assert answer.json() == {"error": "A body may have 1 MiB."}
    assert started.memory_mib() < before + 32
    predicts(started, told)


def test_headers_without_end_are_cut_off_in_bounded_memory(
    linear: tuple[Started, dict[str, Any]],
) -> None:
    started, told = linear
    before = started.memory_mib()
    with socket.create_connection(("127.0.0.1", int(started.url[-5:]))) as sender:
        sender.sendall(b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nhost: here\r\n")
        endless = b"".join(b"x-%d: %s\r\n" % (n, b"a" * 100_000) for n in range(1000))
        with pytest.raises(OSError):
            sender.sendall(endless)
    assert started.memory_mib() < before + 16
    predicts(started, told)


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances":',
        b"[" * 100_000,
        b"\xff\xfe",
        b"[1]",
        b'{"instances": {}}',
        b"",
        b'{"instances": [{}]}',
    ],
)
def test_what_is_no_request_is_told_so(linear: tuple[Started, dict[str, Any]], body: bytes) -> None:
    started, _told = linear
    for path in (PREDICT, INFER):
        answer = started.post(path, content=body)
        assert answer.status_code == 400, answer.text
        assert len(answer.json()["error"]) < 400
    assert started.post("/v1/models/another:predict", content=body).status_code == 404


def test_many_that_send_at_once_hold_bounded_memory(
    linear: tuple[Started, dict[str, Any]],
) -> None:
    """Sixty who send all but the end of a MiB: eight are held, the others are told to come again."""
    started, told = linear
    before, where = started.memory_mib(), ("127.0.0.1", int(started.url[-5:]))
    head = f"POST {PREDICT} HTTP/1.1\r\nhost: here\r\ncontent-length: {2**20}\r\n\r\n".encode()
    senders = [socket.create_connection(where, timeout=60) for _ in range(60)]
    for one in senders:
        one.sendall(head + b" " * (2**20 - 1))
    poll(lambda: len(_answered(senders)) >= 52, within_s=30, every_s=0.05)
    time.sleep(0.5)
    refused = _answered(senders)  # and hardly anybody more
    assert 52 <= len(refused) <= 53
    assert all(one.recv(64).startswith(b"HTTP/1.1 503") for one in refused)
    assert started.memory_mib() < before + 64
    for one in senders:
        one.close()
    until = time.monotonic() + 10
    while (answer := started.post(PREDICT, json={"instances": told["instances"]})).is_error:
        assert time.monotonic() < until, answer.text
        time.sleep(0.1)


def _answered(senders: list[socket.socket]) -> list[socket.socket]:
    return select.select(senders, [], [], 0)[0]


def test_figures_tell_how_many_run_and_wait(slow: Path) -> None:
    """While the first one is answered, which takes its time, the others wait."""
    with serve("sklearn", slow, "--at-once", "1") as started:
        asks = [
            threading.Thread(
                target=started.post, args=(PREDICT,), kwargs={"json": {"instances": [[seconds]]}}
            )
            for seconds in (4.0, 0.0, 0.0)
        ]

        def until_told(figure: str) -> str:
            until = time.monotonic() + 30
            while figure not in (text := started.get("/metrics").text):
                assert time.monotonic() < until, text
                time.sleep(0.01)
            return text

        asks[0].start()
        until_told("requests_running 1.0")
        for one in asks[1:]:
            one.start()
        text = until_told("requests_waiting 2.0")
        assert "berth_model_requests_running 1.0" in text
        for one in asks:
            one.join()
        text = started.get("/metrics").text
        assert 'berth_model_answers_total{code="200"} 3.0' in text
        assert "requests_waiting 0.0" in text


def test_what_is_answered_at_sigterm_is_answered(slow: Path) -> None:
    with serve("sklearn", slow, "--drain-seconds", "3") as started:
        said: list[int] = []
        ask = threading.Thread(
            target=lambda: said.append(
                started.post(PREDICT, json={"instances": [[5.0]]}).status_code  # longer than that
            )
        )
        ask.start()
        while "running 1.0" not in started.get("/metrics").text:
            time.sleep(0.01)
        started.process.send_signal(signal.SIGTERM)
        while started.get("/v2/health/ready").status_code != 503:
            time.sleep(0.01)  # nobody sends it anything new, and what comes is still answered
        assert started.post(PREDICT, json={"instances": [[0.0]]}).headers["connection"] == "close"
        ask.join()
        assert said == [200]
        started.process.wait(10)
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(started.url[-5:]))):
            pass
