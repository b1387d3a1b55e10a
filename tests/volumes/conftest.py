"""A machine of the fake driver, and people who make volumes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import driving

API = "/api/v1/projects/vision/volumes"
JSON = "application/json"


@pytest.fixture(autouse=True)
def machine(db: None) -> Iterator[Any]:
    """The cluster ``local`` with a fresh fake driver."""
    from clusters import registry
    from clusters.services import ensure_local_cluster

    registry.reset()
    ensure_local_cluster()
    yield registry.driver_for("local")
    registry.reset()


@pytest.fixture
def settle() -> Callable[..., int]:
    return driving.run_due


@pytest.fixture
def make(project: Any, principal: Any, settle: Any) -> Callable[..., Any]:
    """Make a volume of ``vision`` as somebody, and let the engine make it."""
    from volumes.services import create

    def build(who: Any, name: str = "set", size_mib: int = 2048, **more: Any) -> Any:
        wanted = create.NewVolume(name=name, size_mib=size_mib, **more)
        row = create.volume_create(principal=principal(who), project=project, wanted=wanted)
        settle()
        row.refresh_from_db()
        return row

    return build


@pytest.fixture
def other(make_user: Any) -> Any:
    """Another project, with an owner of its own (``otto``) and a manager (``mick``)."""
    from projects.models import Membership, Project

    made = Project.objects.create(slug="sound", name="Sound", phase="running")
    for name, role in (("otto", "owner"), ("mick", "manager")):
        Membership.objects.create(project=made, user=make_user(name), role=role)
    return made


@pytest.fixture
def held() -> Callable[..., Any]:
    """``with held(volume): …``: something has it mounted meanwhile."""
    from volumes import references

    @contextmanager
    def hold(volume: Any, name: str = "lab", who: str = "Alice") -> Iterator[None]:
        uid = volume.uid

        def question(asked: Any) -> list[references.Holder]:
            if asked.uid != uid:
                return []
            return [references.Holder("workspace", "1", name, "/somewhere", who)]

        references.register(question)
        try:
            yield
        finally:
            references._questions.unregister(question)

    return hold


@pytest.fixture
def limit(operator: Any, principal: Any) -> Callable[..., None]:
    """Set the storage limit of a project or person, in MiB."""
    from quotas import services

    def put(amount: int | None, **whom: Any) -> None:
        services.limits_set(principal=principal(operator), limits={"storage_mib": amount}, **whom)

    return put
