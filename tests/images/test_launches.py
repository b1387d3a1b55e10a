"""C9: a launch is refused where its image can't work, and pins what it means where it can."""

from __future__ import annotations

import json
from typing import Any

import pytest

from images.models import ImageFacts
from notebooks.models import Workspace
from tests.images.conftest import Registry
from tests.notebooks.cluster_world import attach
from tests.notebooks.conftest import presets  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db
BASE = "/api/v1/projects/vision/workspaces"


@pytest.fixture
def launch(
    project: Any,
    bob: Any,
    as_user: Any,
    registry: Registry,
    presets: Any,  # noqa: F811
    monkeypatch: Any,
) -> Any:
    attach(monkeypatch)

    def post(tag: str, **more: Any) -> Any:
        body = {"kind": "container", "command": ["app"], "image": f"{registry.host}/a/b:{tag}"}
        return as_user(bob).post(BASE, json.dumps(body | more), "application/json")

    return post


def test_c9_a_bad_reference_fails_in_the_launch_and_nothing_is_written(
    launch: Any, registry: Registry
) -> None:
    registry.image("arm", architecture="arm64")
    for tag, word in (("none", "no such image"), ("arm", "arm64")):
        answer = launch(tag)
        assert answer.status_code == 400, answer.content
        assert word in answer.json()["fields"]["image"][0]
    assert not Workspace.objects.exists()


def test_c9_a_launch_pins_what_the_tag_means_now(launch: Any, registry: Registry) -> None:
    first = registry.image("1", User="1000", Cmd=["a"])
    row = Workspace.objects.get(short_id=launch("1").json()["id"])
    assert row.image_digest == first
    registry.image("1", User="1000", Cmd=["b"])  # the tag was moved
    row.refresh_from_db()
    assert row.image_digest == first


def test_c9_an_image_that_is_known_to_be_no_notebook_is_refused_as_one(
    launch: Any, registry: Registry
) -> None:
    registry.image("1", User="1000", Cmd=["a"])
    assert launch("1").status_code == 202
    ImageFacts.objects.update(singleuser="none")
    answer = launch("1", kind="notebook", command=[], cluster="gpu", name="lab")
    assert answer.status_code == 400, answer.content
    assert "jupyterhub-singleuser" in answer.json()["fields"]["image"][0]


def test_c9_the_form_says_it_and_keeps_what_was_written(
    launch: Any, registry: Registry, bob: Any, as_user: Any
) -> None:
    del launch  # the cluster is what is needed
    image = f"{registry.host}/a/b:none"
    client = as_user(bob)
    page = "/projects/vision/workspaces/launch/"
    body = {"kind": "container", "cluster": "gpu", "image": image, "command": "app"}
    answer = client.post(page, body)
    text = answer.content.decode()
    assert answer.status_code in {400, 422}, (answer.status_code, text[:500])
    assert "no such image or tag" in text
    assert image in text
    assert not Workspace.objects.exists()
