"""Bodies that are little on the wire and much in memory, or nothing that a model takes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.server import Started, make_sample, python, serve

pytestmark = pytest.mark.real

PREDICT, INFER = "/v1/models/sample:predict", "/v2/models/sample/infer"
MILLIONS = 10 * 2**20
LIMIT = 3 * 2**30  # of its memory


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Started, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("digits")
    told = make_sample("sklearn", folder)
    command = ["prlimit", f"--as={LIMIT}", *python()]
    with serve("sklearn", folder, "--at-once", "2", command=command) as started:
        yield started, told


BOMBS = {
    "lists": b'{"instances":[' + b"[]," * MILLIONS + b"[]]}",
    "lists in a list": b'{"instances":[[' + b"[]," * MILLIONS + b"[]]]}",
    "objects": b'{"instances":[' + b"{}," * MILLIONS + b"{}]}",
    "lists that open": b'{"instances":' + b"[" * 2 * MILLIONS,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_d5_what_unpacks_to_more_than_there_is_ends_no_server(
    model: tuple[Started, dict[str, Any]], bomb: str
) -> None:
    """As JSON is read each of these would be more than a gigabyte."""
    server, told = model
    before = server.memory_mib()
    for at in (PREDICT, INFER):
        answer = server.post(at, content=BOMBS[bomb])
        assert (answer.status_code, "more values" in answer.text) == (413, True), answer.text
    assert server.memory_mib() < before + 160
    good = server.post(PREDICT, json={"instances": told["instances"]})
    assert good.json()["predictions"] == told["predictions"]


def test_a_body_of_numbers_is_no_bomb(model: tuple[Started, dict[str, Any]]) -> None:
    server, told = model
    rows = told["instances"] * 100_000
    body = json.dumps({"instances": rows}).encode()
    assert len(body) > 20 * 2**20
    answer = server.post(PREDICT, content=body)
    assert answer.json()["predictions"] == told["predictions"] * 100_000


def _tensor(**said: Any) -> bytes:
    one = {"name": "input", "datatype": "FP64", "shape": [1, 3], "data": [1, 2, 3], **said}
    return json.dumps({"inputs": [one]}).encode()


def _instances(text: str) -> bytes:
    return f'{{"instances": {text}}}'.encode()


WRONG: dict[str, tuple[str, bytes]] = {
    "nothing": (PREDICT, b""),
    "null": (PREDICT, b"null"),
    "a number": (PREDICT, b"5"),
    "NaN": (PREDICT, _instances("[[NaN, 1, 2]]")),
    "infinity": (PREDICT, _instances("[[-Infinity, 1, 2]]")),
    "1e400": (PREDICT, _instances("[[1e400, 1, 2]]")),
    "a whole number of 401 digits": (PREDICT, _instances(f"[[1{'0' * 400}, 1, 2]]")),
    "null where there must be a number": (PREDICT, _instances("[[null, 1, 2]]")),
    "texts": (PREDICT, _instances('[["1", "2", "3"]]')),
    "uneven rows": (PREDICT, _instances("[[1, 2], [1, 2, 3]]")),
    "sixty levels": (PREDICT, _instances("[" * 60 + "1" + "]" * 60)),
    "a hundred thousand levels": (PREDICT, _instances("[" * 100_000 + "]" * 100_000)),
    "no text": (PREDICT, b'{"instances": ["\xff\xfe"]}'),
    "packed": (PREDICT, gzip.compress(_instances("[[1, 2, 3]]"))),
    "v2's body at v1": (PREDICT, _tensor()),
    "v1's body at v2": (INFER, _instances("[[1, 2, 3]]")),
    "a shape of 10^36": (INFER, _tensor(shape=[10**18, 10**18])),
    "a size of 31 digits": (INFER, _tensor(shape=[10**30])),
    "nothing, 10^18 times": (INFER, _tensor(shape=[0, 10**18], data=[])),
    "a hundred axes": (INFER, _tensor(shape=[1] * 100, data=[1])),
    "less than nothing": (INFER, _tensor(shape=[-1, 3])),
    "a byte of 300": (INFER, _tensor(datatype="UINT8", data=[300, 1, 2])),
    "2^63": (INFER, _tensor(datatype="INT64", data=[2**63, 1, 2])),
    "a size, a million times": (INFER, _tensor(shape=[1] * 2**20)),
    "a long name": (INFER, _tensor(name="x" * 2**20, shape=[])),
    "no name": (INFER, _tensor(name=None)),
    "an output that is none": (INFER, _tensor()[:-1] + b', "outputs": [{"name": "__class__"}]}'),
    "outputs that are a number": (INFER, _tensor()[:-1] + b', "outputs": 5}'),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_f1_what_a_model_does_not_take_is_a_sentence(
    model: tuple[Started, dict[str, Any]], wrong: str
) -> None:
    server, _told = model
    at, body = WRONG[wrong]
    answer = server.post(at, content=body)
    assert answer.status_code == 400, answer.text
    assert 10 < len(answer.json()["error"]) <= 500


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "99999999999999999999", "0", "10"])
def test_f1_a_length_of_json_that_is_none_is_no_error_of_the_server(
    model: tuple[Started, dict[str, Any]], length: str
) -> None:
    server, _told = model
    headers = {"Inference-Header-Content-Length": length}
    assert server.post(INFER, content=_tensor(), headers=headers).status_code in {200, 400}
