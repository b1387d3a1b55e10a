"""Every kind of work on a fake machine."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""


@pytest.fixture
def tiny() -> Iterator[Any]:
    """Register the least kind of work for one test."""
    from runtime import reconcilers
    from tests.work.tiny.kind import TINY, TinyReconciler
    from work import kinds

    kinds.register(TINY)
    reconcilers.register(TinyReconciler())
    yield TINY
    kinds.unregister(TINY.word)
    reconcilers.unregister(TINY.word)


SIZED = ("tiny", "job", "workspace")  # one says how large they are, and attaches things


@pytest.fixture(params=[*SIZED, "load"])
def kind(request: pytest.FixtureRequest, presets: Any) -> Any:
    """Every kind that runs on the services of ``work``, and one that has nothing but them."""
    from work import kinds

    if request.param == "tiny":
        return request.getfixturevalue("tiny")
    return kinds.kind_of(request.param)


# with which one is made
LEAST: dict[str, dict[str, Any]] = {
    "tiny": {},
    "job": {"command": ["python", "train.py"]},
    "workspace": {},
    "load": {"url": "s3://bucket/images"},
}

# how one is called that nobody named
UNNAMED = {"tiny": "tiny", "job": "job", "workspace": "JupyterLab", "load": "images"}


@pytest.fixture
def make(project: Any, principal: Any, kind: Any, settle: Any) -> Callable[..., Any]:
    """Make one as somebody and let the engine work; return its row."""
    from work import services

    def run(user: Any, **said: Any) -> Any:
        row = services.workload_create(
            principal=principal(user), project=project, kind=kind, said=LEAST[kind.word] | said
        )
        return settle(row)

    return run
