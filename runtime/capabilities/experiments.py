"""Searches whose values the cluster chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from runtime.protocol import Observation

EXPERIMENT = "experiment"  # kind of what stands for a search at a cluster


@dataclass(frozen=True)
class ExperimentSpec:
    """A search whose values the cluster chooses; ``space``: parameters in Katib's words.

    What runs with the values is none of its business: its trials are told how they ended.
    """

    uid: str
    name: str
    generation: int  # of its begins, each of which knows nothing of those before
    metric: str
    maximizes: bool
    algorithm: str
    settings: Mapping[str, str]
    space: Sequence[Mapping[str, Any]]
    trials_max: int
    parallel: int


@dataclass(frozen=True)
class Proposal:
    """Values to try, oldest first among others; ``told``: it knows how they ended."""

    name: str
    values: Mapping[str, str]
    told: bool = False


@dataclass(frozen=True)
class TrialEnd:
    """How a trial ended. ``curve``: what it said of the metric, the last one last."""

    state: str  # Succeeded, Failed, EarlyStopped
    message: str = ""
    curve: Sequence[float] = ()


@runtime_checkable
class SupportsExperiments(Protocol):
    """A cluster that chooses the values of searches. Every verb may be repeated.

    Denied where the part of it that does so is not there, or refuses.
    """

    def ensure_experiment(self, spec: ExperimentSpec) -> tuple[Proposal, ...]:
        """Make it as it should be; return what it proposed so far."""

    def tell_trial(self, spec: ExperimentSpec, name: str, end: TrialEnd) -> None:
        """Say how a proposal ended, so that it proposes the next. Missing is success."""

    def remove_experiment(self, uid: str) -> None:
        """Take it away with its proposals. Missing is success; NotYet while some are left."""

    def list_experiments(self) -> Iterable[Observation]:
        """As ``list_owned`` says of work, with kind ``EXPERIMENT``: all that is there."""
