"""Making volumes: a name and a size, within limits, once."""

import pytest

from quotas.models import Reservation
from tests.volumes.conftest import API, JSON
from volumes.models import Volume

SET = {"name": "set", "size_mib": 2048}


def reserved(row):
    found = Reservation.objects.filter(workload_uid=row.uid, resource="storage_mib").first()
    return found.amount if found else 0


def test_name_and_size_are_enough_and_the_machine_makes_it(as_user, bob, project, settle, machine):
    client = as_user(bob)
    answer = client.post(API, SET, content_type=JSON)
    assert answer.status_code == 202, answer.content
    said = answer.json()
    assert (said["kind"], said["created_by"], said["phase"]) == ("data", "bob", "pending")
    assert said["volume_class"] == "standard-local"
    settle()
    row = Volume.objects.get(uid=said["id"])
    assert (row.phase, row.used_bytes, reserved(row)) == ("running", 0, 2048)
    assert machine.volume_seen(row.uid) == {
        "project": str(project.uid),
        "owner": "",
        "bytes": 0,
        "size_mib": 2048,
    }
    assert row.abilities == {"grow": True, "snapshot": True, "move": True}


def test_who_may_make_one(as_user, vera, charlie, bob, operator, project):
    for user, code in ((vera, 403), (charlie, 404), (bob, 202)):
        answer = as_user(user).post(API, SET, content_type=JSON)
        assert answer.status_code == code, user


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        ".x",
        "a/b",
        "../b",
        "Ä",
        "A",
        "home",
        "shared",
        "a b",
        "a\nb",
        "a" * 64,
        "x.",
        "\x00",
    ],
)
def test_c8_a_name_is_a_plain_folder(as_user, bob, project, name):
    answer = as_user(bob).post(API, {**SET, "name": name}, content_type=JSON)
    assert answer.status_code == 400
    assert not Volume.objects.filter(kind="data").exists()


def test_c8_nobody_names_paths_users_or_volumes_of_the_cluster(as_user, bob, project):
    for field in ("path", "uid", "volumeName", "backing_kind", "options", "owner", "subPath"):
        answer = as_user(bob).post(API, {**SET, field: "/etc"}, content_type=JSON)
        assert answer.status_code == 400, field
        assert field in answer.json()["fields"]


def test_a_name_is_once_in_a_project_on_a_cluster(as_user, alice, bob, project, other, make_user):
    assert as_user(bob).post(API, SET, content_type=JSON).status_code == 202
    taken = as_user(alice).post(API, SET, content_type=JSON)
    assert (taken.status_code, taken.json()["code"]) == (409, "name-taken")
    from accounts.models import User

    otto = User.objects.get(username="otto")
    there = as_user(otto).post("/api/v1/projects/sound/volumes", SET, content_type=JSON)
    assert there.status_code == 202


def test_e13_a_double_click_makes_one(as_user, bob, project):
    form = {"name": "set", "size": "2"}
    client = as_user(bob)
    one = client.post("/projects/vision/volumes/new/", form)
    two = client.post("/projects/vision/volumes/new/", form)
    assert one.status_code == two.status_code == 302
    assert one["Location"] == two["Location"]
    assert Volume.objects.filter(kind="data").count() == 1


def test_the_sum_of_sizes_stays_below_the_limits(as_user, bob, alice, project, limit):
    limit(3072, project=project)
    limit(2560, user=bob)
    client = as_user(bob)
    assert client.post(API, SET, content_type=JSON).status_code == 202
    mine = client.post(API, {"name": "two", "size_mib": 1024}, content_type=JSON)
    assert (mine.status_code, mine.json()["scope"]) == (409, "user")
    ours = as_user(alice).post(API, {"name": "two", "size_mib": 1536}, content_type=JSON)
    assert (ours.status_code, ours.json()["scope"]) == (409, "project")
    assert (
        as_user(alice).post(API, {"name": "two", "size_mib": 1024}, content_type=JSON).status_code
        == 202
    )
    assert Volume.objects.filter(kind="data").count() == 2


def test_the_plan_says_what_would_happen_and_changes_nothing(as_user, bob, project, limit):
    client = as_user(bob)
    plan = client.post(f"{API}?plan=1", SET, content_type=JSON).json()
    assert (plan["action"], plan["allowed"]) == ("create", True)
    assert {"field": "size_mib", "from": None, "to": 2048} in plan["changes"]
    limit(100, project=project)
    refused = client.post(f"{API}?plan=1", SET, content_type=JSON).json()
    assert refused["allowed"] is False
    assert "limit" in refused["refusal"]
    assert not Volume.objects.filter(kind="data").exists()


def test_nothing_new_in_an_archived_project(as_user, alice, project, principal):
    from projects.services.life import project_archive

    project_archive(principal=principal(alice), project=project)
    answer = as_user(alice).post(API, SET, content_type=JSON)
    assert answer.json()["code"] == "project-archived"


def test_a_document_makes_and_changes_the_same(as_user, bob, project, settle):
    client = as_user(bob)
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Volume",
        "metadata": {"name": "set", "project": "vision"},
        "spec": {"size_mib": 2048, "description": "said"},
    }
    assert (
        client.post(f"{API}/apply?plan=1", document, content_type=JSON).json()["action"] == "create"
    )
    made = client.post(f"{API}/apply", document, content_type=JSON).json()
    document["spec"]["size_mib"] = 4096
    plan = client.post(f"{API}/apply?plan=1", document, content_type=JSON).json()
    assert plan["changes"] == [{"field": "size_limit_mib", "from": 2048, "to": 4096}]
    changed = client.post(f"{API}/apply", document, content_type=JSON).json()
    assert (changed["id"], changed["size_limit_mib"]) == (made["id"], 4096)
    again = client.get(f"{API}/{made['id']}/manifest").json()
    assert client.post(f"{API}/apply?plan=1", again, content_type=JSON).json()["action"] == "none"
    wrong = [
        {**document, "kind": "Pod"},
        {**document, "spec": {"size_mib": "2"}},
        {**document, "spec": {"path": "/etc"}},
        {**document, "metadata": {"name": "set", "project": "sound"}},
        {**document, "spec": {"size_mib": 4096, "class": "other"}},
    ]
    for bad in wrong:
        assert client.post(f"{API}/apply", bad, content_type=JSON).status_code == 400, bad


def test_lists_are_narrowed_by_what_is_asked(as_user, alice, bob, make):
    make(alice, "one")
    make(bob, "two")
    client = as_user(bob)

    def names(**asked):
        return sorted(v["name"] for v in client.get(API, asked).json()["results"])

    assert names(kind="data") == ["one", "two"]
    assert names(mine=1) == ["two"]
    assert names(q="on") == ["one"]
    assert names(deleted=1) == []
    assert names(cluster="nowhere") == []
