"""C9: a launch is refused where its image can't work, and pins what it means where it can."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters import registry as registry_of_clusters
from clusters.services import nodes_store
from images.models import ImageFacts
from notebooks.models import Workspace
from notebooks.reconciler import WorkspaceReconciler
from runtime.capabilities.clusters import NodeChanges
from tests.clusters.fleet import node
from tests.images.conftest import Registry
from tests.notebooks.cluster_world import attach

pytestmark = pytest.mark.django_db
BASE = "/api/v1/projects/vision/workspaces"


@pytest.fixture
def launch(
    project: Any,
    bob: Any,
    as_user: Any,
    registry: Registry,
    presets: Any,
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


def machines(*kinds: str) -> None:
    """Nodes of the cluster, each of one kind of processor; '' does not say."""
    labels = [{"kubernetes.io/arch": kind} if kind else {} for kind in kinds]
    seen = tuple(node(f"n{number}", labels=said) for number, said in enumerate(labels))
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=seen, full=True))
    registry_of_clusters.reset()  # what is known of a cluster is kept for some seconds


def kept_to() -> tuple[str, ...]:
    """Where the newest workspace may run."""
    return WorkspaceReconciler().spec_of(Workspace.objects.latest("id")).placement.architectures


def test_c9_among_several_kinds_of_machine_an_image_stays_on_those_it_is_made_for(
    launch: Any, registry: Registry
) -> None:
    amd, arm = registry.image("amd"), registry.image("arm", architecture="arm64")
    registry.index("both", arm64=arm, amd64=amd)
    machines("amd64", "amd64", "arm64")
    for tag, wanted in (("amd", ("amd64",)), ("arm", ("arm64",)), ("both", ())):
        answer = launch(tag, name=tag)
        assert answer.status_code == 202, answer.content
        assert kept_to() == wanted, tag
    machines("amd64", "arm64", "riscv64")  # the fact is kept with the digest
    assert kept_to() == ("amd64", "arm64")


def test_c9_where_machines_do_not_differ_or_nothing_is_known_any_will_do(
    launch: Any, registry: Registry
) -> None:
    registry.image("1")
    machines("amd64", "")
    assert launch("1").status_code == 202
    assert kept_to() == ()
    machines("amd64", "arm64")
    assert kept_to() == ("amd64",)
    Workspace.objects.update(image_digest="")  # its registry was silent
    assert kept_to() == ()


def test_c9_a_name_of_a_processor_that_is_none_reaches_no_cluster(
    launch: Any, registry: Registry
) -> None:
    odd = registry.image("odd", architecture="amd 64; $(x)")
    registry.index("1", **{"amd64": registry.image("amd"), "amd 64; $(x)": odd, "ARM": odd})
    machines("amd64", "arm64")
    assert launch("1").status_code == 202
    assert kept_to() == ("amd64",)


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
