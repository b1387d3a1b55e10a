"""Fixtures of every kind of work: a fake machine, an engine driven by hand, an API that is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import driving

SECRET = "the-secret-of-the-store"


@pytest.fixture
def world(db: None) -> Iterator[Any]:
    """A fresh fake machine and proxy: the registry of clusters."""
    from clusters import registry

    registry.reset()
    yield registry
    registry.reset()


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
def api(as_user: Any) -> Callable[..., Any]:
    """Call as somebody: api(user, "POST", path, body, **headers)."""

    def call(user: Any, verb: str, path: str, body: Any = None, **headers: Any) -> Any:
        extra = {f"HTTP_{k.upper()}": v for k, v in headers.items()}
        data = {} if body is None else {"data": json.dumps(body)}
        return as_user(user).generic(verb, path, content_type="application/json", **data, **extra)

    return call


@pytest.fixture
def presets(db: None) -> Any:
    """The presets of a new installation, by their short names."""
    from notebooks.models import Preset
    from notebooks.services import ensure_default_presets

    ensure_default_presets()
    return {preset.slug: preset for preset in Preset.objects.all()}


@pytest.fixture
def launch(presets: Any, project: Any, principal: Any) -> Callable[..., Any]:
    """Launch a workspace as somebody; return its row."""
    from notebooks.kind import WORKSPACE
    from work.services import workload_create

    def make(user: Any, preset: str = "jupyterlab", **said: Any) -> Any:
        return workload_create(
            principal=principal(user),
            project=project,
            kind=WORKSPACE,
            said={"preset": presets[preset].slug, **said},
        )

    return make


@pytest.fixture
def shared(project: Any) -> Any:
    """The project's own volume."""
    from volumes.services.create import project_volume_ensure

    return project_volume_ensure(principal=None, project=project)


@pytest.fixture
def credential(project: Any, alice: Any) -> Callable[..., Any]:
    """Make a credential of an S3-compatible store; of a person where ``project`` is None."""
    from common.ids import new_uid
    from credentials.models import Credential
    from credentials.sealing import seal

    def make(name: str = "store", **columns: Any) -> Any:
        uid = new_uid()
        sealed, key = seal(uid, {"secret_key": SECRET})
        values = {
            "uid": uid,
            "project": project,
            "owner": alice,
            "kind": "s3-compatible",
            "name": name,
            "target": "store.example.org",
            "public": {"endpoint": "https://store.example.org", "access_key": "AK", "region": ""},
            "sealed": sealed,
            "sealed_with": key,
        }
        return Credential.objects.create(**{**values, **columns})

    return make
