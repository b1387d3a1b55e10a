"""Workspaces in the fake world: presets, launches, and the engine driven by hand."""

from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest

from tests.support import driving


@pytest.fixture(autouse=True)
def world(db: None) -> Iterator[Any]:
    """A fresh fake machine and proxy for every test."""
    from clusters import registry

    registry.reset()
    yield registry
    registry.reset()


@pytest.fixture
def presets(db: None) -> Any:
    from notebooks.models import Preset
    from notebooks.services import ensure_default_presets

    ensure_default_presets()
    return {preset.slug: preset for preset in Preset.objects.all()}


@pytest.fixture
def settle() -> Callable[..., Any]:
    """Let the engine work until all is quiet; return the row as it is then."""

    def run(row: Any = None, **options: Any) -> Any:
        driving.run_due(**options)
        if row is not None:
            row.refresh_from_db()
        return row

    return run


@pytest.fixture
def launch(presets: Any, project: Any, principal: Any) -> Callable[..., Any]:
    from notebooks.services import Wanted, workspace_launch

    def make(user: Any, preset: str = "jupyterlab", **wanted: Any) -> Any:
        return workspace_launch(
            principal=principal(user),
            project=project,
            preset=presets[preset],
            wanted=Wanted(**wanted),
        )

    return make


@pytest.fixture
def text(as_user: Any) -> Callable[..., str]:
    """What a page says to somebody, in the language of the profile."""

    def get(user: Any, path: str = "/", **params: str) -> str:
        answer = as_user(user).get(path, params)
        assert answer.status_code == 200
        return unescape(answer.content.decode())

    return get
