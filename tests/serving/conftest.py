"""A fake machine, and endpoints as people make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from common.clock import now

ENDPOINTS = "/api/v1/projects/vision/endpoints"
LEAST = {"name": "digits", "command": ["python3", "serve.py"]}


@pytest.fixture(autouse=True)
def model_servers(settings: Any, tmp_path: Path) -> None:
    """This machine has them, as far as rows and the fake driver ask."""
    from serving.environments import SIZES_MIB

    settings.BERTH_ENVIRONMENTS_DIR = tmp_path / "environments"
    for name in SIZES_MIB:
        (settings.BERTH_ENVIRONMENTS_DIR / name).mkdir(parents=True)


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


@pytest.fixture
def data(project: Any, alice: Any, settle: Any, fake: Any) -> Any:
    """A volume of the project that its members share."""
    from volumes.models import Volume

    del fake
    made = Volume.objects.create(
        project=project, name="data", kind="data", created_by=alice, cluster_key="local"
    )
    return settle(made)


@pytest.fixture
def look(tmp_path: Path, settle: Any, settings: Any) -> Iterator[Callable[..., Path]]:
    """Look at files of versions through the real server of files, beside ``folders[volume]``."""
    from dataplane.files.http import Server
    from dataplane.files.server import Files
    from dataplane.files.tree import Tree
    from files.models import FileSession
    from files.reconciler import token_of
    from serving.models import ModelVersion
    from serving.services.version_files import versions_look

    settings.BERTH_CLUSTER_PRIVATE_KEY = "as in the worker"  # it asks beside the data itself
    running: dict[Any, Server] = {}

    def serve(row: FileSession) -> None:
        folder = tmp_path / row.volume.name
        folder.mkdir(exist_ok=True)
        token = token_of(row)
        server = Server(("127.0.0.1", 0), token, Files(Tree(folder, read_only=True)).answer)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running[row.pk] = server
        address = f"127.0.0.1:{server.server_address[1]}"
        FileSession.objects.filter(pk=row.pk).update(phase="running", address=address)

    def run() -> Path:
        for _turn in range(4):
            versions_look()
            for row in FileSession.objects.filter(deleted_at=None).select_related("volume"):
                if row.pk not in running:
                    settle(row)
                    serve(row)
            due = ModelVersion.objects.filter(look_at__isnull=False)
            if not due.exists():
                break
            due.update(look_at=now())
        return tmp_path

    yield run
    for server in running.values():
        server.shutdown()
        server.server_close()
