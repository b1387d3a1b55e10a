"""C9: an image is looked at before anything starts with it."""

from __future__ import annotations

from typing import Any

import pytest

from images.models import ImageFacts
from tests.images.conftest import URL, Registry

pytestmark = pytest.mark.django_db


def test_an_image_that_is_there_is_pinned_and_described(registry: Registry, check: Any) -> None:
    digest = registry.image(
        "1", User="1000", Entrypoint=["tini"], Cmd=["lab"], ExposedPorts={"8888/tcp": {}}
    )
    found = check(f"{registry.host}/team/lab:1")
    assert found["verdict"] == "good"
    assert found["pinned"] == f"{registry.host}/team/lab@{digest}"
    assert (found["digest"], found["size_bytes"], found["ports"]) == (digest, 3000, [8888])
    assert (found["entrypoint"], found["command"]) == (["tini"], ["lab"])
    assert (found["runs_as_root"], found["warnings"]) == (False, [])


def test_of_many_architectures_the_index_is_pinned(registry: Registry, check: Any) -> None:
    arm, amd = registry.image("a", architecture="arm64"), registry.image("b", User="1000")
    index = registry.index("2", arm64=arm, amd64=amd)
    found = check(f"{registry.host}/team/lab:2")
    assert (found["digest"], found["architectures"]) == (index, ["amd64", "arm64"])


def test_an_image_for_other_machines_is_refused(registry: Registry, check: Any) -> None:
    registry.image("arm", architecture="arm64")
    registry.index("idx", arm64=registry.image("x", architecture="arm64"))
    registry.image("win", os="windows")
    for tag in ("arm", "idx", "win"):
        found = check(f"{registry.host}/team/lab:{tag}")
        assert (found["verdict"], found["problem"]) == ("bad", "wrong-architecture"), found
    assert "arm64" in check(f"{registry.host}/team/lab:arm")["message"]


def test_what_a_cluster_is_made_of_decides(registry: Registry, check: Any) -> None:
    from clusters.models import Cluster, Node
    from common.clock import now

    cluster = Cluster.objects.create(key="arm", name="Arm", driver="kubernetes")
    Node.objects.create(
        cluster=cluster, name="n", labels={"kubernetes.io/arch": "arm64"}, seen_at=now()
    )
    registry.image("arm", architecture="arm64")
    assert check(f"{registry.host}/team/lab:arm", cluster="arm")["verdict"] == "good"


def test_where_no_cluster_is_said_the_one_that_a_start_would_choose_decides(
    registry: Registry, check: Any, as_user: Any, bob: Any, settings: Any, monkeypatch: Any
) -> None:
    from clusters.models import Node
    from common.clock import now
    from notebooks.models import Preset
    from tests.notebooks.cluster_world import attach, pool

    settings.BERTH_LOCAL_CLUSTER = False
    Preset.objects.create(slug="lab", name="Lab")
    far = attach(monkeypatch, "far", options={"run_as_user": 4242})
    pool(far, "arms")
    name = {"kubernetes.io/arch": "arm64"}
    Node.objects.create(cluster=far, name="n", labels=name, seen_at=now())
    refuses = attach(monkeypatch, "a-first", options={"trusted": False})
    Node.objects.create(cluster=refuses, name="n", labels={}, seen_at=now())
    registry.image("arm", architecture="arm64")
    registry.image("usual")
    asked = f"{registry.host}/team/lab"
    assert check(f"{asked}:arm")["verdict"] == "good"
    assert check(f"{asked}:usual")["problem"] == "wrong-architecture"
    refuses.options = {**refuses.options, "trusted": True}
    refuses.save()
    assert check(f"{asked}:usual")["verdict"] == "good"
    form = {"image": f"{asked}:arm", "preset": "lab", "cluster": ""}
    page = "/projects/vision/images/check"
    for said, good in ((form, False), ({**form, "pool": "arms"}, True)):
        answer = as_user(bob).post(page, said).content.decode()
        assert ("Can&#x27;t be used" not in answer and "Found" in answer) is good
    # the form of a workspace that is there says it in the address
    answer = as_user(bob).post(f"{page}?cluster=far", {"image": f"{asked}:arm"}).content.decode()
    assert "Found" in answer


def test_the_cluster_of_a_chosen_volume_decides_and_no_other_volume(
    registry: Registry, as_user: Any, bob: Any, project: Any, settings: Any, monkeypatch: Any
) -> None:
    from clusters.models import Node
    from common.clock import now
    from notebooks.models import Preset
    from tests.notebooks.cluster_world import attach
    from volumes.models import Volume

    settings.BERTH_LOCAL_CLUSTER = False
    Preset.objects.create(slug="lab", name="Lab")
    for key, machine in (("a-first", "amd64"), ("far", "arm64")):
        cluster = attach(monkeypatch, key)
        labels = {"kubernetes.io/arch": machine}
        Node.objects.create(cluster=cluster, name="n", labels=labels, seen_at=now())
    shared, data = (
        Volume.objects.create(project=project, created_by=bob, cluster_key="far", **values)
        for values in ({"name": "shared", "kind": "project"}, {"name": "data", "kind": "data"})
    )
    registry.image("arm", architecture="arm64")
    form = {"image": f"{registry.host}/team/lab:arm", "preset": "lab", "cluster": ""}
    offered = {f"volume-{shared.uid}": "rw", f"volume-{data.uid}": ""}
    for said, good in (
        (offered, False),
        ({**offered, f"volume-{data.uid}": "ro"}, True),
        ({**offered, f"volume-{shared.uid}": "ro"}, True),
        ({"volume-": "rw"}, False),
    ):
        answer = as_user(bob).post("/projects/vision/images/check", {**form, **said})
        assert ("Found" in answer.content.decode()) is good, said


def test_a_missing_tag_is_said_in_words(registry: Registry, check: Any) -> None:
    found = check(f"{registry.host}/team/lab:none")
    assert (found["verdict"], found["problem"]) == ("bad", "not-found")
    assert "no such image" in found["message"]


def test_c9_what_is_no_reference_is_said_without_asking_anybody(check: Any) -> None:
    found = check("ghcr.io/Team/../x")
    assert (found["verdict"], found["problem"]) == ("bad", "bad-reference")


def test_an_image_that_is_too_large_is_refused(
    registry: Registry, check: Any, settings: Any
) -> None:
    settings.BERTH_IMAGE_MAX_GIB = 1
    registry.image("1", sizes=[2**31])
    found = check(f"{registry.host}/team/lab:1")
    assert (found["problem"], "2.0\N{NO-BREAK SPACE}GiB" in found["message"]) == ("too-large", True)


def test_root_and_other_users_are_said_before_a_launch(registry: Registry, check: Any) -> None:
    registry.image("root")
    registry.image("init", Entrypoint=["/init"])
    registry.image("other", User="33:33", Cmd=["x"])
    registry.image("none", User="1000")
    found = check(f"{registry.host}/a/b:root")
    assert found["runs_as_root"]
    assert "number 1000" in found["warnings"][0]
    assert "needs root" in check(f"{registry.host}/a/b:init", kind="container")["warnings"][0]
    assert "“33:33”" in check(f"{registry.host}/a/b:other", kind="container")["warnings"][0]
    assert "no program" in check(f"{registry.host}/a/b:none", kind="container")["warnings"][0]


def test_an_image_without_jupyterhub_is_no_notebook_but_a_container(
    registry: Registry, check: Any
) -> None:
    registry.image("1", User="1000", Cmd=["x"])
    assert check(f"{registry.host}/a/b:1")["singleuser"] == ""
    for version, problem in (("none", "no-singleuser"), ("3.1.1", "old-singleuser")):
        ImageFacts.objects.update(singleuser=version)
        found = check(f"{registry.host}/a/b:1")
        assert (found["verdict"], found["problem"]) == ("bad", problem)
        assert check(f"{registry.host}/a/b:1", kind="container")["verdict"] == "good"
    ImageFacts.objects.update(singleuser="5.2.1")
    assert check(f"{registry.host}/a/b:1")["verdict"] == "good"


def test_the_form_shows_the_finding_and_where_credentials_are(
    registry: Registry, bob: Any, project: Any, as_user: Any
) -> None:
    registry.image("1")
    client = as_user(bob)
    page = "/projects/vision/images/check"
    text = client.post(page, {"image": f"{registry.host}/a/b:1"}).content.decode()
    assert "Found" in text
    assert "number 1000" in text
    registry.mode = "basic"
    text = client.post(page, {"image": f"{registry.host}/a/b:1"}).content.decode()
    assert "be used" in text
    assert "/projects/vision/credentials/" in text
    assert "first" in client.post(page, {}).content.decode()
    hostile = client.post(page, {"image": "<script>alert(1)</script>"}).content.decode()
    assert "<script>" not in hostile


def test_viewers_and_strangers_check_nothing(
    project: Any, vera: Any, charlie: Any, as_user: Any
) -> None:
    for user, status in ((vera, 403), (charlie, 404)):
        answer = as_user(user).post(URL, '{"image": "a"}', content_type="application/json")
        assert answer.status_code == status
