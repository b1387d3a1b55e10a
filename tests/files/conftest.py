"""A project with a shared volume in the fake world, and the engine driven by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import driving


@pytest.fixture(autouse=True)
def world(db: None) -> Iterator[Any]:
    """A fresh fake machine for every test."""
    from clusters import registry

    registry.reset()
    yield registry
    registry.reset()


@pytest.fixture
def settle() -> Callable[..., Any]:

    def run(row: Any = None) -> Any:
        driving.run_due()
        if row is not None:
            row.refresh_from_db()
        return row

    return run


@pytest.fixture
def shared(project: Any, alice: Any, principal: Any, settle: Any) -> Any:
    """The volume that the project's members share; it is there."""
    from volumes.services import project_volume_ensure

    made = project_volume_ensure(principal=principal(alice), project=project, cluster_key="local")
    return settle(made)


@pytest.fixture
def home(project: Any, bob: Any, principal: Any, settle: Any) -> Any:
    """The home of bob."""
    from volumes.services import home_ensure

    return settle(home_ensure(principal=principal(bob), project=project, owner=bob))


@pytest.fixture
def url(project: Any) -> Callable[[Any], str]:
    return lambda volume: f"/projects/{project.slug}/volumes/{volume.uid}/files/"
