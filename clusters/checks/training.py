"""Which operators of training and searches are there, and what lacks without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, undecided
from runtime.training import (
    JOBSET,
    KATIB,
    KINDS,
    MPI_OPERATOR,
    OPERATORS,
    PYTORCHJOB,
    TFJOB,
    TRAINER,
)

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

NAME, SEARCHES_NAME = "training", "searches"
# Which of them do, what they are called, and what is said where all of them lack.
_WANTED = (
    (
        {MPI_OPERATOR},
        "mpi-operator",
        _n("mpi-operator is missing: jobs of MPI are refused."),
    ),
    (
        {JOBSET, TFJOB},
        "JobSet",
        _n("JobSet is missing: TensorFlow runs without parameter servers only."),
    ),
    (
        {TRAINER, PYTORCHJOB},
        "Kubeflow Trainer",
        _n("The Kubeflow Trainer is missing: PyTorch runs as an indexed Job."),
    ),
)
_SEVERAL = _n(
    "Missing: %(operators)s. Without mpi-operator jobs of MPI are refused, without JobSet "
    "TensorFlow has no parameter servers, without the Trainer PyTorch runs as an indexed Job."
)


def act(subject: Subject, bench: Bench) -> Finding:
    """Nobody must have them, so what lacks is told and is no fault."""
    del bench
    there = operators_in(subject, NAME)
    if isinstance(there, Finding):
        return there
    lacking = [(name, said) for do, name, said in _WANTED if not do & there]
    if not lacking:
        return green(NAME, _n("PyTorch, TensorFlow and MPI run on several replicas."))
    if len(lacking) == 1:
        return green(NAME, lacking[0][1])
    return green(NAME, _SEVERAL, operators=", ".join(name for name, _said in lacking))


def searches(subject: Subject, bench: Bench) -> Finding:
    """What chooses the values of searches there."""
    del bench
    there = operators_in(subject, SEARCHES_NAME)
    if isinstance(there, Finding):
        return there
    if KATIB in there:
        return green(SEARCHES_NAME, _n("Katib chooses the values of searches."))
    said = _n("Katib is missing: Optuna chooses in this portal, CMA-ES and Sobol are refused.")
    return green(SEARCHES_NAME, said)


def operators_in(subject: Subject, name: str) -> set[str] | Finding:
    """Return the words of those that are there, as ``probe`` of the driver finds them."""
    answer = subject.api.ask("GET", "/apis")
    if not answer.ok:
        return undecided(name, _n("The API server answered: %(why)s"), why=answer.message)
    apis = {
        str(version.get("groupVersion"))
        for group in answer.body.get("groups") or ()
        for version in group.get("versions") or ()
    }
    found = {word for word, api in OPERATORS.items() if api in apis}
    for word, (api, kind) in KINDS.items():
        if api in apis:
            told = subject.api.ask("GET", f"/apis/{api}").body.get("resources") or ()
            found |= {word} if kind in {one.get("name") for one in told} else set()
    return found
