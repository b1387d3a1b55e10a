"""A fake machine, and endpoints as people make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ENDPOINTS = "/api/v1/projects/vision/endpoints"
LEAST = {"name": "digits", "command": ["python3", "serve.py"]}


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def model(project: Any, alice: Any) -> Any:
    from serving.models import Model

    return Model.objects.create(project=project, name="digits", created_by=alice)


@pytest.fixture
def version(model: Any, alice: Any) -> Callable[..., Any]:
    """Make a version whose files are in a shared volume."""
    from serving.models import ModelVersion
    from volumes.models import Volume

    def make(name: str = "v1", **columns: Any) -> Any:
        volume, _made = Volume.objects.get_or_create(
            project=model.project, owner=alice, name="models", defaults={"phase": "running"}
        )
        values = {
            "model": model,
            "name": name,
            "framework": "sklearn",
            "source": "volume",
            "origin": f"volume:models/digits/{name}",
            "volume": volume,
            "folder": f"digits/{name}",
            "created_by": alice,
        }
        return ModelVersion.objects.create(**{**values, **columns})

    return make


@pytest.fixture
def serve(api: Any, alice: Any, settle: Any) -> Callable[..., Any]:
    """Make an endpoint of Alice's and run it as far as it comes; return its row."""
    from serving.models import Endpoint

    def make(**said: Any) -> Any:
        answer = api(alice, "POST", ENDPOINTS, {**LEAST, **said})
        assert answer.status_code == 202, answer.content
        return settle(Endpoint.objects.get(short_id=answer.json()["id"]))

    return make
