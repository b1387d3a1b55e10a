"""The API of loads, through HTTP."""

from pathlib import Path

import pytest
import yaml

from loaders.models import Load
from runtime.protocol import Desired, Phase
from work import services as work

BASE = "/api/v1/projects/vision/loads"
SCHEMA = Path(__file__).parents[2] / "docs/openapi.yaml"


def test_a_path_is_all_that_is_needed(api, alice, project, shared, settle):
    answer = api(alice, "POST", BASE, {"url": "s3://bucket/images/"})
    assert answer.status_code == 202, answer.content
    body = answer.json()
    assert (body["name"], body["status"]["state"]) == ("images", "waiting")
    assert (body["spec"]["volume"], body["spec"]["kind"]) == (str(shared.uid), "s3")
    settle()
    body = api(alice, "GET", answer["Location"]).json()
    assert body["status"]["state"] == "starting"


def test_the_project_s_volume_is_made_with_the_first_load(api, alice, project):
    from volumes.models import Volume

    assert api(alice, "POST", f"{BASE}?plan=1", {"url": "gs://set"}).status_code == 200
    assert not Volume.objects.exists()
    answer = api(alice, "POST", BASE, {"url": "gs://set"})
    assert answer.json()["spec"]["volume_name"] == "shared"
    assert Volume.objects.get().kind == "project"


def test_the_same_idempotency_key_gives_the_same_load(api, alice, project, shared):
    first = api(alice, "POST", BASE, {"url": "s3://bucket/a"}, idempotency_key="k1")
    again = api(alice, "POST", BASE, {"url": "s3://bucket/a"}, idempotency_key="k1")
    other = api(alice, "POST", BASE, {"url": "s3://bucket/b"}, idempotency_key="k1")
    assert first.json()["id"] == again.json()["id"]
    assert (other.status_code, Load.objects.count()) == (409, 1)


def test_a_plan_changes_nothing_and_says_what_would_happen(api, alice, project, shared, load):
    there = load(alice, "s3://bucket/set")
    plan = api(alice, "POST", f"{BASE}?plan=1", {"url": "s3://bucket/set", "mode": "sync"}).json()
    assert (plan["action"], plan["allowed"], plan["starts_now"]) == ("create", True, True)
    assert plan["same"] == str(there.uid)
    assert any("same copy already" in said for said in plan["warnings"])
    assert any("must be open to everybody" in said for said in plan["warnings"])
    assert Load.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "bucket"}, "url"),
        ({"url": "s3://bucket", "folder": "../x"}, "folder"),
        ({"url": "s3://bucket", "mode": "move"}, "mode"),
        ({"url": "s3://bucket", "direction": "up"}, "direction"),
        ({"url": "s3://bucket", "delete_extra": True}, "delete_extra"),
        ({"url": "s3://bucket", "endpoint": "http://10.0.0.1"}, "endpoint"),
        ({"url": "gs://bucket", "endpoint": "https://x.example"}, "endpoint"),
        ({"url": "s3://Bucket_1"}, "url"),
        ({"url": "s3://bucket", "schedule": "now"}, "schedule"),
        ({"url": "s3://bucket", "schedule": "0 0 * * *", "time_zone": "Moon"}, "time_zone"),
        ({"url": "s3://bucket", "bandwidth_bytes_s": 5}, "bandwidth_bytes_s"),
        ({"url": "s3://bucket", "name": "a\nb"}, "name"),
        ({"url": "s3://bucket", "owner": "bob"}, "owner"),
    ],
)
def test_bad_input_is_named_and_nothing_is_made(api, alice, project, shared, body, field):
    answer = api(alice, "POST", BASE, body)
    assert (answer.status_code, Load.objects.count()) == (400, 0)
    assert field in answer.json()["fields"]


def test_a_credential_opens_only_addresses_of_its_kind(api, alice, project, shared, credential):
    name = credential().name
    answer = api(alice, "POST", BASE, {"url": "gs://bucket", "credential": name})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["credential"])
    answer = api(
        alice, "POST", BASE, {"url": "s3://b-c", "credential": name, "endpoint": "https://x.y"}
    )
    assert "endpoint" in answer.json()["fields"]


def test_an_edit_needs_the_version_it_was_read_in(api, alice, load, settle, end):
    row = end(settle(load(alice)))
    url = f"{BASE}/{row.uid}"
    tag = api(alice, "GET", url)["ETag"]
    assert api(alice, "PATCH", url, {"name": "new"}, if_match=tag).status_code == 202
    assert api(alice, "PATCH", url, {"name": "newer"}, if_match=tag).status_code == 412
    assert api(alice, "GET", url).json()["name"] == "new"


def test_what_is_copied_where_is_chosen_once(api, alice, load, settle, end):
    row = end(settle(load(alice, folder="a")))
    for body in ({"url": "s3://bucket/b"}, {"folder": "b"}, {"volume": "home"}):
        assert api(alice, "PATCH", f"{BASE}/{row.uid}", body).status_code == 400
    plan = api(alice, "PATCH", f"{BASE}/{row.uid}?plan=1", {"include": ["*.png"]}).json()
    assert [change["field"] for change in plan["changes"]] == ["include"]
    api(alice, "PATCH", f"{BASE}/{row.uid}", {"include": ["*.png"]})
    row.refresh_from_db()
    assert (row.include, row.loaded_at) == (["*.png"], None)


def test_while_it_runs_only_name_and_schedule_change(api, alice, load, settle):
    row = settle(load(alice))
    url = f"{BASE}/{row.uid}"
    assert api(alice, "PATCH", url, {"mode": "sync"}).status_code == 409
    answer = api(alice, "PATCH", url, {"schedule": "30 2 * * *", "time_zone": "Asia/Tokyo"})
    assert answer.status_code == 202
    assert answer.json()["next_run_at"].endswith("17:30:00Z")


def test_deleting_what_is_not_in_the_bucket_spares_what_others_loaded(
    api, alice, project, shared, load
):
    load(alice, "s3://bucket/one", folder="data/one")
    body = {"url": "s3://bucket/two/", "mode": "sync", "delete_extra": True}
    answer = api(alice, "POST", BASE, {**body, "folder": "data"})
    assert (answer.status_code, "delete_extra" in answer.json()["fields"]) == (400, True)
    # without the slash it lands in, and deletes in, a folder of its own
    beside = {**body, "url": "s3://bucket/two", "folder": "data"}
    assert api(alice, "POST", BASE, beside).status_code == 202


def test_nothing_is_loaded_into_where_another_load_deletes(
    api, alice, project, shared, load, settle, end
):
    end(settle(load(alice, "s3://bucket/one/", folder="data", mode="sync", delete_extra=True)))
    for folder in ("data", "", "data/below"):
        body = {"url": "s3://bucket/two/", "folder": folder}
        answer = api(alice, "POST", BASE, body)
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["folder"])
        assert not api(alice, "POST", f"{BASE}?plan=1", body).json()["allowed"]
    for body in (
        {"url": "s3://bucket/two/", "folder": "data-2"},
        {"url": "s3://bucket/two/", "folder": "data", "direction": "out"},
    ):
        assert api(alice, "POST", BASE, body).status_code == 202
    # the very same copy brings nothing that the other one deletes
    same = {"url": "s3://bucket/one/", "folder": "data"}
    made = api(alice, "POST", BASE, same).json()
    end(settle(Load.objects.get(uid=made["id"])))
    answer = api(alice, "PATCH", f"{BASE}/{made['id']}", {"include": ["*.png"]})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["folder"])


def test_a_load_of_listed_objects_is_minded_where_it_writes(api, alice, project, shared, load):
    """Of a list the last word of the path is not kept: it writes into the folder itself."""
    load(alice, "s3://bucket/one", folder="data", objects=["one/a"])
    body = {"url": "s3://bucket/two/", "mode": "sync", "delete_extra": True}
    assert api(alice, "POST", BASE, {**body, "folder": "data/one"}).status_code == 400
    assert api(alice, "POST", BASE, {**body, "folder": "data/two"}).status_code == 400
    load(alice, "s3://bucket/one", folder="other")
    assert api(alice, "POST", BASE, {**body, "folder": "other/two"}).status_code == 202


def test_every_verb_has_its_door(api, alice, load, settle, end, report):
    row = settle(load(alice))
    url = f"{BASE}/{row.uid}"
    assert api(alice, "POST", f"{url}/pause").json()["desired"] == "stopped"
    settle(row)
    assert api(alice, "POST", f"{url}/resume").json()["run"] == 2
    settle(row)
    files = {"found": 4, "done": 3, "unchanged": 0, "skipped": 0, "failed": 1, "deleted": 0}
    final = {
        "exit": 3,
        "code": "partial",
        "message": "",
        "manifest": ".berth/loads/x/manifest.jsonl",
    }
    error = {"key": "../up", "code": "bad-key", "message": "not a name"}
    report(row, files=files, final=final, errors=[error])
    end(row, 3)
    body = api(alice, "GET", url).json()
    assert (body["status"]["state"], body["status"]["files"]["failed"]) == ("partial", 1)
    assert body["status"]["advice"]
    assert api(alice, "GET", f"{url}/errors").json() == [error]
    assert [run["result"] for run in api(alice, "GET", f"{url}/runs").json()] == [
        "partial",
        "paused",
    ]
    assert api(alice, "GET", f"{url}/manifest").json()["path"].endswith("manifest.jsonl")
    assert api(alice, "POST", f"{url}/retry").json()["status"]["task"] == "retry"
    settle(row)
    assert api(alice, "POST", f"{url}/verify").status_code == 409
    assert api(alice, "POST", f"{url}/cancel").status_code == 202
    settle(row)
    for verb in ("verify", "dry-run", "start"):
        assert api(alice, "POST", f"{url}/{verb}").status_code == 202
        api(alice, "POST", f"{url}/cancel")
        settle(row)
    assert api(alice, "DELETE", url).status_code == 202
    settle(row)
    assert api(alice, "GET", url).status_code == 404


def test_the_document_makes_the_same_load_again(api, alice, load, settle, end, project):
    row = end(settle(load(alice, folder="x", include=["*.png"], schedule="30 2 * * *")))
    document = api(alice, "GET", f"{BASE}/{row.uid}/document").json()
    assert api(alice, "POST", f"{BASE}/apply?plan=1", document).json()["action"] == "none"
    document["metadata"]["name"] = "again"
    document["spec"]["exclude"] = ["*.tmp"]
    made = api(alice, "POST", f"{BASE}/apply", document)
    assert made.status_code == 202
    assert (made.json()["name"], made.json()["run"]) == ("again", 1)
    row.refresh_from_db()
    changed = api(alice, "GET", f"{BASE}/{row.uid}/document").json()
    changed["spec"]["include"] = ["*.jpg"]
    assert api(alice, "POST", f"{BASE}/apply", changed).json()["run"] == 2  # at once
    document["spec"]["color"] = "red"
    assert api(alice, "POST", f"{BASE}/apply", document).json()["fields"] == {
        "spec.color": ["There is no such field."]
    }


def test_apply_starts_what_has_not_brought_its_data_and_nothing_else(
    api, alice, load, settle, end, project
):
    row = end(settle(load(alice)), 4)
    document = api(alice, "GET", f"{BASE}/{row.uid}/document").json()
    assert api(alice, "POST", f"{BASE}/apply", document).json()["run"] == 2
    end(settle(row), 0)
    assert api(alice, "POST", f"{BASE}/apply", document).json()["run"] == 2


def test_lists_are_narrowed_by_state_owner_and_words(api, alice, bob, load, settle, end):
    end(settle(load(alice, "s3://bucket/one")))
    load(bob, "s3://other-bucket/two")

    def names(query):
        return [r["name"] for r in api(alice, "GET", f"{BASE}?{query}").json()["results"]]

    assert names("") == ["two", "one"]
    assert names("state=done") == ["one"]
    assert names("state=waiting") == ["two"]
    assert names("mine=1") == ["one"]
    assert names("q=other") == ["two"]
    assert api(alice, "GET", f"{BASE}?state=none").status_code == 400


def test_viewers_look_and_do_not_touch(api, alice, vera, load, settle):
    row = settle(load(alice))
    assert api(vera, "GET", f"{BASE}/{row.uid}").status_code == 200
    assert api(vera, "POST", BASE, {"url": "s3://bucket/x"}).status_code == 403
    for verb in ("start", "pause", "cancel", "verify"):
        assert api(vera, "POST", f"{BASE}/{row.uid}/{verb}").status_code == 403
    assert api(vera, "DELETE", f"{BASE}/{row.uid}").status_code == 403


def test_data_before_gpu_asks_for_loads_that_are_done(load, alice, settle, end, principal, project):
    from loaders import services
    from loaders.selectors import missing
    from work import needs

    told: list[str] = []
    heard = lambda uids: told.extend(map(str, uids))  # noqa: E731
    needs.changed.register(heard)
    try:
        row = settle(load(alice))
        assert missing([row.uid])[0] == "data"
        end(row, 3)
        reason, sentence = missing([str(row.uid)])
        assert reason == "data-missing"
        assert "Partial" in sentence
        services.load_start(principal=principal(alice), row=row)
        end(settle(row), 0)
        assert missing([row.uid]) is None
        services.load_start(principal=principal(alice), row=row)
        assert missing([row.uid]) is None  # what was there once stays there
        work.workload_delete(principal=principal(alice), row=settle(row))
        assert missing([row.uid])[0] == "data-missing"
        assert set(told) == {str(row.uid)}
    finally:
        needs.changed.unregister(heard)


def test_the_words_that_phase_and_wish_can_be_are_in_the_schema():
    shapes = yaml.load(SCHEMA.read_text(), yaml.CSafeLoader)["components"]["schemas"]
    for shape, field, words in (("LoadStatusOut", "phase", Phase), ("LoadOut", "desired", Desired)):
        said = shapes[shape]["properties"][field]
        name = said.get("$ref", "").rpartition("/")[2]
        assert sorted(shapes[name]["enum"]) == sorted(words), field
