"""A1: foreign ids inside a request's body open nothing either."""

import json
from typing import Any

import pytest

from tests.architecture import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def mine(charlie: Any) -> Any:
    from projects.models import Membership, Project

    made = Project.objects.create(slug="mine", name="Mine", phase="running")
    Membership.objects.create(project=made, user=charlie, role="owner")
    return made


def test_a1_foreign_ids_in_bodies_are_refused_and_change_nothing(
    project: Any, mine: Any, alice: Any, charlie: Any, as_user: Any
) -> None:
    from notebooks.models import Preset

    theirs = world.build(project, alice)
    own = world.build(mine, charlie, mark="2")
    closed = Preset.objects.create(slug="closed", name="Closed")
    closed.projects.add(project)
    client = as_user(charlie)
    base = "/api/v1/projects/mine"
    workspace = f"{base}/workspaces/{own['workspace']}"
    asked = [
        ("POST", f"{base}/workspaces", {"preset": "closed"}),
        ("POST", f"{base}/workspaces", {"preset": "guard", "project": "vision"}),
        ("POST", f"{base}/workspaces", {"preset": "guard", "owner": "alice"}),
        ("POST", f"{base}/workspaces", {"preset": "guard", "home": theirs["volume"]}),
        ("PATCH", workspace, {"home": theirs["volume"]}),
        ("PATCH", workspace, {"project": "vision"}),
        ("PATCH", workspace, {"owner": "alice"}),
        ("POST", f"{workspace}/shares", {"username": "alice"}),
        ("PATCH", base, {"uid": theirs["project_uid"]}),
        ("PATCH", f"{base}/volumes/{own['volume']}", {"owner": "alice"}),
    ]
    before = world.snapshot()
    answers = {
        f"{verb} {url} {body}": client.generic(
            verb, url, json.dumps(body), content_type="application/json"
        ).status_code
        for verb, url, body in asked
    }
    opened = {k: v for k, v in answers.items() if v not in {400, 403, 404, 409}}
    assert not opened
    assert world.snapshot() == before
    # What is his own alone lets him in, so nothing was refused for another reason.
    for verb, url, body in (
        ("POST", f"{base}/workspaces", {"preset": "guard"}),
        ("PATCH", workspace, {"name": "mine"}),
    ):
        answer = client.generic(verb, url, json.dumps(body), content_type="application/json")
        assert answer.status_code == 202, answer.content
