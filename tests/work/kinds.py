"""What the tests of every kind of work need to know of one: a new kind is one entry of ``KINDS``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROJECT = "/api/v1/projects/vision"


@dataclass(frozen=True)
class Kind:
    """One kind of work as its API has it.

    ``rights`` is how its rights begin (``load:create``); ``least`` is the least body that makes
    one; ``change`` are fields of a document that make it another one; ``start`` and ``stop`` are
    the verbs, and ``started`` and ``stopped`` what its status then says.
    """

    collection: str
    rights: str
    document: str  # the part of its address that gives its YAML as JSON
    least: Mapping[str, Any]
    change: Mapping[str, Any]
    state: str  # the field of its status
    started: str
    stopped: str
    start: str = "start"
    stop: str = "stop"
    needs: tuple[str, ...] = field(default=())  # fixtures

    def __str__(self) -> str:
        return self.collection

    @property
    def url(self) -> str:
        return f"{PROJECT}/{self.collection}"

    @property
    def apply(self) -> str:
        return f"{self.url}/apply"


KINDS = (
    Kind(
        collection="workspaces",
        rights="workspace",
        document="manifest",
        least={},
        change={"cpu_milli": 1500},
        state="phase",
        started="running",
        stopped="stopped",
        needs=("presets",),
    ),
    Kind(
        collection="loads",
        rights="load",
        document="document",
        least={"url": "s3://bucket/images"},
        change={"exclude": ["*.tmp"]},
        state="state",
        started="starting",
        stopped="paused",
        start="resume",
        stop="pause",
        needs=("shared",),
    ),
    Kind(
        collection="jobs",
        rights="job",
        document="document",
        least={"command": ["python", "train.py"]},
        change={"retries": 2},
        state="state",
        started="running",
        stopped="cancelled",
        stop="cancel",
    ),
)
