"""Models of tensors with names: ONNX, TensorFlow, PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .files import RefusedError
from .models import ANY, Arrays, BrokenError, Model, Tensor, WrongInputError, exactly, only, texts


class OnnxModel(Model):
    """Any ONNX model, on the CPUs."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        self.wrong = InvalidArgument
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        cpus = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(path), options, providers=cpus)
        self.inputs = [_of_onnx(node) for node in self.session.get_inputs()]
        self.outputs = [_of_onnx(node) for node in self.session.get_outputs()]

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        only(wanted, self.outputs)
        names = list(wanted) or [tensor.name for tensor in self.outputs]
        named = exactly(given, self.inputs)
        named |= {
            one.name: texts(named[one.name], one.name)
            for one in self.inputs
            if one.datatype == "BYTES"
        }
        try:
            return dict(zip(names, self.session.run(names, named), strict=True))
        except self.wrong as problem:
            said = str(problem).strip().splitlines()[0][:300]
            raise WrongInputError(f"The model does not take this: {said}") from problem


def _of_onnx(node: Any) -> Tensor:
    named = {"float": "FP32", "double": "FP64", "float16": "FP16", "string": "BYTES"}
    inner = node.type.removeprefix("tensor(").removesuffix(")")
    shape = [size if isinstance(size, int) else ANY for size in node.shape]
    # Sequences and maps have no name in the protocol; in JSON they are lists and objects.
    its = "JSON" if node.type.startswith(("seq", "map")) else named.get(inner, inner.upper())
    return Tensor(node.name, its, tuple(shape))


class TensorFlowModel(Model):
    """A SavedModel by its signature ``serving_default``, or the only one."""

    def __init__(self, path: Path, threads: int) -> None:
        import tensorflow as tf

        self.tf = tf
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        loaded = self.loaded = tf.saved_model.load(str(path))
        signatures = dict(loaded.signatures)
        name = "serving_default" if "serving_default" in signatures else next(iter(signatures), "")
        if not name:
            raise RefusedError("The SavedModel has no signature: save it with one to be served.")
        self.made_with = loaded.tensorflow_version
        self.signature = signatures[name]
        self.inputs = _of_tensorflow(self.signature.structured_input_signature[1])
        self.outputs = _of_tensorflow(self.signature.structured_outputs)

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        only(wanted, self.outputs)
        named = exactly(given, self.inputs)
        try:
            given = {name: self.tf.constant(value) for name, value in named.items()}
            made = self.signature(**given)
        except self.tf.errors.InvalidArgumentError as problem:
            said = str(problem).strip().splitlines()[0][:300]
            raise WrongInputError(f"The model does not take this: {said}") from problem
        return {name: value.numpy() for name, value in made.items() if not wanted or name in wanted}


def _of_tensorflow(specs: Mapping[str, Any]) -> list[Tensor]:
    named = {"float16": "FP16", "float32": "FP32", "float64": "FP64", "string": "BYTES"}
    made = []
    for name, spec in sorted(specs.items()):
        shape = () if spec.shape.rank is None else tuple(n or ANY for n in spec.shape.as_list())
        made.append(Tensor(name, named.get(spec.dtype.name, spec.dtype.name.upper()), shape))
    return made


class TorchModel(Model):
    """TorchScript or an exported program, on the first GPU where there is one.

    TorchScript tells the names of its inputs, and neither types nor shapes.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(threads)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.typed = path.suffix == ".pt2"
        if self.typed:
            exported = torch.export.load(path)
            self.module = exported.module().to(self.device)
            self.inputs = _of_exported(exported)
            count = len(exported.graph_signature.user_outputs)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that TorchScript is not developed any more
                self.module = torch.jit.load(str(path), map_location=self.device).eval()
            schema = self.module.forward.schema
            self.inputs = [Tensor(argument.name, "FP32", ()) for argument in schema.arguments[1:]]
            count = 1
        self.outputs = [Tensor(f"output-{number}", "FP32", ()) for number in range(count)]

    def predict(self, given: Arrays, wanted: Sequence[str]) -> Arrays:
        named = exactly(given, self.inputs, typed=self.typed)
        tensors = [
            self.torch.from_numpy(np.array(value)).to(self.device) for value in named.values()
        ]
        try:
            with self.torch.inference_mode():
                made = self.module(*tensors)
            if self.device == "cuda":
                self.torch.cuda.synchronize()  # where it failed is known here, not later
        except self.torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as problem:  # what does not fit; its last line says what
            if "CUDA error" in str(problem):  # nothing runs on that device in this process again
                raise BrokenError("The GPU failed in this process.") from problem
            said = str(problem).strip().splitlines()[-1:]
            raise WrongInputError(
                f"The model does not take this: {''.join(said)[:300]}"
            ) from problem
        if isinstance(made, self.torch.Tensor):
            made = [made]
        named = (
            made if isinstance(made, dict) else {f"output-{n}": one for n, one in enumerate(made)}
        )
        answers = {name: value.cpu().numpy() for name, value in named.items()}
        if missing := [name for name in wanted if name not in answers]:
            raise WrongInputError(f"The model has no output {missing[0]}.")
        return {name: value for name, value in answers.items() if not wanted or name in wanted}


def _of_exported(exported: Any) -> list[Tensor]:
    named = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}
    places = {
        node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"
    }
    made = []
    for name in exported.graph_signature.user_inputs:
        its = str(places[name].dtype).removeprefix("torch.")
        shape = tuple(size if isinstance(size, int) else ANY for size in places[name].shape)
        made.append(Tensor(name, named.get(its, its.upper()), shape))
    return made
