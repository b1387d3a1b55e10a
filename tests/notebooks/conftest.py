"""Workspaces on a fake machine, with clusters beside it where a test asks for them."""

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""


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
def post(api: Callable[..., Any], project: Any, alice: Any) -> Callable[..., Any]:
    """Launch as alice; return the answer."""
    from tests.notebooks.cluster_world import BASE

    return lambda body, user=None: api(user or alice, "POST", BASE, body)
