"""Which image signs people in before the ports of a container, and where there is none."""

from typing import Any

import pytest

from notebooks.models import Workspace
from notebooks.reconciler import WorkspaceReconciler
from tests.notebooks.cluster_world import attach

GUARD, LAB = "registry.example.org/guard:1", "registry.example.org/lab:6"


@pytest.fixture
def post(as_user: Any, alice: Any, project: Any, presets: Any, monkeypatch: Any) -> Any:
    def call(**options: str) -> Any:
        attach(monkeypatch, options=options)
        body = {"kind": "container", "image": "r.example/x:1", "command": ["x"], "ports": [7860]}
        path = f"/api/v1/projects/{project.slug}/workspaces"
        return as_user(alice).post(path, body, content_type="application/json")

    return call


@pytest.mark.parametrize(
    ("sidecar", "default", "used"), [(GUARD, LAB, GUARD), ("", LAB, LAB), (GUARD, "", GUARD)]
)
def test_ports_have_the_clusters_image_for_it_else_its_default_one(
    post: Any, sidecar: str, default: str, used: str
) -> None:
    answer = post(sidecar_image=sidecar, default_image=default)
    assert answer.status_code == 202, answer.content
    row = Workspace.objects.get(short_id=answer.json()["id"])
    assert [one.image for one in WorkspaceReconciler().spec_of(row).sidecars] == [used]


def test_where_there_is_neither_a_container_with_ports_is_refused(post: Any) -> None:
    answer = post(sidecar_image="", default_image="")
    assert answer.status_code == 400, answer.content
    assert "its operator can change it" in answer.json()["fields"]["ports"][0]
