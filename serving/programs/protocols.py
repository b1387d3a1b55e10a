"""Requests and answers in the two protocols: KServe's v1 and Open Inference v2."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from .models import TYPES, Arrays, Model, Tensor, WrongInputError, datatype_of, numbers

BINARY = "Inference-Header-Content-Length"  # how much of a v2 body is JSON; tensors follow as bytes

LENGTH = struct.Struct("<I")


def decoded(body: bytes | bytearray) -> dict[str, Any]:
    """Return the object that ``body`` is."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise WrongInputError("The body is no JSON.") from problem
    if not isinstance(said, dict):
        raise WrongInputError("The body is an object of JSON.")
    return said


# --- KServe v1 ------------------------------------------------------------------------------------


def predict_v1(model: Model, body: bytes | bytearray) -> bytes:
    """``instances`` in, ``predictions`` out: one for each, an object where a model has several."""
    instances = decoded(body).get("instances")
    if not isinstance(instances, list) or not instances:
        raise WrongInputError("The body is an object with “instances”, a list with one or more.")
    made = model.predict(model.from_instances(instances), [])
    if len(made) == 1:
        predictions = plain(next(iter(made.values())))
    else:
        rows = zip(*(plain(value) for value in made.values()), strict=False)
        predictions = [dict(zip(made, row, strict=True)) for row in rows]
    return msgspec.json.encode({"predictions": predictions})


def plain(value: Any) -> Any:
    """Return an array as JSON has it: bytes that are no text as ``b64``, no number as null."""
    if isinstance(value, np.ndarray):
        is_number = value.dtype.kind in "biu" or (
            value.dtype.kind == "f" and np.isfinite(value).all()
        )
        return value.tolist() if is_number else plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):  # of ONNX: its keys may be numbers
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    its = value.item() if isinstance(value, np.generic) else value
    is_odd = isinstance(its, float) and not math.isfinite(its)
    return None if is_odd else its if isinstance(its, str | int | float | None) else str(its)


# --- Open Inference Protocol v2 -------------------------------------------------------------------


def infer_v2(
    model: Model, name: str, version: str, body: bytes | bytearray, json_length: int | None
) -> tuple[bytes, int | None]:
    """Return the answer, and how much of it is JSON where tensors follow as bytes."""
    said = decoded(body if json_length is None else body[:json_length])
    tail = memoryview(b"" if json_length is None else body[json_length:])
    given: Arrays = {}
    inputs = said.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise WrongInputError("The body is an object with “inputs”, a list with one or more.")
    for one in inputs:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise WrongInputError("Each input is an object with a name.")
        given[one["name"]], tail = _input(one, tail)
    outputs = said.get("outputs") or []
    if not isinstance(outputs, list):
        raise WrongInputError("“outputs” is a list of objects with a name.")
    asked = [one for one in outputs if isinstance(one, dict)]
    wanted = [str(one.get("name")) for one in asked]
    made = model.predict(given, wanted)
    everything = bool(_parameters(said).get("binary_data_output"))
    raw = {str(o.get("name")): _parameters(o).get("binary_data", everything) for o in asked}
    told, tails = [], []
    for key, value in made.items():
        if not isinstance(value, np.ndarray):
            continue  # a sequence or map of ONNX has no place in this protocol
        output: dict[str, Any] = {"name": key, "datatype": datatype_of(value)}
        output["shape"] = list(value.shape)
        if raw.get(key, everything):
            tails.append(_raw(value, output["datatype"]))
            output["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            output["data"] = plain(value.reshape(-1))
        told.append(output)
    answer: dict[str, Any] = {"model_name": name, "outputs": told}
    if version:
        answer["model_version"] = version
    if "id" in said:
        answer["id"] = said["id"]
    head = msgspec.json.encode(answer)
    return b"".join([head, *tails]), len(head) if tails else None


def _parameters(said: dict[str, Any]) -> dict[str, Any]:
    its = said.get("parameters")
    return its if isinstance(its, dict) else {}


def _input(said: dict[str, Any], tail: memoryview) -> tuple[Any, memoryview]:
    """Return one input as an array, and what is left of the bytes behind the JSON."""
    name, datatype, shape = said["name"], said.get("datatype"), said.get("shape")
    if datatype not in TYPES:
        raise WrongInputError(f"Input {name} has no datatype of {', '.join(TYPES)}.")
    is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape:
        raise WrongInputError(f"Input {name} has no shape, a list of numbers.")
    size = _parameters(said).get("binary_data_size")
    if size is None and not isinstance(said.get("data"), list):
        raise WrongInputError(f"Input {name} has no data, a list.")
    try:
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(tail):
                raise WrongInputError(f"Input {name} has not the bytes that it names.")
            raw, tail = tail[:size], tail[size:]
            is_text = datatype == "BYTES"
            made = _texts(raw) if is_text else np.frombuffer(raw, TYPES[datatype])
        elif datatype == "BYTES":
            made = np.array(said.get("data"), dtype=object).reshape(-1)
            if not all(isinstance(value, str) for value in made):
                raise WrongInputError(f"Input {name} takes strings.")
        else:
            made = numbers(said.get("data"), datatype)
        return made.reshape(shape), tail
    except (ValueError, TypeError, OverflowError) as problem:
        text = f"Input {name} has no {datatype} data of the shape {shape}."
        raise WrongInputError(text) from problem


def _texts(raw: memoryview) -> Any:
    """Each text has its length before it, in four bytes."""
    texts = []
    while raw:
        start = LENGTH.size
        end = start + (LENGTH.unpack_from(raw)[0] if len(raw) >= start else 0)
        if len(raw) < end:
            raise ValueError(end)
        texts.append(bytes(raw[start:end]))
        raw = raw[end:]
    return np.array(texts, dtype=object)


def _raw(value: Any, datatype: str) -> bytes:
    if datatype != "BYTES":
        return bytes(np.ascontiguousarray(value).tobytes())
    texts = [t if isinstance(t, bytes) else str(t).encode() for t in value.reshape(-1)]
    return b"".join(LENGTH.pack(len(text)) + text for text in texts)


def described(framework: str, model: Model) -> str:
    """Return what the file says of the model, as JSON on one line."""
    told: dict[str, Any] = {"framework": framework, "made_with": model.made_with}
    return json.dumps({**told, **signature(model.inputs, model.outputs)}, ensure_ascii=False)


def signature(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[str, Any]:
    """Return inputs and outputs as the metadata of v2 has them."""

    def one(tensor: Tensor) -> dict[str, Any]:
        its = asdict(tensor)
        columns = its.pop("columns")
        return {**its, "parameters": {"columns": columns}} if columns else its

    return {"inputs": [one(t) for t in inputs], "outputs": [one(t) for t in outputs]}
