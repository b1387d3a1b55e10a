"""Volumes, credentials and loads of a workspace: said, refused, seen by the driver, taken away."""

import json

import pytest
import yaml

from clusters.registry import driver_for
from credentials.models import Credential
from loaders.models import Load
from notebooks.models import Workspace
from projects.models import Membership, Project
from runtime.protocol import Desired, Phase
from tests.notebooks.cluster_world import attach
from tests.support import driving
from volumes.models import Volume

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYAB"
BASE = "/api/v1/projects/vision/workspaces"


@pytest.fixture
def data(project, alice, principal):
    return _volume(principal(alice), project, "data")


@pytest.fixture
def store_key(project, mona, principal):
    """A key of the project for an S3 store, made through its own door."""
    return _key(principal(mona), project, "bucket-key")


@pytest.fixture
def load(project, alice, data):
    return Load.objects.create(
        project=project,
        owner=alice,
        name="images",
        store_kind="s3",
        bucket="b",
        anonymous=True,
        volume=data,
        fingerprint="f",
        desired=Desired.RUNNING,
        phase=Phase.RUNNING,
        launch=1,
    )


def _spec(body):
    return body["spec"]


def _volume(who, project, name):
    from clusters.installed import ensure_local_cluster
    from volumes.services.create import NewVolume, volume_create

    ensure_local_cluster()
    return volume_create(principal=who, project=project, wanted=NewVolume(name, 1024))


def _key(who, project, name):
    from credentials.services import Label, credential_add

    return credential_add(
        principal=who,
        project=project,
        kind="s3",
        label=Label(name),
        fields={"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": SECRET, "region": "eu-west-1"},
    )


def test_one_press_sees_the_volume_of_the_project(api, presets, project, alice, settle):
    made = api(alice, "POST", BASE, {}).json()
    seen = _spec(made)["volumes"]
    assert [(v["name"], v["read_only"]) for v in seen] == [("shared", False)]
    settle()
    row = Workspace.objects.get(short_id=made["id"])
    mounts = driver_for("local").spec_seen(row.uid)["mounts"]
    shared = Volume.objects.get(project=project, kind="project")
    assert mounts == [str(row.home.uid), str(shared.uid)]


def test_volumes_are_named_with_how_they_are_seen(api, presets, project, alice, data):
    said = ["data:ro", {"volume": "shared"}]
    api(alice, "POST", BASE, {})  # makes the shared one
    body = api(alice, "POST", BASE, {"volumes": said, "name": "two"}).json()
    assert [(v["name"], v["read_only"]) for v in _spec(body)["volumes"]] == [
        ("data", True),
        ("shared", False),
    ]
    none = api(alice, "POST", BASE, {"volumes": [], "name": "none"}).json()
    assert _spec(none)["volumes"] == []


def test_a_full_shared_volume_is_only_read_and_stops_nobody_from_starting(
    api, presets, project, alice
):
    api(alice, "POST", BASE, {})
    Volume.objects.filter(project=project, kind="project").update(
        size_limit_mib=1, used_bytes=2 * 1024 * 1024
    )
    one_press = api(alice, "POST", BASE, {"name": "two"})
    assert one_press.status_code == 202, one_press.content
    assert [v["read_only"] for v in _spec(one_press.json())["volumes"]] == [True]
    said = [{"volume": "shared", "read_only": False}]
    assert api(alice, "POST", BASE, {"name": "three", "volumes": said}).status_code == 409


def test_what_a_workspace_may_have_written_is_to_be_measured_after_its_end(
    api, presets, project, alice, data, principal
):
    from tests.support.workspaces import workspace_stop

    read = _volume(principal(alice), project, "read")
    said = [{"volume": "data", "read_only": False}, {"volume": "read", "read_only": True}]
    assert api(alice, "POST", BASE, {"volumes": said, "name": "one"}).status_code == 202
    row = Workspace.objects.get()
    driving.run_due()
    asked = Volume.objects.filter(measure_asked_at__isnull=False)
    assert not asked.exists()
    workspace_stop(principal=principal(alice), workspace=row)
    driving.run_due()
    assert {v.pk for v in asked} == {row.home.pk, data.pk}
    assert read.pk not in {v.pk for v in asked}


def test_a_stopped_workspace_whose_volume_became_full_starts_with_a_warning(
    api, as_user, presets, project, alice, data, principal
):
    from tests.support.workspaces import workspace_stop

    said = [{"volume": "data", "read_only": False}]
    made = api(alice, "POST", BASE, {"volumes": said, "name": "one"}).json()
    row = Workspace.objects.get()
    driving.run_due()
    workspace_stop(principal=principal(alice), workspace=row)
    driving.run_due()
    Volume.objects.filter(pk=data.pk).update(size_limit_mib=1, used_bytes=2 * 1024 * 1024)
    answer = api(alice, "POST", f"{BASE}/{made['id']}/start")
    assert answer.status_code == 202, answer.content
    driving.run_due()
    row.refresh_from_db()
    assert (row.phase, row.launch) == ("running", 2)
    assert "“data”" in row.steps.filter(launch=2, word="accepted").get().message
    workspace_stop(principal=principal(alice), workspace=row)
    driving.run_due()
    page = as_user(alice).post(f"/projects/vision/workspaces/{made['id']}/start/", follow=True)
    assert "Full: “data”." in page.content.decode()


@pytest.mark.parametrize(
    "said",
    [["nowhere"], ["data", "data"], [{"volume": "data", "mode": "x"}], [7], ["a\u0000b"], "data"],
)
def test_what_cannot_be_seen_is_named_and_nothing_starts(api, presets, project, alice, data, said):
    answer = api(alice, "POST", BASE, {"volumes": said})
    assert answer.status_code == 400, answer.content
    assert "volumes" in json.dumps(answer.json()["fields"])
    assert not Workspace.objects.exists()


def test_d12_things_of_another_project_are_like_things_that_are_not(
    api, presets, project, alice, charlie, principal
):
    """Ids of another tenant in the body, compared with ids of nothing."""
    from common.ids import new_uid

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=charlie, role="owner")
    volume = _volume(principal(charlie), other, "v")
    key = _key(principal(charlie), other, "k")
    load = Load.objects.create(
        project=other,
        owner=charlie,
        name="l",
        store_kind="s3",
        bucket="b",
        anonymous=True,
        volume=volume,
        fingerprint="f",
    )
    for field, row in (("volumes", volume), ("credentials", key), ("needs", load)):
        theirs = api(alice, "POST", BASE, {field: [str(row.uid)]})
        nothing = api(alice, "POST", BASE, {field: [str(new_uid())]})
        assert theirs.status_code == nothing.status_code == 400
        assert len(theirs.content) == len(nothing.content)
    assert not Workspace.objects.exists()


def test_a_home_is_not_mounted_beside_another(api, presets, project, alice, bob):
    api(bob, "POST", BASE, {})
    home = Volume.objects.get(owner=bob, kind="home")
    assert api(alice, "POST", BASE, {"volumes": [str(home.uid)]}).status_code == 400


def test_credentials_reach_the_driver_and_no_answer(
    api, presets, project, alice, store_key, settle
):
    body = api(alice, "POST", BASE, {"credentials": ["bucket-key"]})
    assert body.status_code == 202, body.content
    assert [c["name"] for c in _spec(body.json())["credentials"]] == ["bucket-key"]
    settle()
    row = Workspace.objects.get()
    assert row.phase == Phase.RUNNING
    seen = driver_for("local").spec_seen(row.uid)
    assert seen["secret_files"]
    assert seen["placed_files"] == ["boto"]  # where it is there, for gsutil
    text = json.dumps(seen) + api(alice, "GET", f"{BASE}/{row.short_id}").content.decode()
    assert SECRET not in text


@pytest.mark.usefixtures("presets")
def test_d13_a_removed_credential_goes_from_what_runs(
    api, alice, mona, store_key, settle, principal
):
    """The rule: what runs goes on, its files and the cluster's Secret lose the secret."""
    from credentials.services import credential_delete

    api(alice, "POST", BASE, {"credentials": ["bucket-key"]})
    settle()
    row = Workspace.objects.get()
    launch = row.launch
    credential_delete(principal=principal(mona), credential=store_key, confirm="bucket-key")
    settle()
    row.refresh_from_db()
    assert (row.phase, row.launch) == (Phase.RUNNING, launch)
    assert driver_for("local").calls("refresh_secrets") == 1
    assert driver_for("local").spec_seen(row.uid)["secret_files"] == []
    assert not Credential.objects.exists()


def test_data_first_no_place_is_asked_for_until_the_load_is_done(
    api, presets, project, alice, load, settle
):
    body = api(alice, "POST", BASE, {"needs": ["images"]}).json()
    settle()
    row = Workspace.objects.get(short_id=body["id"])
    assert (row.phase, row.reason) == (Phase.PENDING, "data")
    assert "images" in row.message
    assert driver_for("local").calls("ensure") == 0
    from clusters.models import Claim

    assert not Claim.objects.exists()  # it does not stand in the queue either


def test_data_first_it_starts_by_itself_when_the_load_is_done(
    api, presets, project, alice, load, settle
):
    from common.clock import now
    from work.needs import changed

    body = api(alice, "POST", BASE, {"needs": ["images"]}).json()
    settle()
    Load.objects.filter(pk=load.pk).update(
        desired=Desired.STOPPED,
        phase=Phase.STOPPED,
        result="done",
        loaded_at=now(),
        stopped_at=now(),
        observed_generation=1,
    )
    changed([load.uid])
    settle(horizon_s=0)
    assert Workspace.objects.get(short_id=body["id"]).phase == Phase.RUNNING


def test_data_first_a_load_that_failed_is_named_with_what_to_do(
    api, presets, project, alice, load, settle
):
    Load.objects.filter(pk=load.pk).update(
        desired=Desired.STOPPED, phase=Phase.FAILED, result="failed", observed_generation=1
    )
    api(alice, "POST", BASE, {"needs": ["images"]})
    settle()
    row = Workspace.objects.get()
    assert (row.phase, row.reason) == (Phase.PENDING, "data-missing")
    assert "images" in row.message


def test_an_edit_of_what_is_attached_restarts_what_runs(api, presets, project, alice, data, settle):
    made = api(alice, "POST", BASE, {}).json()
    settle()
    path = f"{BASE}/{made['id']}"
    plan = api(alice, "PATCH", f"{path}?plan=1", {"volumes": ["data"]})
    edited = api(alice, "PATCH", path, {"volumes": ["data"]}).json()
    assert plan.status_code in {200, 202}
    assert [v["name"] for v in _spec(edited)["volumes"]] == ["data"]
    assert edited["launch"] == made["launch"] + 1
    same = api(alice, "PATCH", path, {"volumes": ["data"]}).json()
    assert same["launch"] == edited["launch"]


def test_c8_an_edit_that_restarts_asks_again_whether_the_volume_may_be_written(
    api, presets, project, alice, bob, principal, settle
):
    data = _volume(principal(alice), project, "data")
    made = api(bob, "POST", BASE, {"volumes": ["data"], "memory_mib": 512}).json()
    assert [v["read_only"] for v in _spec(made)["volumes"]] == [False]
    settle()
    Volume.objects.filter(pk=data.pk).update(write_policy="managers")
    path = f"{BASE}/{made['id']}"
    plan = api(bob, "PATCH", f"{path}?plan=1", {"memory_mib": 1024}).json()
    assert (plan["allowed"], plan["restarts"]) == (False, True)
    assert "“data” may only be read by you" in plan["refusal"]
    refused = api(bob, "PATCH", path, {"memory_mib": 1024})
    assert refused.status_code == 403, refused.content
    row = Workspace.objects.get()
    assert (row.launch, row.memory_mib) == (1, 512)
    both = {"memory_mib": 1024, "volumes": ["data:ro"]}
    assert api(bob, "PATCH", path, both).json()["launch"] == 2
    assert api(bob, "PATCH", path, {"name": "other"}).status_code in {200, 202}


@pytest.mark.parametrize(
    ("text", "name", "read_only"),
    [
        ("data", "data", None),
        ("data:ro", "data", True),
        ("a:ro:ro", "a:ro", True),
        (":ro", "", True),
    ],
)
def test_a_word_is_read_in_one_way(text, name, read_only):
    from work.api.serializers import VolumeSeenIn
    from work.attached import volume_word

    assert volume_word(text) == (name, read_only)
    said = VolumeSeenIn(data=text)
    assert said.is_valid() is bool(name)
    if name:
        found = dict(said.validated_data)
        assert (found["volume"], found.get("read_only")) == (name, read_only)


@pytest.mark.usefixtures("presets", "store_key", "load", "data")
def test_a_document_says_what_is_attached_and_applies_again(api, as_user, alice):
    said = {"volumes": ["data:ro"], "credentials": ["bucket-key"], "needs": ["images"]}
    made = api(alice, "POST", BASE, {**said, "name": "one"}).json()
    page = as_user(alice).get(f"/projects/vision/workspaces/{made['id']}/yaml/")
    assert page.status_code == 200
    from work.services import manifest_of

    row = Workspace.objects.get()
    document = manifest_of(row, private=True)
    assert document["spec"]["volumes"] == [{"volume": "data", "read_only": True}]
    assert document["spec"]["credentials"] == ["bucket-key"]
    assert document["spec"]["needs"] == ["images"]
    document = yaml.safe_load(yaml.safe_dump(document))
    again = api(alice, "POST", f"{BASE}/apply", document)
    assert again.status_code == 202, again.content
    assert again.json()["launch"] == made["launch"]


def test_a_volume_that_runs_is_held_and_a_stopped_workspace_says_that_it_is_gone(
    api, presets, project, alice, data, settle, principal
):
    from common.errors import Conflict
    from volumes.references import holders_of
    from volumes.services.removal import volume_delete

    made = api(alice, "POST", BASE, {"volumes": ["data"]}).json()
    settle()
    assert [h.name for h in holders_of(data)] == [made["name"]]
    with pytest.raises(Conflict):
        volume_delete(principal=principal(alice), volume=data, typed_name="data")
    api(alice, "POST", f"{BASE}/{made['id']}/stop", {})
    settle()
    assert holders_of(data) == []
    volume_delete(principal=principal(alice), volume=data, typed_name="data")
    answer = api(alice, "POST", f"{BASE}/{made['id']}/start", {})
    assert answer.status_code == 409
    assert "data" in answer.json()["detail"]


def test_the_form_offers_what_one_may_use_and_starts_with_it(
    as_user, presets, project, alice, data, store_key
):
    client = as_user(alice)
    page = client.get("/projects/vision/workspaces/launch/?preset=jupyterlab").content.decode()
    assert f'name="volume-{data.uid}"' in page
    assert "bucket-key" in page
    answer = client.post(
        "/projects/vision/workspaces/launch/",
        {
            "preset": "jupyterlab",
            "shown": "1",
            f"volume-{data.uid}": "ro",
            "credentials": [str(store_key.uid)],
        },
    )
    assert answer.status_code == 302, answer.content
    row = Workspace.objects.get()
    assert [(m.volume.name, m.read_only) for m in row.mounts.all()] == [("data", True)]
    assert [k.credential.name for k in row.keys.all()] == ["bucket-key"]


def test_a_volume_that_was_only_offered_does_not_decide_the_cluster(
    as_user, api, presets, project, alice, data, monkeypatch
):
    """The shared volume of this machine stands chosen in the form; the cluster has its own."""
    attach(monkeypatch)
    api(alice, "POST", BASE, {"cluster": "local"})  # makes the shared one here
    shared = Volume.objects.get(project=project, kind="project")
    form = {
        "preset": "jupyterlab",
        "shown": "1",
        "cluster": "gpu",
        f"volume-{shared.uid}": "rw",
        f"volume-{data.uid}": "",
    }
    client, launch = as_user(alice), "/projects/vision/workspaces/launch/"
    foot = client.post(f"{launch}plan/", form).content.decode()
    assert "errorlist" not in foot
    answer = client.post(launch, {**form, "name": "far"})
    assert answer.status_code == 302, answer.content
    row = Workspace.objects.get(name="far")
    assert row.cluster_key == "gpu"
    assert [m.volume.cluster_key for m in row.mounts.all()] == ["gpu"]
    chosen = {**form, "name": "two", f"volume-{data.uid}": "ro"}
    refused = client.post(f"{launch}plan/", chosen).content.decode()
    assert "“data” lies on local: choose that, or leave it out." in refused
    assert str(data.uid) not in refused


def test_a_volume_that_was_taken_out_of_the_form_is_not_seen(as_user, api, presets, project, alice):
    api(alice, "POST", BASE, {})
    shared = Volume.objects.get(project=project, kind="project")
    form = {"preset": "jupyterlab", "shown": "1", "name": "bare", f"volume-{shared.uid}": ""}
    assert as_user(alice).post("/projects/vision/workspaces/launch/", form).status_code == 302
    assert not Workspace.objects.get(name="bare").mounts.exists()


def _chosen(page, name):
    field = page.partition(f'name="{name}"')[2].partition("</select>")[0]
    return field.partition(" selected")[0].rpartition('value="')[2].partition('"')[0]


def test_the_form_reached_from_a_volume_has_it_chosen_with_its_cluster(
    as_user, alice, project, data, presets, principal
):
    client, path = as_user(alice), "/projects/vision/workspaces/launch/"
    page = client.get(f"{path}?volume={data.uid}").content.decode()
    assert _chosen(page, f"volume-{data.uid}") == "rw"
    assert _chosen(page, "cluster") in {data.cluster_key, ""}
    assert f"preset=jupyterlab&amp;volume={data.uid}" in page  # another preset keeps it
    assert _chosen(client.get(path).content.decode(), f"volume-{data.uid}") == ""
    Volume.objects.filter(pk=data.pk).update(used_bytes=data.size_bytes)
    full = client.get(f"{path}?volume={data.uid}").content.decode()
    assert _chosen(full, f"volume-{data.uid}") == "ro"
    for strange in ("nope", "../..", data.uid.hex):
        assert client.get(path, {"volume": strange}).status_code == 200
