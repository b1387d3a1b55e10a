"""The ways in which a cluster runs a workload: one small module each (``base.Shape``)."""

from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import observe
from runtime.drivers.kubernetes.shapes import job, statefulset
from runtime.drivers.kubernetes.shapes.base import Shape
from runtime.protocol import WorkloadSpec

__all__ = ["Shape", "of_owner", "of_spec"]


def of_spec(spec: WorkloadSpec) -> Shape:
    """Return how this one is run: what runs to its end is a Job."""
    return job if spec.once else statefulset


def of_owner(owner: Mapping[str, Any]) -> Shape:
    """Return how what owns these pods runs them."""
    return job if observe.is_job(owner) else statefulset
