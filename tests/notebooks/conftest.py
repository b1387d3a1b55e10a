"""Workspaces in the fake world: presets, launches, and the engine driven by hand."""

import json
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


@pytest.fixture
def gpu(presets: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cluster besides this machine."""
    from clusters.services import ensure_local_cluster, health_refresh
    from tests.notebooks.cluster_world import attach

    ensure_local_cluster()
    health_refresh(key="local")
    return attach(monkeypatch)


@pytest.fixture
def only_gpu(settings: Any, gpu: Any) -> Any:
    """A cluster and nothing else."""
    settings.BERTH_LOCAL_CLUSTER = False
    return gpu


@pytest.fixture
def api(as_user: Any) -> Callable[..., Any]:
    """Ask the API as somebody; return the answer."""

    def call(user: Any, verb: str, path: str, body: Any = None) -> Any:
        data = {} if body is None else {"data": json.dumps(body)}
        return as_user(user).generic(verb, path, content_type="application/json", **data)

    return call


@pytest.fixture
def post(api: Callable[..., Any], project: Any, alice: Any) -> Callable[..., Any]:
    """Launch as alice; return the answer."""
    from tests.notebooks.cluster_world import BASE

    return lambda body, user=None: api(user or alice, "POST", BASE, body)
