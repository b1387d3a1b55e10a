"""The pages of workspaces, without a script."""

import pytest

from clusters.registry import driver_for
from notebooks.models import Preset, Workspace
from runtime import engine
from tests.notebooks.addresses import BASE, url


@pytest.fixture
def page(as_user):
    def get(user, path, **params):
        return as_user(user).get(path, params)

    return get


def test_home_shows_what_can_start_and_one_press_starts_it(as_user, presets, project, alice):
    client = as_user(alice)
    home = client.get("/").content.decode()
    assert "JupyterLab" in home
    assert "Starts now" in home
    answer = client.post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "n-1"})
    row = Workspace.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == url(row, "?open=1")
    assert "Accepted" in client.get(url(row)).content.decode()


def test_many_presets_are_searched_and_come_in_pages(as_user, presets, project, alice, bob):
    client = as_user(alice)
    assert "Search presets" not in client.get("/").content.decode()
    for number in range(60):
        name = f"Segmentation {number}"
        Preset.objects.create(slug=f"seg-{number}", name=name, position=100 + number)
    home = client.get("/").content.decode()
    assert home.count('class="card preset-card"') == 12
    assert f"1 to 12 of {60 + len(presets)}" in home
    assert 'hx-get="/?page=2&amp;q=seg"' in client.get("/?page=2&q=seg").content.decode()
    assert "13 to 24 of 60" in client.get("/?page=2&q=seg").content.decode()
    assert "Segmentation 41" in client.get("/?q=ation+41").content.decode()
    assert "No preset matches" in client.get("/?q=nowhere").content.decode()


def test_e13_double_click_makes_one_workspace(as_user, presets, project, alice):
    client = as_user(alice)
    first = client.post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "same"})
    second = client.post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "same"})
    assert first["Location"] == second["Location"]
    assert Workspace.objects.count() == 1
    client.post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "other"})
    assert Workspace.objects.count() == 2


def test_a_nonce_of_somebody_else_makes_ones_own_workspace(as_user, presets, project, alice, bob):
    as_user(alice).post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "same"})
    as_user(bob).post(f"{BASE}launch/", {"preset": "jupyterlab", "nonce": "same"})
    assert {row.owner.username for row in Workspace.objects.all()} == {"alice", "bob"}


def test_somebody_without_a_project_is_told_what_to_do(page, charlie):
    assert "You belong to no project yet" in page(charlie, "/").content.decode()


def test_a_running_workspace_shows_open_and_the_time_that_is_left(page, launch, alice, settle):
    row = settle(launch(alice, "large"))
    text = page(alice, url(row)).content.decode()
    assert f"http://{row.short_id}.nb.localhost" in text
    assert "Time left" in text
    assert "Extend by one hour" in text


def test_stop_resume_and_extend_work_without_a_script(as_user, launch, alice, settle):
    row = settle(launch(alice, "large"))
    client = as_user(alice)
    assert client.post(url(row, "extend/"), {"minutes": "30"}).status_code == 302
    answer = client.post(url(row, "stop/"), follow=True)
    assert b"Its files are kept" in answer.content
    settle(row)
    assert row.phase == "stopped"
    assert "Resume" in client.get(url(row)).content.decode()
    client.post(url(row, "start/"))
    settle(row)
    assert (row.phase, row.launch) == ("running", 2)


def test_a_failed_start_says_why_and_offers_to_retry(page, launch, alice, settle):
    from clusters.registry import driver_for

    row = launch(alice)
    driver_for("local").script(str(row.uid), exit_after_s=0, exit_code=1)
    settle(row)
    text = page(alice, url(row)).content.decode()
    assert row.phase == "failed"
    assert "Retry" in text
    assert "ended by itself with an error" in text


def test_every_tab_answers_for_the_owner(page, launch, alice, settle):
    row = settle(launch(alice))
    for tail in (
        "",
        "state/",
        "logs/",
        "logs/download/",
        "events/",
        "usage/",
        "yaml/",
        "settings/",
    ):
        assert page(alice, url(row, tail)).status_code == 200, tail


def test_logs_and_settings_are_closed_to_colleagues_and_operators(
    page, launch, alice, bob, mona, operator, settle
):
    row = settle(launch(alice, env={"KEY": "canary-9113"}))
    for who in (bob, mona, operator):
        for tail in ("logs/", "logs/download/", "settings/"):
            assert page(who, url(row, tail)).status_code == 403
        for tail in ("", "events/", "usage/", "yaml/", "state/"):
            answer = page(who, url(row, tail))
            assert answer.status_code == 200
            assert "canary-9113" not in answer.content.decode()
        assert row.short_id + ".nb.localhost" not in page(who, url(row)).content.decode()
    assert "canary-9113" in page(alice, url(row, "settings/")).content.decode()


def test_a1_a_stranger_gets_the_same_answer_for_a_real_and_an_unknown_workspace(
    page, launch, alice, charlie, settle
):
    row = settle(launch(alice))
    for tail in ("", "state/", "logs/", "settings/"):
        real = page(charlie, url(row, tail))
        unknown = page(charlie, f"{BASE}aaaaaaaaaa/{tail}")
        assert (real.status_code, unknown.status_code) == (404, 404)
    assert page(charlie, f"/workspaces/{row.short_id}/").status_code == 404


def test_a_visitor_may_open_but_not_change(as_user, launch, alice, bob, settle):
    row = settle(launch(alice))
    as_user(alice).post(url(row, "share/"), {"username": "bob"})
    client = as_user(bob)
    assert f"{row.short_id}.nb.localhost" in client.get(url(row)).content.decode()
    assert "Shared with me" in client.get("/").content.decode()
    for tail in ("stop/", "extend/", "share/", "unshare/", "start/"):
        assert client.post(url(row, tail), {"username": "bob"}).status_code == 403
    as_user(alice).post(url(row, "unshare/"), {"username": "bob"})
    assert f"{row.short_id}.nb.localhost" not in client.get(url(row)).content.decode()


def test_delete_wants_the_name_and_says_so(as_user, launch, alice, settle):
    row = settle(launch(alice))
    client = as_user(alice)
    assert client.post(url(row, "delete/"), {"confirm": "wrong"}).status_code == 422
    assert client.post(url(row, "delete/"), {"confirm": row.name}).status_code == 302
    settle(row)
    assert client.get(url(row)).status_code == 404


def test_the_list_keeps_its_filters_in_the_url(page, launch, alice, bob, project):
    launch(alice, name="Alpha")
    launch(bob, name="Beta")
    text = page(alice, BASE, q="alph").content.decode()
    assert "Alpha" in text
    assert "Beta" not in text
    assert "Beta" not in page(alice, BASE, mine="1").content.decode()
    assert "Nothing matches" in page(alice, BASE, q="zzz").content.decode()


def test_the_form_shows_a_plan_with_yaml_and_the_command(as_user, presets, project, alice):
    client = as_user(alice)
    answer = client.post(
        f"{BASE}launch/plan/", {"preset": "jupyterlab", "cpu": "3.5", "memory": "2"}
    )
    text = answer.content.decode()
    assert "kind: Workspace" in text
    assert "berth workspace launch jupyterlab" in text
    assert "--cpu 3.5 --memory 2G" in text
    assert not Workspace.objects.exists()


def test_what_is_wrong_is_said_at_the_field_and_nothing_starts(as_user, presets, project, alice):
    client = as_user(alice)
    answer = client.post(
        f"{BASE}launch/", {"preset": "jupyterlab", "env": "LD_PRELOAD=x", "nonce": "n"}
    )
    assert answer.status_code == 422
    assert "cannot be set" in answer.content.decode()
    assert not Workspace.objects.exists()


def test_the_settings_form_changes_only_what_was_changed(as_user, launch, alice, settle):
    row = settle(launch(alice, env={"A": "1"}))
    client = as_user(alice)
    form = {
        "name": "Paper",
        "environment": "jupyterlab",
        "cpu": "2",
        "memory": "4",
        "gpus": "0",
        "time_limit_minutes": "",
        "env": "A=1",
    }
    assert client.post(url(row, "settings/"), form).status_code == 302
    settle(row)
    assert (row.name, row.launch, row.env) == ("Paper", 1, {"A": "1"})
    client.post(url(row, "settings/"), {**form, "memory": "5"})
    settle(row)
    assert (row.launch, row.memory_mib, row.phase) == (2, 5120, "running")


def test_a_refused_edit_is_said_in_the_form_and_nothing_typed_is_lost(
    as_user, launch, alice, project, settle
):
    from common.clock import now

    row = settle(launch(alice, name="Paper"))
    project.archived_at = now()
    project.save()
    form = {
        "name": "A name that was typed",
        "environment": "jupyterlab",
        "cpu": "3",
        "memory": "7",
        "gpus": "0",
    }
    answer = as_user(alice).post(url(row, "settings/"), form)
    html = answer.content.decode()
    assert answer.status_code == 409
    assert 'value="A name that was typed"' in html
    assert 'value="7"' in html
    assert 'class="errorlist nonfield"' in html
    settle(row)
    assert row.name == "Paper"


def test_a_refused_edit_is_written_down_as_any_refusal(as_user, launch, alice, project, settle):
    from events.models import Event
    from quotas.models import Limit

    row = settle(launch(alice))
    Limit.objects.create(project=project, resource="memory_mib", amount=4096)
    form = {"name": "x", "environment": "jupyterlab", "cpu": "2", "memory": "64", "gpus": "0"}
    assert as_user(alice).post(url(row, "settings/"), form).status_code == 409
    assert Event.objects.filter(verb="limit.refused").exists()


def test_an_archived_project_offers_no_start(page, presets, project, alice):
    from common.clock import now

    project.archived_at = now()
    project.save()
    assert page(alice, f"{BASE}launch/").status_code == 409
    assert "Start a workspace" not in page(alice, BASE).content.decode()


def test_homes_are_listed_with_their_size(page, launch, alice, bob, settle):
    settle(launch(alice))
    text = page(bob, "/projects/vision/volumes/").content.decode()
    assert "home-alice" in text


@pytest.mark.parametrize(("verb", "phase"), [("stop", "stopping"), ("delete", "deleting")])
def test_c14_what_keeps_it_from_ending_is_on_its_page(as_user, launch, settle, alice, verb, phase):
    row = settle(launch(alice))
    driver_for("local").fail("stop", "held", times=-1)
    client = as_user(alice)
    assert client.post(url(row, f"{verb}/"), {"confirm": row.name}).status_code == 302
    engine.reconcile_one("workspace", row.pk)
    text = client.get(url(row, "state/")).content.decode()
    assert f"phase-{phase}" in text
    for words in (
        "It was told to end, but the cluster does not say that it is gone.",
        "A mark keeps it.",
        "tell an operator",
    ):
        assert words in text


def test_the_home_of_a_viewer_offers_nothing_that_is_not_there(text, presets, project, vera, bob):
    home = text(vera)
    assert "Press a preset" not in home
    assert "To start one you need the role “Member”" in home
    assert "Press a preset above" in text(bob)
