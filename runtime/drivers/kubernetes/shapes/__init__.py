"""The ways in which a cluster runs a workload: one small module each (``base.Shape``)."""

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes import observe
from runtime.drivers.kubernetes.shapes import inferenceservice, job, statefulset
from runtime.drivers.kubernetes.shapes.base import Shape
from runtime.drivers.kubernetes.shapes.jobset import JOBSET
from runtime.drivers.kubernetes.shapes.mpijob import MPIJOB
from runtime.drivers.kubernetes.shapes.pytorchjob import PYTORCHJOB
from runtime.drivers.kubernetes.shapes.tfjob import TFJOB
from runtime.drivers.kubernetes.shapes.trainjob import TRAINJOB
from runtime.spec import WorkloadSpec

__all__ = ["Shape", "of_operators", "of_owner", "of_spec"]

_OPERATED = (TRAINJOB, JOBSET, MPIJOB, PYTORCHJOB, TFJOB)


def of_spec(spec: WorkloadSpec) -> Shape:
    """Return how this one is run: what runs to its end is a Job, or an operator's object."""
    if spec.serve is not None:
        return inferenceservice
    operated = {shape.operator: shape for shape in _OPERATED}.get(spec.operator)
    return operated or (job if spec.once else statefulset)


def of_owner(owner: Mapping[str, Any]) -> Shape:
    """Return how what owns these pods runs them."""
    if owner.get("kind") == inferenceservice.KIND:
        return inferenceservice
    operated = {shape.KIND: shape for shape in _OPERATED}.get(str(owner.get("kind")))
    return operated or (job if observe.is_job(owner) else statefulset)


def of_operators(there: Iterable[str]) -> list[Shape]:
    """Return those of the operators that are there."""
    found: list[Shape] = [shape for shape in _OPERATED if shape.operator in set(there)]
    return [*found, *([inferenceservice] if inferenceservice.operator in set(there) else [])]
