"""Which operators of training and of searches are there, and what can't be done without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, undecided
from runtime.training import KATIB, OPERATORS, SEARCHES

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

NAME, SEARCHES_NAME = "training", "searches"
# What is said where one lacks, alone or with others, the weightiest first.
_LACKING = {
    "mpi": _n("mpi-operator is missing: jobs of MPI are refused."),
    "jobset": _n("JobSet is missing: TensorFlow runs without parameter servers only."),
    "trainer": _n("The Kubeflow Trainer is missing: PyTorch runs as an indexed Job."),
}
_SEVERAL = _n(
    "Missing: %(operators)s. Without mpi-operator jobs of MPI are refused, without JobSet "
    "TensorFlow has no parameter servers, without the Trainer PyTorch runs as an indexed Job."
)


def act(subject: Subject, bench: Bench) -> Finding:
    """Nobody must have them, so what lacks is told and is no fault."""
    del bench
    there = _apis(subject, NAME)
    if isinstance(there, Finding):
        return there
    lacking = [word for word, api in OPERATORS.items() if api not in there]
    if not lacking:
        return green(NAME, _n("PyTorch, TensorFlow and MPI run on several replicas."))
    if len(lacking) == 1:
        return green(NAME, _LACKING[lacking[0]])
    names = {"mpi": "mpi-operator", "jobset": "JobSet", "trainer": "Kubeflow Trainer"}
    return green(NAME, _SEVERAL, operators=", ".join(names[word] for word in lacking))


def searches(subject: Subject, bench: Bench) -> Finding:
    """What chooses the values of searches there."""
    del bench
    there = _apis(subject, SEARCHES_NAME)
    if isinstance(there, Finding):
        return there
    api, kind = SEARCHES[KATIB]
    if api in there:
        answer = subject.api.ask("GET", f"/apis/{api}")
        kinds = {one.get("name") for one in answer.body.get("resources") or ()}
        if kind in kinds:
            return green(SEARCHES_NAME, _n("Katib chooses the values of searches."))
    said = _n("Katib is missing: Optuna chooses in this portal, CMA-ES and Sobol are refused.")
    return green(SEARCHES_NAME, said)


def _apis(subject: Subject, name: str) -> set[str] | Finding:
    answer = subject.api.ask("GET", "/apis")
    if not answer.ok:
        return undecided(name, _n("The API server answered: %(why)s"), why=answer.message)
    return {
        str(version.get("groupVersion"))
        for group in answer.body.get("groups") or ()
        for version in group.get("versions") or ()
    }
