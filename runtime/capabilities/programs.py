"""Running one short program of an image, to learn what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from runtime.spec import Placement


class Attempt(StrEnum):
    """How trying a program stands."""

    RUNNING = "running"  # being pulled, or at work
    DONE = "done"  # ended well; ``text`` is what it wrote
    ABSENT = "absent"  # the image has no such program
    FAILED = "failed"  # it could not be tried, or ended badly: nothing is known


@dataclass(frozen=True)
class Tried:
    """How far a program is that was tried."""

    state: Attempt
    text: str = ""


@dataclass(frozen=True)
class Program:
    """What is run, and where: nodes that are reserved for others do not even fetch the image."""

    namespace: str
    name: str
    image: str
    command: Sequence[str]
    placement: Placement


@runtime_checkable
class SupportsPrograms(Protocol):
    """Running one short program of an image, to learn what it says."""

    def try_program(self, program: Program) -> Tried:
        """Begin, or look how far it is. Call again while it is RUNNING; it removes itself."""
