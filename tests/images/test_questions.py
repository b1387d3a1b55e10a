"""How often registries are asked, for how long they are waited for, and by how many at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import Invalid
from images import services
from tests.images.conftest import URL, Registry
from tests.support.shortest import shortest

pytestmark = pytest.mark.django_db


def test_a_launch_asks_once_a_minute_and_pins(
    registry: Registry, project: Any, bob: Any, principal: Any
) -> None:
    digest = registry.image("1", User="1000")
    asked = {
        "principal": principal(bob),
        "project": project,
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    assert services.require_good(**asked).digest == digest
    before = len(registry.asked)
    assert services.require_good(**asked).digest == digest
    assert len(registry.asked) == before
    assert services.pinned(asked["reference"], digest) == f"{registry.host}/a/b@{digest}"
    with pytest.raises(Invalid) as caught:
        services.require_good(**{**asked, "reference": f"{registry.host}/a/b:no"})
    assert "image" in caught.value.fields


def test_what_a_sign_in_found_is_not_told_to_other_projects(
    registry: Registry, signed_in: Any, project: Any, bob: Any, principal: Any
) -> None:
    from projects.models import Membership, Project

    registry.image("1", User="1000")
    registry.mode = "basic"
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=bob, role="member")
    asked = {
        "principal": principal(bob),
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    assert services.require_good(project=project, **asked).good
    with pytest.raises(Invalid):
        services.require_good(project=other, **asked)


def test_a_registry_that_is_silent_is_not_waited_for_long(
    serve: Any, settings: Any, check: Any, monkeypatch: Any
) -> None:
    import time

    from images import lookup

    settings.BERTH_CLUSTER_PRIVATE_KEY = ["here"]
    monkeypatch.setattr(lookup, "SECONDS", 0.3)
    servers = [serve(lambda _handler: time.sleep(1)) for _ in range(3)]
    settings.BERTH_INSECURE_REGISTRIES = [f"127.0.0.2:{server.port}" for server in servers]

    def ask() -> None:
        found = check(f"127.0.0.2:{servers.pop().port}/a/b:1")  # what was found once is kept
        assert (found["verdict"], found["problem"]) == ("unknown", "unreachable")

    assert shortest(ask) < 1


def test_of_many_launches_one_waits_for_a_silent_registry(
    serve: Any, settings: Any, project: Any, bob: Any, principal: Any, monkeypatch: Any
) -> None:
    import time

    from images import lookup

    server = serve(lambda _handler: time.sleep(1))
    host = f"127.0.0.2:{server.port}"
    settings.BERTH_INSECURE_REGISTRIES = [host]
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["here"]
    monkeypatch.setattr(lookup, "SECONDS", 0.3)
    for _ in range(5):
        found = services.require_good(
            principal=principal(bob),
            project=project,
            cluster_key="",
            reference=f"{host}/a/b:1",
            kind="notebook",
        )
        assert (found.verdict, found.digest) == ("unknown", "")
    assert len(server.asked) == 1


def test_a_person_has_two_questions_under_way_at_most(
    registry: Registry, signed_in: Any, project: Any, bob: Any, alice: Any, as_user: Any
) -> None:
    from common.streams import turn

    registry.image("1")
    body = json.dumps({"image": f"{registry.host}/a/b:1"})
    tested = f"/api/v1/projects/vision/credentials/{signed_in.uid}/test"
    with turn(bob.pk), turn(bob.pk), turn(alice.pk), turn(alice.pk):
        refused = as_user(bob).post(URL, body, content_type="application/json")
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-at-once")
        assert "wait for their answers" in refused.json()["detail"]
        assert as_user(alice).post(tested).status_code == 429
    assert not registry.asked
    for _ in range(3):  # turns are given back
        assert as_user(bob).post(URL, body, content_type="application/json").status_code == 200


def test_a_launch_waits_for_its_turn_and_believes_what_others_heard(
    registry: Registry, project: Any, bob: Any, principal: Any, monkeypatch: Any
) -> None:
    from common import streams

    digest = registry.image("1", User="1000")
    asked = {
        "principal": principal(bob),
        "project": project,
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    with streams.turn(bob.pk), streams.turn(bob.pk):
        monkeypatch.setattr(services, "SECONDS", -3.0)
        with pytest.raises(streams.TooManyAtOnce):
            services.require_good(**asked)
    assert services.require_good(**asked).digest == digest


def test_without_the_gate_the_answer_is_unknown(check: Any, settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    settings.BERTH_GATE_INTERNAL_URL = "http://127.0.0.1:9"
    settings.BERTH_GATE_TOKEN = "x"
    found = check("ghcr.io/a/b:1")
    assert (found["verdict"], found["problem"]) == ("unknown", "unreachable")
