"""A project with a shared volume in the fake world, and the engine driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""


@pytest.fixture
def shared(project: Any, alice: Any, principal: Any, settle: Any) -> Any:
    """The volume that the project's members share; it is there."""
    from volumes.services.create import project_volume_ensure

    made = project_volume_ensure(principal=principal(alice), project=project, cluster_key="local")
    return settle(made)


@pytest.fixture
def home(project: Any, bob: Any, principal: Any, settle: Any) -> Any:
    """The home of bob."""
    from volumes.services.create import home_ensure

    return settle(home_ensure(principal=principal(bob), project=project, owner=bob))


@pytest.fixture
def url(project: Any) -> Callable[[Any], str]:
    return lambda volume: f"/projects/{project.slug}/volumes/{volume.uid}/files/"
