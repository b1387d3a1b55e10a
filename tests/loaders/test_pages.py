"""The pages of loads, without a script: three fields, one press, and what follows."""

import html

import pytest

from common.clock import now
from events.models import Event
from loaders.models import Load

BASE = "/projects/vision/loads/"


@pytest.fixture
def text(as_user):
    def get(user, path=""):
        answer = as_user(user).get(f"{BASE}{path}")
        assert answer.status_code == 200
        return html.unescape(answer.content.decode())

    return get


def test_the_empty_list_offers_the_first_load(text, alice, vera, project):
    assert f'href="{BASE}new/"' in text(alice)
    assert "No load yet" in text(alice)
    assert f"{BASE}new/" not in text(vera)


def test_three_fields_and_one_press_make_a_load(as_user, alice, project, shared, credential):
    client, secret = as_user(alice), credential("minio")
    page = client.get(f"{BASE}new/").content.decode()
    assert "minio" in page
    asked = {
        "credential": str(secret.uid),
        "url": "s3://bucket/images",
        "volume": str(shared.uid),
        "nonce": "n1",
    }
    answer = client.post(f"{BASE}new/", asked)
    row = Load.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"{BASE}{row.uid}/")
    assert (row.credential, row.volume, row.task, row.launch) == (secret, shared, "load", 1)
    client.post(f"{BASE}new/", asked)  # E13: a double click
    assert Load.objects.count() == 1


def test_a_dry_run_first_and_then_one_press(as_user, text, alice, shared, settle, report, end):
    client = as_user(alice)
    client.post(
        f"{BASE}new/", {"credential": "", "url": "s3://bucket/a", "start": "dry-run", "nonce": "n"}
    )
    row = settle(Load.objects.get())
    report(row, final={"exit": 0, "code": "done", "message": ""}, eta_s=75)
    end(row, 0)
    page = text(alice, f"{row.uid}/")
    assert (
        "4 objects, 3.9\N{NO-BREAK SPACE}KiB would be copied. It would take about 1 min 15 s."
        in page
    )
    assert "Start loading" in page
    client.post(f"{BASE}{row.uid}/start/")
    row.refresh_from_db()
    assert (row.task, row.launch) == ("load", 2)


def test_what_is_wrong_is_said_at_its_field_and_nothing_is_lost(as_user, alice, shared):
    answer = as_user(alice).post(
        f"{BASE}new/", {"credential": "", "url": "s3://bucket/a", "folder": "../x", "name": "mine"}
    )
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "A folder inside the volume" in page
    assert 'value="mine"' in page
    assert '<details class="launch-less" open>' in page
    assert not Load.objects.exists()


def test_the_foot_says_what_it_does_as_yaml_and_as_a_command(as_user, alice, shared):
    answer = as_user(alice).post(
        f"{BASE}new/plan/", {"credential": "", "url": "s3://bucket/a", "folder": "data"}
    )
    page = html.unescape(answer.content.decode())
    assert "Copies everything below s3://bucket/a into “shared/data/a”." in page
    assert "kind: Load" in page
    assert "berth loads create s3://bucket/a --project vision --name a" in page
    assert not Load.objects.exists()
    empty = as_user(alice).post(f"{BASE}new/plan/", {"url": ""}).content.decode()
    assert "errorlist" not in empty


def test_a_running_load_shows_its_bar_and_a_partial_one_names_what_is_missing(
    text, alice, load, settle, report, end
):
    row = settle(load(alice))
    report(row)
    page = text(alice, f"{row.uid}/")
    assert "3 of 4 files, 2 KiB of 3.9 KiB" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "about 2.0 s left" in page
    assert 'value="50"' in page
    assert f'data-live="load:{row.uid}"' in text(alice)
    error = {"key": "<b>../up", "code": "bad-key", "message": ""}
    final = {"exit": 3, "code": "partial", "message": ""}
    files = {"found": 4, "done": 3, "unchanged": 0, "skipped": 0, "failed": 1, "deleted": 0}
    report(row, 2, errors=[error], final=final, files=files)
    end(row, 3)
    page = text(alice, f"{row.uid}/state/")
    assert "its key can't be a file's name" in page
    assert "Try the failed one again" in page


def test_names_from_a_store_are_text_in_the_page(as_user, alice, load, settle, report):
    row = settle(load(alice))
    report(row, errors=[{"key": "<script>x</script>", "code": "io", "message": "<i>"}])
    page = as_user(alice).get(f"{BASE}{row.uid}/").content.decode()
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page


def test_buttons_are_those_that_make_sense(as_user, text, alice, vera, load, settle, end, report):
    row = settle(load(alice))
    page = text(alice, f"{row.uid}/state/")
    assert "Pause" in page
    assert "Resume" not in page
    end(row, -9, reason="killed")  # goes on by itself, or now
    page = text(alice, f"{row.uid}/state/")
    assert "try 1 of 5" in page
    assert "Resume" in page
    assert "Pause" in page
    assert as_user(alice).post(f"{BASE}{row.uid}/resume/").status_code in {200, 302}
    settle(row)
    report(row, 1, final={"exit": 4, "code": "denied", "message": "", "manifest": ""})
    end(row, 4)
    page = text(alice, f"{row.uid}/state/")
    assert "Resume" in page
    assert "Pause" not in page
    assert "Resume" not in text(vera, f"{row.uid}/state/")


def test_a_delete_needs_the_name(as_user, alice, load, settle, end):
    row = end(settle(load(alice)))
    client = as_user(alice)
    assert client.post(f"{BASE}{row.uid}/delete/", {"confirm": "no"}).status_code == 422
    assert client.post(f"{BASE}{row.uid}/delete/", {"confirm": "images"}).status_code == 302
    settle(row)
    assert row.deleted_at is not None


def test_settings_change_how_it_copies(as_user, text, alice, load, settle, end):
    row = end(settle(load(alice)))
    asked = {"name": "new", "mode": "sync", "bandwidth": "1.5", "schedule": "0 3 * * *"}
    answer = as_user(alice).post(f"{BASE}{row.uid}/settings/", {**asked, "credential": ""})
    assert answer.status_code == 302, answer.content
    row.refresh_from_db()
    assert (row.name, row.mode, row.bandwidth_bytes_s) == ("new", "sync", 1_572_864)
    assert row.next_run_at is not None
    assert 'value="0 3 * * *"' in text(alice, f"{row.uid}/settings/")
    bad = as_user(alice).post(f"{BASE}{row.uid}/settings/", {"schedule": "x", "credential": ""})
    assert bad.status_code == 422


def test_every_tab_answers(text, alice, load, settle, end):
    row = end(settle(load(alice)), 0)
    assert "kind: Load" in text(alice, f"{row.uid}/yaml/")
    assert "Runs" in text(alice, f"{row.uid}/history/")
    assert "saw done the load" in text(alice, f"{row.uid}/events/")


def test_a_command_that_would_not_make_the_same_load_is_not_shown(text, alice, load, as_user):
    few, many = [f"a/{n}" for n in range(10)], [f"a/{n}" for n in range(11)]
    rows = [load(alice, "s3://bucket/a", folder=f"f{len(k)}", objects=k) for k in (few, many)]
    short, long = (text(alice, f"{row.uid}/yaml/") for row in rows)
    assert "--object a/9" in short
    assert "berth loads create" not in long
    assert "a/10" in long
    asked = {"credential": "", "url": "s3://bucket/a", "objects": "\n".join(many)}
    plan = as_user(alice).post(f"{BASE}new/plan/", asked).content.decode()
    assert "kind: Load" in plan
    assert "berth loads create" not in plan


def test_the_command_names_by_its_id_what_has_the_name_of_another(
    as_user, text, alice, project, shared, credential, load
):
    from volumes.models import Volume

    theirs, own = credential("key"), credential("key", project=None)
    Volume.objects.create(
        project=project, created_by=alice, name="shared", kind="project", cluster_key="far"
    )
    asked = {"credential": str(own.uid), "url": "s3://bucket/a", "volume": str(shared.uid)}
    plan = as_user(alice).post(f"{BASE}new/plan/", asked).content.decode()
    assert f"--credential {own.uid}" in plan
    assert f"--volume {shared.uid}" in plan
    assert f"credential: {own.uid}" in plan
    theirs.delete()
    Volume.objects.filter(cluster_key="far").delete()
    plan = as_user(alice).post(f"{BASE}new/plan/", asked).content.decode()
    assert "--credential key --volume shared" in plan
    row = load(alice, "s3://bucket/b", credential=str(own.uid))
    assert "--credential key --volume shared" in text(alice, f"{row.uid}/yaml/")


def test_the_command_for_a_volume_that_is_not_made_yet_makes_it(as_user, alice, project, api):
    from volumes.models import Volume

    asked = {"credential": "", "url": "s3://bucket/a"}
    page = as_user(alice).post(f"{BASE}new/plan/", asked).content.decode()
    assert "--volume shared" in page
    assert not Volume.objects.exists()
    body = {"url": "s3://bucket/a", "volume": "shared"}
    made = api(alice, "POST", "/api/v1/projects/vision/loads", body)
    assert (made.status_code, made.json()["spec"]["volume_name"]) == (202, "shared")


def test_lists_and_bars_do_not_read_the_keys_of_listed_objects(as_user, alice, load, settle):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    row = settle(load(alice, objects=["images/a"]))
    for page in ("", f"{row.uid}/bar/", f"{row.uid}/state/"):
        with CaptureQueriesContext(connection) as asked:
            assert as_user(alice).get(f"{BASE}{page}").status_code == 200
        assert not [q for q in asked.captured_queries if "objects_listed" in q["sql"]], page


def test_the_events_page_says_where_it_ends_and_leads_to_the_others(text, as_user, alice, load):
    row = load(alice)
    assert "Only the newest" not in text(alice, f"{row.uid}/events/")
    Event.objects.bulk_create(
        Event(verb="load.edited", target_kind="load", target_uid=str(row.uid), at=now())
        for _ in range(100)
    )
    page = text(alice, f"{row.uid}/events/")
    assert "Only the newest 100 events are shown." in page
    assert page.count("changed the load") == 100
    others = "/projects/vision/activity?verb=load"
    assert f'href="{others}"' in page
    assert '<option value="load" selected>' in as_user(alice).get(others).content.decode()


def test_the_part_that_changes_by_itself_has_the_runs_of_the_same_moment(
    as_user, alice, load, settle, end
):
    row = settle(load(alice))
    client, state = as_user(alice), f"{BASE}{row.uid}/state/"
    page = client.get(f"{BASE}{row.uid}/").content.decode()
    assert page.count('id="runs-title"') == 1
    end(row)
    part = client.get(state, headers={"HX-Request": "true"}).content.decode()
    runs = part.split('id="runs-title"')[1]
    assert "Under way" not in runs
    assert "Done" in runs


def test_a_link_fills_the_form_in_and_its_plan_is_there(text, alice, shared):
    page = text(alice, f"new/?url=s3://bucket/a&volume={shared.uid}&color=red")
    assert 'value="s3://bucket/a"' in page
    assert f'<option value="{shared.uid}" selected>' in page
    assert "Copies everything below s3://bucket/a into “shared/a”." in page


def test_settings_of_a_load_whose_credential_was_removed_do_not_make_its_bucket_public(
    as_user, text, alice, credential, load, settle, end
):
    secret = credential("key")
    row = end(settle(load(alice, "s3://bucket/a", credential=str(secret.uid))))
    Load.objects.filter(pk=row.pk).update(credential=None)
    page = text(alice, f"{row.uid}/settings/")
    assert "It was removed: choose another one" in page
    asked = {"name": "new", "credential": "gone", "shown": "1"}
    assert as_user(alice).post(f"{BASE}{row.uid}/settings/", asked).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.credential, row.anonymous) == ("new", None, False)


def test_a_manager_is_asked_why_before_another_s_load_ends(text, alice, mona, load, settle):
    row = settle(load(alice))
    mine, hers = text(alice), text(mona)
    for verb in ("pause", "cancel"):
        assert f'action="{BASE}{row.uid}/{verb}/"' in mine
        assert f'action="{BASE}{row.uid}/{verb}/"' not in hers
    assert f"{BASE}act/?act=cancel&id={row.uid}" in hers
    page = text(mona, f"{row.uid}/")
    for verb in ("pause", "cancel"):
        assert f'id="{verb}-work"' in page
