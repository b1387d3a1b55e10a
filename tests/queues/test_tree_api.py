"""The tree through the API: operators plan and change it, members read their own part."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from clusters.models import Claim, Device, Hold
from common.clock import now
from projects.models import Project
from queues.models import Guarantee, Queue

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.fixture
def eight(machine: Any) -> Any:
    return machine(gpus=["H100"] * 8)


@pytest.fixture
def hunter(db: Any) -> Project:
    return Project.objects.create(slug="hunter", name="Hunter", phase="running")


@pytest.fixture
def api(as_user: Any, operator: Any) -> Any:
    return as_user(operator)


def share(number: int, **more: Any) -> dict[str, Any]:
    return {"guarantees": [{"cluster": "local", "kind": "h100", "guaranteed": number, **more}]}


def send(api: Any, verb: str, path: str, body: Any = None) -> Any:
    return getattr(api, verb)(f"{API}/{path}", body, content_type="application/json")


def test_a_plan_changes_nothing_and_tells_what_would_follow(eight, hunter, project, api):
    for n in range(8):
        held = Claim.objects.create(
            cluster=eight,
            workload_uid=uuid4(),
            workload_kind="job",
            project_uid=project.uid,
            gpus=1,
            asked_at=now(),
            granted_at=now(),
        )
        Hold.objects.create(claim=held, device=Device.objects.get(index=n))
    waits = Claim.objects.create(
        cluster=eight,
        workload_uid=uuid4(),
        workload_kind="job",
        project_uid=hunter.uid,
        gpus=1,
        asked_at=now(),
    )
    answer = send(api, "patch", f"queues/{hunter.uid}?plan=1", share(2))
    assert answer.status_code == 200
    made = answer.json()
    (effect,) = made["effects"]
    assert [one["uid"] for one in effect["starts"]] == [str(waits.workload_uid)]
    assert [one["project"] for one in effect["asked"]] == [project.name]
    assert effect["promised"] == [{"kind": "h100", "exists": 8, "promised": 2, "over": False}]
    assert made["changed"][0]["guarantees"][0]["guaranteed"] == 2
    assert not Queue.objects.exists()

    saved = send(api, "patch", f"queues/{hunter.uid}", share(2)).json()
    assert saved["effects"] == made["effects"]
    assert Claim.objects.filter(reclaim_at__isnull=False).count() == 1


def test_the_tree_is_made_read_and_changed(eight, hunter, api, auditor, as_user):
    lab = send(api, "post", "queues", {"name": "Lab"}).json()
    body = {"parent": lab["key"], "weight": "2.5", "build_exceeds": True, **share(3, most=4)}
    assert send(api, "patch", f"queues/{hunter.uid}", body).status_code == 200
    read = as_user(auditor).get(f"{API}/queues").json()
    mine = next(row for row in read if row["project"] == "hunter")
    assert (mine["parent"], mine["weight"], mine["build_exceeds"]) == (lab["key"], "2.50", True)
    assert mine["guarantees"] == [
        {"cluster": "local", "kind": "h100", "guaranteed": 3, "most": 4, "lends": None}
    ]
    use = as_user(auditor).get(f"{API}/queues/use/local").json()
    above = next(row for row in use["parts"] if row["name"] == "Lab")
    assert (above["guaranteed"], above["held"]) == (0, 0)
    assert use["promised"][0]["promised"] == 3
    one = f"queues/{lab['key']}"
    assert send(api, "delete", f"{one}?confirm=Lab").status_code == 409
    send(api, "patch", f"queues/{hunter.uid}", {"parent": None, **share(0)})
    assert not Guarantee.objects.exists()
    assert send(api, "delete", f"{one}?confirm=lab").status_code == 400
    assert send(api, "delete", f"{one}?confirm=Lab").status_code == 204
    assert api.get(f"{API}/{one}").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"parent": "not-a-key"},
        {"weight": "-1"},
        {"weight": "NaN"},
        {"nothing": 1},
        share(-1),
        share(2, most=1),
        share(2, lends=3),
        {"guarantees": share(1)["guarantees"] * 2},
        {"guarantees": [{"cluster": "moon", "kind": "h100", "guaranteed": 1}]},
    ],
)
def test_what_is_wrong_is_refused_with_its_field(eight, hunter, api, body):
    answer = send(api, "patch", f"queues/{hunter.uid}", body)
    assert answer.status_code == 400
    assert answer.json()["title"]
    assert not Queue.objects.exists()


def test_members_read_their_own_part_and_nobody_elses(eight, hunter, project, alice, as_user, api):
    send(api, "patch", f"queues/{project.uid}", share(2))
    send(api, "patch", f"queues/{hunter.uid}", share(3))
    member = as_user(alice)
    (own,) = member.get(f"{API}/projects/{project.slug}/queue").json()
    assert (own["cluster"], own["kind"], own["guaranteed"]) == ("local", "h100", 2)
    assert member.get(f"{API}/projects/hunter/queue").status_code == 404
    assert member.get(f"{API}/queues").status_code == 403
    assert member.get(f"{API}/queues/use/local").status_code == 403
    assert send(member, "patch", f"queues/{project.uid}", share(8)).status_code == 403
    names = [row["name"] for row in member.get(f"{API}/queues/priorities").json()]
    assert names[0] == "inference"


def test_the_two_groups_and_priorities(eight, hunter, project, api):
    groups = {
        "cluster": "local",
        "kind": "h100",
        "name": "Pool",
        "fixed": [{"project": str(hunter.uid), "gpus": 2}],
        "pool": [str(project.uid)],
    }
    planned = send(api, "post", "queues/two-groups?plan=1", groups)
    assert planned.status_code == 200
    assert not Queue.objects.exists()
    made = send(api, "post", "queues/two-groups", groups).json()
    assert {row["name"] for row in made["changed"]} == {"Hunter", project.name, "Pool"}
    new = {"name": "night", "label": "Night", "value": 3}
    assert send(api, "post", "queues/priorities", new).status_code == 201
    changed = send(api, "patch", "queues/priorities/night", {"value": 4}).json()
    assert (changed["value"], changed["who"]) == (4, "everybody")
    assert send(api, "delete", "queues/priorities/night").status_code == 204
    assert send(api, "delete", "queues/priorities/train").status_code == 409
