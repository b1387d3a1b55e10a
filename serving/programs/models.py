"""What a model that is open takes and gives, and what does not fit it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .files import RefusedError

Arrays = dict[str, Any]
# Of the Open Inference Protocol.
TYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    **{
        f"{sign}INT{bits}": f"{sign.lower()}int{bits}"
        for sign in ("U", "")
        for bits in (8, 16, 32, 64)
    },
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
ANY = -1  # a size that is not fixed


class WrongInputError(Exception):
    """What a request says does not fit the model: a sentence for who sent it."""


class BrokenError(Exception):
    """The process can't answer anything any more: another one has to."""


@dataclass(frozen=True)
class Tensor:
    """An input or output. ``columns`` are the names of its last axis, where they are known."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    columns: tuple[str, ...] = ()


class Model:
    """A model that is open. ``predict`` may be called by several threads at once."""

    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    made_with = ""  # the version of the framework, where the file says it

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        """Return the outputs ``wanted``, or those of ``outputs``, for arrays by name."""
        raise NotImplementedError

    def from_instances(self, instances: list[Any]) -> Arrays:
        """Return the inputs for rows of JSON: values, or objects with the inputs' names."""
        if not all(isinstance(row, dict) and "b64" not in row for row in instances):
            if len(self.inputs) > 1:
                names = ", ".join(tensor.name for tensor in self.inputs)
                raise WrongInputError(f"Each instance is an object with the inputs {names}.")
            return {self.inputs[0].name: array(instances, self.inputs[0])}
        given = {}
        for tensor in self.inputs:
            if lacks := [n for n, row in enumerate(instances) if tensor.name not in row]:
                raise WrongInputError(f"Instance {lacks[0]} has no input {tensor.name}.")
            given[tensor.name] = array([row[tensor.name] for row in instances], tensor)
        return given


def array(values: Any, tensor: Tensor) -> Any:
    """Return ``values`` of JSON as the array that ``tensor`` asks for."""
    if tensor.datatype == "BYTES":
        return _strings(values)
    try:
        made = numbers(values, tensor.datatype)
    except (ValueError, TypeError, OverflowError) as problem:
        text = f"Input {tensor.name} has a value that is no {tensor.datatype}, or uneven rows."
        raise WrongInputError(text) from problem
    check_shape(made.shape, tensor)
    return made


def numbers(values: Any, datatype: str) -> Any:
    """Return ``values`` of JSON as ``datatype``; ValueError where one would become another.

    Nothing is rounded, cut off or read out of a text; null is no number where there may be none.
    """
    made, its = np.asarray(values), np.dtype(TYPES[datatype])
    if made.dtype.kind == "O" and its.kind == "f":
        made = np.asarray(values, dtype=np.float64)
    if not made.size:
        return made.astype(its)
    if its.kind == "b":
        fits = made.dtype.kind == "b" or (made.dtype.kind in "iu" and np.isin(made, (0, 1)).all())
    elif its.kind in "iu":
        is_whole = made.dtype.kind in "iu" or (
            made.dtype.kind == "f" and bool((np.abs(made) < 2**53).all() and (made % 1 == 0).all())
        )
        bounds = np.iinfo(its)
        fits = is_whole and bounds.min <= made.min() and made.max() <= bounds.max
    else:
        fits = made.dtype.kind in "fiub"
    if not fits:
        raise ValueError(datatype)
    with np.errstate(over="ignore"):
        found = made.astype(its)
    if its.kind == "f" and (np.isinf(found) & np.isfinite(made)).any():
        raise ValueError(datatype)
    return found


def texts(values: Any, name: str) -> Any:
    """Return ``values`` with what is bytes as text."""
    try:
        flat = [v.decode() if isinstance(v, bytes) else v for v in values.reshape(-1)]
    except UnicodeDecodeError as problem:
        raise WrongInputError(f"Input {name} has bytes that are no text in UTF-8.") from problem
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(values.shape)


def check_shape(shape: tuple[int, ...], tensor: Tensor) -> None:
    """Refuse a shape that the model does not take."""
    fits = len(shape) == len(tensor.shape) and all(
        wanted in {ANY, size} for size, wanted in zip(shape, tensor.shape, strict=True)
    )
    if tensor.shape and not fits:
        wanted = list(tensor.shape)
        raise WrongInputError(f"Input {tensor.name} has the shape {list(shape)}, not {wanted}.")


def _strings(values: Any) -> Any:
    """Strings as they are; an object with ``b64`` is bytes."""
    made = np.array(values, dtype=object)
    flat = made.reshape(-1)
    for number, value in enumerate(flat):
        if isinstance(value, dict) and isinstance(value.get("b64"), str):
            try:
                flat[number] = base64.b64decode(value["b64"], validate=True)
            except ValueError as problem:
                raise WrongInputError("A value of b64 is no base64.") from problem
        elif not isinstance(value, str | bytes):
            raise WrongInputError("Here the model takes strings.")
    return flat.reshape(made.shape)


def exactly(given: Arrays, inputs: Sequence[Tensor], *, typed: bool = True) -> Arrays:
    """Return ``given`` in the order of ``inputs``; refuse what does not fit.

    ``typed``: the model says which types it takes.
    """
    if len(given) == len(inputs) == 1:  # one is meant, whatever it is called
        given = {inputs[0].name: next(iter(given.values()))}
    if wrong := sorted(set(given) ^ {tensor.name for tensor in inputs}):
        raise WrongInputError(
            f"The inputs are {', '.join(t.name for t in inputs)}: see {wrong[0]}."
        )
    for tensor in inputs:
        check_shape(given[tensor.name].shape, tensor)
        its = datatype_of(given[tensor.name])
        if typed and tensor.datatype in TYPES and its != tensor.datatype:
            raise WrongInputError(f"Input {tensor.name} takes {tensor.datatype}, not {its}.")
    return {tensor.name: given[tensor.name] for tensor in inputs}


def only(wanted: Sequence[str], outputs: Sequence[Tensor]) -> None:
    """Refuse an output that the model does not have."""
    if missing := [name for name in wanted if name not in {tensor.name for tensor in outputs}]:
        raise WrongInputError(f"The model has no output {missing[0]}.")


def datatype_of(values: Any) -> str:
    """Return what the protocol calls the type of ``values``."""
    names = {np.dtype(its).str: name for name, its in TYPES.items()}
    return names.get(values.dtype.str, "BYTES")


def refuse_newer(path: Path, title: str, made_with: str, here: str) -> None:
    """Refuse a file of a later release than the one that is here: it may mean other things."""
    if _release(made_with) > _release(here):
        raise RefusedError(
            f"{path.name} was made with {title} {made_with} and this server has {here}: "
            "save it with that version, or serve it with a newer image."
        )


def _release(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]
