"""What is said about an image: pure, and the same through every door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.oci import ImageProblem, Problem

if TYPE_CHECKING:
    from common.oci import Reference
    from images.models import ImageFacts

NOTEBOOK, CONTAINER = "notebook", "container"
SINGLEUSER_LEAST = (4, 0)
NO_SINGLEUSER = "none"
# Programs that begin by taking the machine over; without root they end at once.
_NEED_ROOT = frozenset({"/init", "/sbin/init", "/usr/sbin/init", "/lib/systemd/systemd"})


class Verdict(StrEnum):
    GOOD = "good"
    BAD = "bad"  # it can't work: refused
    UNKNOWN = "unknown"  # the registry did not say; a node may still pull it


@dataclass(frozen=True)
class Finding:
    """``reference`` is the whole name, ``pinned`` the one that always means the same bytes."""

    verdict: str
    reference: str
    problem: str = ""
    message: str = ""
    pinned: str = ""
    digest: str = ""
    architectures: tuple[str, ...] = ()
    size_bytes: int = 0
    user: str = ""
    runs_as_root: bool = False
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    singleuser: str = ""  # version, "none", or "" = not known yet
    probing: bool = False  # the image's own program is being asked: ask again in a moment
    warnings: tuple[str, ...] = field(default=())

    @property
    def good(self) -> bool:
        return self.verdict == Verdict.GOOD

    @property
    def bad(self) -> bool:
        return self.verdict == Verdict.BAD

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def finding_of(said: Mapping[str, Any]) -> Finding:
    """Read what ``as_json`` wrote; JSON knows no tuples."""
    known = {f.name for f in fields(Finding)}
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in said.items() if k in known
    }
    return Finding(**values)


def refused(reference: str, problem: ImageProblem) -> Finding:
    verdict = Verdict.UNKNOWN if problem.uncertain else Verdict.BAD
    return Finding(verdict, reference, problem.problem, problem.sentence)


def judged(reference: Reference, facts: ImageFacts, *, kind: str, run_as: int) -> Finding:
    """Return what is to be said of an image that is there, for this kind of workspace."""
    problem = _singleuser_problem(facts.singleuser) if kind == NOTEBOOK else None
    return Finding(
        verdict=Verdict.BAD if problem else Verdict.GOOD,
        reference=str(reference),
        problem=problem.problem if problem else "",
        message=problem.sentence if problem else "",
        pinned=reference.pinned(facts.digest),
        digest=facts.digest,
        architectures=tuple(facts.platforms),
        size_bytes=facts.size_bytes,
        user=facts.user,
        runs_as_root=facts.runs_as_root,
        entrypoint=tuple(facts.entrypoint),
        command=tuple(facts.command),
        ports=tuple(facts.ports),
        singleuser=facts.singleuser,
        warnings=tuple(_warnings(facts, kind, run_as)),
    )


def unlearned(found: Finding, *, probing: bool, why: str) -> Finding:
    """Say what is still to be learned of a notebook's image."""
    if probing:
        return replace(found, probing=True)
    if found.singleuser or not why:
        return found
    text = _("Whether jupyterhub is in the image could not be tried: %(why)s") % {"why": why}
    return replace(found, warnings=(*found.warnings, text))


def _warnings(facts: ImageFacts, kind: str, run_as: int) -> list[str]:
    said = []
    program = [*facts.entrypoint, *facts.command]
    if kind == CONTAINER and not program:
        said.append(_("The image names no program of its own: give a command."))
    if kind == CONTAINER and program and program[0] in _NEED_ROOT:
        said.append(
            _(
                "The image starts %(program)s, which needs root. Nothing runs as root here, so it"
                " will most likely end at once: give another command."
            )
            % {"program": program[0]}
        )
    elif facts.runs_as_root:
        said.append(
            _(
                "The image is made to run as root. Here it runs under the number %(number)d: it"
                " can't install system packages, and writes only to the home and /tmp."
            )
            % {"number": run_as}
        )
    elif _other_user(facts.user, run_as):
        said.append(
            _(
                "The image is made to run as “%(user)s”. Here it runs under the number"
                " %(number)d; what only that user may read in the image, it can't."
            )
            % {"user": facts.user, "number": run_as}
        )
    return said


def _other_user(user: str, run_as: int) -> bool:
    name = user.partition(":")[0]
    return name.isdigit() and int(name) != run_as


def _singleuser_problem(version: str) -> ImageProblem | None:
    if not version:
        return None  # not tried yet
    if version == NO_SINGLEUSER:
        return ImageProblem(Problem.NO_SINGLEUSER)
    if version_of(version) < SINGLEUSER_LEAST:
        return ImageProblem(Problem.OLD_SINGLEUSER, has=version)
    return None


def version_of(text: str) -> tuple[int, int]:
    """``5.2.1`` → (5, 2); (0, 0) for what is no version."""
    parts = text.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):  # noqa: PLR2004
        return (0, 0)
    return int(parts[0]), int(parts[1])
