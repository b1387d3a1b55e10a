"""Requests and answers of both protocols, with a model that doubles what it gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from serving.programs.models import (
    Arrays,
    Model,
    Tensor,
    WrongInputError,
    exactly,
    numbers,
    texts,
)
from serving.programs.protocols import infer_v2, plain, predict_v1, signature
from serving.programs.tables import Table


class Doubles(Model):
    def __init__(self, datatype: str = "FP32", *names: str) -> None:
        self.inputs = [Tensor(name, datatype, (-1,)) for name in names or ("x",)]
        self.outputs = [Tensor(f"{one.name}2", datatype, (-1,)) for one in self.inputs]

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        return {f"{name}2": value + value for name, value in given.items()}


def v1(model: Model, **said: Any) -> Any:
    return json.loads(predict_v1(model, json.dumps(said).encode()))["predictions"]


def v2(model: Model, *inputs: dict[str, Any], tail: bytes = b"", **more: Any) -> Any:
    head = json.dumps({"inputs": inputs, **more}).encode()
    made, length = infer_v2(model, "m", "3", head + tail, len(head) if tail else None)
    return json.loads(made[:length]), made[length:] if length else b""


def test_one_input_is_a_row_and_several_are_an_object() -> None:
    assert v1(Doubles(), instances=[1, 2.5]) == [2, 5]
    assert v1(Doubles(), instances=[{"x": 1}]) == [2]
    both = Doubles("INT64", "a", "b")
    assert v1(both, instances=[{"a": 1, "b": 2}]) == [{"a2": 2, "b2": 4}]
    with pytest.raises(WrongInputError, match="Instance 1 has no input b"):
        v1(both, instances=[{"a": 1, "b": 2}, {"a": 1}])
    with pytest.raises(WrongInputError, match="an object with the inputs a, b"):
        v1(both, instances=[[1, 2]])


def test_texts_and_bytes_in_base64() -> None:
    assert v1(Doubles("BYTES"), instances=["ab", "c"]) == ["abab", "cc"]
    assert v1(Doubles("BYTES"), instances=[{"b64": "/w=="}]) == [{"b64": "//8="}]
    with pytest.raises(WrongInputError, match="no base64"):
        v1(Doubles("BYTES"), instances=[{"b64": "%"}])
    with pytest.raises(WrongInputError, match="takes strings"):
        v1(Doubles("BYTES"), instances=[4])


def test_a_missing_number_goes_in_and_what_is_no_number_comes_out_as_null() -> None:
    assert v1(Doubles(), instances=[None, 1]) == [None, 2]
    assert plain(np.array([[np.inf, 1.0]])) == [[None, 1.0]]
    assert plain([{1: np.float32(0.5)}]) == [{"1": 0.5}]


@pytest.mark.parametrize("instances", [["a"], [[1], [1, 2]], [{}], [10**400], 5, [], None])
def test_instances_that_do_not_fit_are_refused(instances: Any) -> None:
    with pytest.raises(WrongInputError):
        v1(Doubles(), instances=instances)


def test_v2_takes_flat_and_nested_data_and_answers_with_version_and_id() -> None:
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]]):
        said, _ = v2(
            Doubles(), {"name": "x", "datatype": "INT32", "shape": [2, 2], "data": data}, id="a"
        )
        output = {"name": "x2", "datatype": "INT32", "shape": [2, 2], "data": [2, 4, 6, 8]}
        assert said == {"model_name": "m", "model_version": "3", "id": "a", "outputs": [output]}


def test_v2_carries_texts_and_numbers_as_bytes() -> None:
    texts = b"\x02\0\0\0ab" + b"\0\0\0\0"
    one = {"name": "x", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 10}}
    said, tail = v2(Doubles(), one, tail=texts, parameters={"binary_data_output": True})
    assert tail == b"\x04\0\0\0abab" + b"\0\0\0\0"
    assert said["outputs"][0]["parameters"] == {"binary_data_size": 12}
    numbers = np.array([1.5, -2], np.float16)
    one = {"name": "x", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}}
    said, tail = v2(Doubles(), one, tail=numbers.tobytes())
    assert (said["outputs"][0]["data"], tail) == ([3.0, -4.0], b"")


@pytest.mark.parametrize(
    "wrong",
    [
        {"datatype": "FP128"},
        {"shape": [-1]},
        {"shape": [3]},
        {"shape": "2"},
        {"shape": [2**40, 2**40]},
        {"data": ["a", "b"]},
        {"data": None},
        {"datatype": "BYTES"},
        {"name": 5},
        {"parameters": {"binary_data_size": 99}},
        {"parameters": {"binary_data_size": -1}},
        {"datatype": "UINT8", "data": [1, 300]},
    ],
)
def test_v2_refuses_what_does_not_fit(wrong: dict[str, Any]) -> None:
    one = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}
    assert v2(Doubles(), one)
    with pytest.raises(WrongInputError):
        v2(Doubles(), one | wrong, tail=b"x" if "parameters" in wrong else b"")


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("INT64", 1.7),
        ("INT64", 2.0**60),
        ("UINT8", 300),
        ("UINT8", -1),
        ("BOOL", "false"),
        ("BOOL", 0.2),
        ("BOOL", 2),
        ("FP32", 1e300),
        ("FP32", "1.5"),
        ("INT32", None),
    ],
)
def test_a_number_never_becomes_another_one(datatype: str, value: Any) -> None:
    with pytest.raises(WrongInputError, match=datatype):
        v1(Doubles(datatype), instances=[value])
    with pytest.raises(WrongInputError, match=datatype):
        v2(Doubles(), {"name": "x", "datatype": datatype, "shape": [1], "data": [value]})


def test_whole_numbers_may_be_written_with_a_point_and_flags_as_numbers() -> None:
    assert numbers([1.0, -2.0], "INT8").tolist() == [1, -2]
    assert numbers([0, 1], "BOOL").tolist() == [False, True]
    assert numbers([2**64 - 1], "UINT64").tolist() == [2**64 - 1]
    assert numbers([], "INT8").shape == (0,)


def test_bytes_go_into_a_model_of_texts_as_text() -> None:
    given = np.array([b"r\xc3\xb6t", "blau"], dtype=object)
    assert texts(given, "color").tolist() == ["röt", "blau"]
    with pytest.raises(WrongInputError, match="color has bytes that are no text"):
        texts(np.array([b"\xff"], dtype=object), "color")


def test_a_model_that_says_its_types_takes_no_others() -> None:
    inputs = [Tensor("x", "FP32", (-1,))]
    with pytest.raises(WrongInputError, match="x takes FP32, not FP64"):
        exactly({"x": np.zeros(2)}, inputs)
    assert exactly({"x": np.zeros(2)}, inputs, typed=False)


def test_a_misspelt_column_is_named_in_whichever_row_it_is() -> None:
    with pytest.raises(WrongInputError, match="Instance 1 has no value for height"):
        Table(2, ["width", "height"]).from_instances(
            [{"width": 1, "height": 2}, {"width": 1, "heigth": 2}]
        )


@pytest.mark.parametrize("tail", [b"\xff\xff\xff\xffab", b"\x01", b"\x05\0\0\0ab"])
def test_v2_texts_that_lie_about_their_length_are_refused(tail: bytes) -> None:
    size = {"binary_data_size": len(tail)}
    one = {"name": "x", "datatype": "BYTES", "shape": [1], "parameters": size}
    with pytest.raises(WrongInputError):
        v2(Doubles(), one, tail=tail)


def test_the_signature_has_columns_where_they_have_names() -> None:
    its = signature([Tensor("x", "FP32", (-1, 2), ("a", "b"))], [])
    one = {"name": "x", "datatype": "FP32", "shape": (-1, 2), "parameters": {"columns": ("a", "b")}}
    assert its == {"inputs": [one], "outputs": []}
