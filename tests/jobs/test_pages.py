"""The pages of jobs, without a script."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from common.clock import now
from jobs.kind import JOB
from jobs.models import Job
from jobs.states import state_of
from work.ui.command import command_of

pytestmark = pytest.mark.django_db
BASE = "/projects/vision/jobs/"
TABS = (
    "",
    "state/",
    "state/?part=head",
    "logs/",
    "logs/download/",
    "events/",
    "yaml/",
    "settings/",
)
FORM = {"name": "train", "command": "python train.py", "nonce": "n-1"}


def url(row: Any, tail: str = "") -> str:
    return f"{BASE}{row.short_id}/{tail}"


def text(client: Any, path: str, **params: str) -> str:
    answer = client.get(path, params)
    assert answer.status_code == 200, (path, answer.status_code)
    return str(answer.content.decode())


# --- starting ---------------------------------------------------------------------------------


def test_who_never_had_a_job_reads_what_one_is_and_gets_the_form(as_user, project, alice, vera):
    html = text(as_user(alice), BASE)
    assert "A job runs a program on one or several replicas until it ends" in html
    assert f'href="{BASE}new/"' in html
    assert f'href="{BASE}new/"' not in text(as_user(vera), BASE)
    assert as_user(vera).get(f"{BASE}new/").status_code == 403


def test_the_form_makes_a_job_that_runs(as_user, project, settle, alice):
    client = as_user(alice)
    said = {"command": "python train.py --epochs '9 0'", "replicas": "2", "cpu": "0.5"}
    answer = client.post(f"{BASE}new/", {**FORM, **said, "memory": "1", "env": "A=1"})
    row = Job.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, url(row))
    assert (row.command, row.replicas) == (["python", "train.py", "--epochs", "9 0"], 2)
    assert (row.cpu_milli, row.memory_mib, row.env) == (500, 1024, {"A": "1"})
    assert "Queued" in text(client, url(row))
    settle(row)
    html = text(client, url(row))
    assert "Running" in html
    assert "2\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}0.5 CPU" in html


def test_e13_a_double_click_makes_one_job(as_user, project, alice):
    client = as_user(alice)
    first, second = (client.post(f"{BASE}new/", FORM) for _press in range(2))
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"command": "python 'train"}, "A quotation mark is not closed."),
        ({"replicas": "65"}, "less than or equal to 64"),
        ({"env": "LD_PRELOAD=x"}, "cannot be set"),
        ({"command": ""}, "a job needs a command or a file"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_lost(
    said, told, as_user, project, alice
):
    answer = as_user(alice).post(f"{BASE}new/", {**FORM, **said})
    html = answer.content.decode()
    assert (answer.status_code, told in html) == (422, True)
    assert 'value="train"' in html
    assert not Job.objects.exists()


def test_the_foot_says_what_a_start_would_do_and_makes_nothing(as_user, job, settle, alice):
    settle(job(name="other"))  # the machine is known
    client = as_user(alice)
    said = {**FORM, "cpu": "0.5", "memory": "2", "replicas": "3", "env": "A=b c"}
    html = client.post(f"{BASE}new/plan/", said).content.decode()
    assert "Starts now" in html
    assert "kind: Job" in html
    assert "berth job run --project vision --name train" in html
    assert "--cpu 0.5 --memory 2G" in html
    assert "-- python train.py" in html
    html = client.post(f"{BASE}new/plan/", {**said, "cpu": "1000"}).content.decode()
    assert "Does not fit" in html
    assert client.post(f"{BASE}new/", {**said, "cpu": "1000"}).status_code == 409
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    "said",
    [
        {"cpu_milli": 500, "memory_mib": 1536, "gpus": 2, "gpu_flavor": "h100,l40s", "retries": 0},
        {"command": ["bash", "-c", "a 'b' $C"], "args": ["--x", "y z"], "env": {"A": "1=2 3"}},
        {"volumes": [], "needs": ["set"], "credentials": ["key"], "time_limit_minutes": 0},
        {"volumes": ["data:ro"], "gpu_flavor": "", "pool": "", "image": "r.example/a:1"},
        {"replicas": 4, "topology": "required", "topology_level": "rack"},
    ],
)
def test_the_command_that_is_shown_says_the_same_to_the_command_line(said, project):
    import click
    from berth_cli.fields import field_body, field_options
    from click.testing import CliRunner

    heard: dict[str, Any] = {}

    @click.command()
    @click.option("--project")
    @field_options("job", but=("command",))
    @click.argument("command", nargs=-1)
    def run(command: tuple[str, ...], **options: Any) -> None:
        behind = {"command": list(command)} if command else {}
        heard.update(field_body("job", {**options, "command": None}) | behind)

    words = shlex.split(command_of(JOB, said, project="vision", name="train"))
    assert words[:3] == ["berth", "job", "run"]
    done = CliRunner().invoke(run, words[3:])
    assert done.exit_code == 0, done.output
    assert heard == {"name": "train", **said}


# --- one job ----------------------------------------------------------------------------------


def test_every_tab_answers_for_the_owner(as_user, job, settle, alice):
    row = settle(job())
    for tail in TABS:
        assert as_user(alice).get(url(row, tail)).status_code == 200, tail


def test_what_it_is_leaves_out_what_is_as_usual(as_user, job, settle, alice):
    client = as_user(alice)
    plain = settle(job())
    together = settle(job(name="together", topology="required", topology_level="rack"))
    assert "Keep replicas together" not in client.get(url(plain)).content.decode()
    told = client.get(url(together)).content.decode()
    assert "Keep replicas together" in told
    assert "rack" in told


def test_the_page_tells_each_replica_with_its_exit_code(as_user, job, settle, end, alice):
    row = end(settle(job(replicas=3)), 3, replica=1)
    html = text(as_user(alice), url(row))
    assert "Replica 1 ended first, with exit code 3." in html
    assert html.count(f'href="{url(row, "logs/")}?replica=1"') == 2  # the reason leads there too
    assert html.count("</i>Stopped</span>") == 2
    assert "2\N{NO-BREAK SPACE}Stopped · 1\N{NO-BREAK SPACE}Failed" in html
    assert "Run again" in html


def test_the_log_of_the_replica_that_is_chosen(as_user, job, settle, end, fake, alice):
    row = settle(job(replicas=2))
    fake.write_log(str(row.uid), "first words\n")
    client = as_user(alice)
    html = text(client, url(row, "logs/"))
    assert "first words" in html
    assert f"/api/v1/projects/vision/jobs/{row.short_id}/logs?replica=0" in html
    assert "first words" not in text(client, url(row, "logs/"), replica="1")
    end(row)
    assert "first words" in text(client, url(row, "logs/"))
    kept = client.get(url(row, "logs/download/"), {"replica": "0"})
    assert kept.content.endswith(b"first words\n")
    assert f"{row.short_id}-0.log" in kept["Content-Disposition"]
    for wrong in ("2", "-1", "x", "9" * 9):
        assert client.get(url(row, "logs/"), {"replica": wrong}).status_code == 404


def test_cancel_and_run_again_work_without_a_script(as_user, job, settle, alice):
    row, client = settle(job()), as_user(alice)
    answer = client.post(url(row, "stop/"), follow=True)
    assert "is being cancelled" in answer.content.decode()
    settle(row)
    assert state_of(row) == "cancelled"
    html = text(client, url(row))
    assert "It was cancelled by request." in html
    assert client.post(url(row, "start/")).status_code == 302
    settle(row)
    assert (state_of(row), row.launch) == ("running", 2)


def test_delete_wants_the_name_and_says_so(as_user, job, settle, alice):
    row, client = settle(job()), as_user(alice)
    wrong = client.post(url(row, "delete/"), {"confirm": "wrong"})
    assert (wrong.status_code, b"delete-work" in wrong.content) == (422, True)
    assert client.post(url(row, "delete/"), {"confirm": row.name}).status_code == 302
    settle(row)
    assert client.get(url(row)).status_code == 404


def test_while_it_runs_only_name_and_time_can_change(as_user, job, settle, end, alice):
    row, client = settle(job()), as_user(alice)
    html = text(client, url(row, "settings/"))
    assert 'name="command"' not in html
    answer = client.post(url(row, "settings/"), {"name": "Paper", "time_limit_minutes": "90"})
    row.refresh_from_db()
    assert (answer.status_code, row.name, row.time_limit_minutes) == (302, "Paper", 90)
    end(row)
    assert 'name="command"' in text(client, url(row, "settings/"))
    form = {"name": "Paper", "environment": "jupyterlab", "command": "true", "replicas": "2"}
    answer = client.post(url(row, "settings/"), {**form, "time_limit_minutes": "90"})
    row.refresh_from_db()
    assert (answer.status_code, row.command, row.replicas) == (302, ["true"], 2)
    assert (row.launch, row.env) == (1, {})


def test_one_that_fails_by_its_time_limit_is_told_what_to_do(as_user, job, settle, alice):
    row = settle(job(time_limit_minutes=1))
    Job.objects.filter(pk=row.pk).update(ends_at=now(), started_at=now(), next_reconcile_at=now())
    row.phase, row.reason = "failed", "time-limit"
    row.save(update_fields=["phase", "reason"])
    html = text(as_user(alice), url(row))
    assert "It ran into its time limit." in html
    assert "Resume" not in html


# --- others -----------------------------------------------------------------------------------


def test_what_is_private_is_told_to_the_owner_only(
    as_user, job, settle, alice, bob, mona, operator
):
    row = settle(job(command=["python", "canary-5501"], env={"KEY": "canary-9113"}))
    for who in (bob, mona, operator):
        client = as_user(who)
        for tail in ("logs/", "logs/download/"):
            assert client.get(url(row, tail)).status_code == 403
        for tail in ("", "state/", "events/", "yaml/", "settings/"):
            assert "canary" not in text(client, url(row, tail)), tail
    assert "canary-5501" in text(as_user(alice), url(row))
    assert "canary-9113" in text(as_user(alice), url(row, "yaml/"))


def test_a1_a_stranger_gets_the_same_answer_for_a_real_and_an_unknown_job(
    as_user, job, settle, charlie
):
    row = settle(job())
    for tail in ("", "state/", "logs/", "settings/"):
        for path in (url(row, tail), f"{BASE}aaaaaaaaaa/{tail}"):
            assert as_user(charlie).get(path).status_code == 404


def test_a_manager_cancels_with_a_reason_and_a_member_may_not(
    as_user, job, settle, alice, bob, mona
):
    row = settle(job())
    assert as_user(bob).post(url(row, "stop/"), {"reason": "x"}).status_code == 403
    assert as_user(mona).post(url(row, "stop/"), {"reason": ""}).status_code == 422
    assert "What it wrote to volumes is kept." in text(as_user(mona), url(row))
    assert as_user(mona).post(url(row, "stop/"), {"reason": "maintenance"}).status_code == 302
    settle(row)
    assert state_of(row) == "cancelled"


# --- lists ------------------------------------------------------------------------------------


def test_the_list_keeps_its_filters_in_the_url(as_user, job, settle, end, alice, bob):
    end(settle(job(name="alpha")))
    settle(job(name="beta", owner=bob))
    client = as_user(alice)
    for params, shown in (
        ({"q": "alph"}, {"alpha"}),
        ({"mine": "1"}, {"alpha"}),
        ({"state": "running"}, {"beta"}),
        ({"state": "succeeded"}, {"alpha"}),
        ({"state": "nonsense"}, {"alpha", "beta"}),
    ):
        html = text(client, BASE, **params)
        assert {name for name in ("alpha", "beta") if f">{name}</a>" in html} == shown, params
    assert "Nothing matches" in text(client, BASE, q="zzz")


def test_several_are_cancelled_and_deleted_at_once(as_user, job, settle, alice, bob):
    rows = [settle(job(name=name)) for name in ("one", "two")]
    theirs, client = settle(job(name="theirs", owner=bob)), as_user(alice)
    ids = urlencode([("id", row.short_id) for row in (*rows, theirs)])
    asked = text(client, f"{BASE}act/?act=stop&{ids}")
    assert "Cancel 3 jobs" in asked  # alice owns the project: she may end what others run
    body = {"act": "stop", "id": [row.short_id for row in rows]}
    assert client.post(f"{BASE}act/", body).status_code == 302
    assert {state_of(settle(row)) for row in rows} == {"cancelled"}
    assert state_of(settle(theirs)) == "running"
    body["act"] = "delete"
    assert client.post(f"{BASE}act/", {**body, "confirm": "wrong"}).status_code == 422
    assert client.post(f"{BASE}act/", {**body, "confirm": "2"}).status_code == 302
    for row in rows:
        settle(row)
    assert list(Job.objects.filter(deleted_at=None).values_list("name", flat=True)) == ["theirs"]


def test_home_tells_ones_own_that_go_on(as_user, job, settle, end, alice, bob):
    settle(job(name="mine-runs"))
    end(settle(job(name="mine-ended")))
    settle(job(name="theirs", owner=bob))
    html = text(as_user(alice), "/")
    assert [n for n in ("mine-runs", "mine-ended", "theirs") if n in html] == ["mine-runs"]


def test_the_palette_finds_starts_and_cancels_jobs(as_user, job, settle, alice, charlie):
    row = settle(job(name="train-cells"))
    client = as_user(alice)
    client.get(BASE)  # the session knows its project

    def found(client: Any, words: str) -> dict[str, dict[str, Any]]:
        groups = client.get(reverse("palette"), {"q": words}).json()["groups"]
        return {item["label"]: item for group in groups for item in group["items"]}

    assert found(client, "cells")["train-cells"]["url"] == url(row)
    assert found(client, "run a job")["Run a job"]["url"] == f"{BASE}new/"
    cancel = found(client, "cancel cells")["Cancel train-cells"]
    assert client.post(cancel["url"]).status_code == 302
    assert state_of(settle(row)) == "cancelled"
    assert "train-cells" not in found(as_user(charlie), "cells")


def test_its_changes_are_told_to_who_may_see_it(job, settle, alice, vera, charlie):
    from portal.streams import authorise

    topic = f"job:{settle(job()).uid}"
    for user, heard in ((alice, [topic]), (vera, [topic]), (charlie, [])):
        assert authorise(user, "", [topic]) == heard


# --- operators --------------------------------------------------------------------------------


def test_operators_see_who_waits_and_who_holds_a_machine_and_cancel_it(
    as_user, job, settle, operator
):
    held = settle(job(name="holds-it", cpu_milli=1000))
    waits = settle(job(name="waits-for-it", cpu_milli=1_000_000))
    client = as_user(operator)
    html = text(client, reverse("console:queue"))
    assert url(waits) in html
    assert url(held) not in html
    cancel = reverse("console:queue-cancel", kwargs={"uid": waits.uid})
    assert client.post(cancel, {"reason": "It can never fit."}).status_code == 302
    assert state_of(settle(waits)) == "cancelled"
