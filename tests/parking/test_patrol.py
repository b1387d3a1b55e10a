"""The list of who holds GPUs and does not use them, at every door; what is done to them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.principal import Principal
from accounts.services.tokens import token_create
from clusters.models import Flavor
from common.clock import now
from events.models import Event
from metrics.models import MinuteSample
from notifications.models import Notification
from parking import dry_run
from parking.models import IdlePolicy, Stretch
from parking.patrol import Filter, patrol
from usage.models import RESIZED, Interval


@pytest.fixture
def wasted(holder, alice, hours):
    row = holder(alice)
    Flavor.objects.update(price_per_hour=2)
    hours(row, *[80] * 12, *[3] * 12)
    return row


def test_the_patrol_names_who_holds_and_does_not_use(wasted, operator, api):
    answer = api(operator, "GET", "/api/v1/patrol?below=10&hours=4").json()
    one = answer["holders"][0]
    assert (one["name"], one["owner"], one["gpus"]) == (wasted.name, "alice", 1)
    assert 11 <= one["gpu_hours"] <= 13
    assert one["mean"] == pytest.approx(3, abs=8)
    assert answer["gpus"] == answer["held"] == 1
    assert api(operator, "GET", "/api/v1/patrol?below=2").json()["holders"] == []
    assert api(operator, "GET", "/api/v1/patrol?hours=20").json()["holders"] == []
    assert api(operator, "GET", "/api/v1/patrol?below=x").status_code == 400


def test_what_nobody_measures_is_counted_apart(holder, alice):
    holder(alice)
    found = patrol(Filter())
    assert (found.holders, found.held, found.unmeasured) == ([], 1, 1)


def test_hours_that_nobody_measured_accuse_nobody(holder, alice, hours):
    hours(holder(alice), *[0] * 6, None, None, None, 0, 0, 0)
    (one,) = patrol(Filter()).holders
    assert 2 <= (now() - one.since) / timedelta(hours=1) < 4


def test_figures_that_ended_hours_ago_accuse_nobody(holder, alice, hours):
    hours(holder(alice), *[0] * 6, None, None, None, None)
    assert patrol(Filter()).holders == []


def test_who_began_in_this_hour_is_found_by_minutes(holder, alice, bob, mona, measured):
    """Hours tell of a busy moment for a whole hour, and nothing of what has not lasted so long."""
    idle, busy, away = holder(alice), holder(bob), holder(mona)
    measured(idle, 40, gpu=1)
    measured(busy, 40, gpu=1)
    measured(busy, 3, gpu=90)
    measured(away, 40, gpu=1)
    MinuteSample.objects.filter(uid=away.uid, at__gte=now() - timedelta(minutes=15)).delete()
    (one,) = patrol(Filter(hours=0.5)).holders
    assert (one.row.uid, one.mean) == (idle.uid, pytest.approx(1))
    assert 0.5 <= one.gpu_hours < 0.6
    assert patrol(Filter(hours=0.9)).holders == []  # not for so long


def resized(row, *sizes):
    """Make its interval one of a size from each moment on: (hours ago, GPUs)."""
    one = Interval.objects.get(uid=row.uid)
    ends = [now() - timedelta(hours=ago) for ago, _gpus in sizes[1:]] + [None]
    for part, ((_ago, gpus), end) in enumerate(zip(sizes, ends, strict=True)):
        one.part, one.gpus, one.ended_at = part, gpus, end
        one.end_reason = RESIZED if end else ""
        one.save(force_insert=part > 0)
        one.pk, one.started_at = None, end


def test_another_size_is_no_use_and_its_hours_are_what_it_had(wasted):
    (before,) = patrol(Filter()).holders
    resized(wasted, (24, 1), (18, 3), (2, 2), (1, 4))
    (one,) = patrol(Filter(hours=4)).holders
    assert abs(one.since - before.since) < timedelta(minutes=1)
    quiet = (now() - one.since) / timedelta(hours=1)
    assert (one.gpus, one.gpu_hours) == (4, pytest.approx((quiet - 2) * 3 + 2 + 4, abs=0.05))


def test_who_may_see_it(wasted, alice, bob, mona, charlie, auditor, api, project):
    of_project = f"/api/v1/projects/{project.slug}/patrol"
    for user, everywhere, here in (
        (auditor, 200, 200),
        (mona, 403, 200),
        (bob, 403, 403),
        (charlie, 403, 404),
    ):
        assert api(user, "GET", "/api/v1/patrol").status_code == everywhere
        assert api(user, "GET", of_project).status_code == here
    for where in ("/api/v1/patrol", of_project):
        assert api(auditor, "POST", where, {"act": "park", "ids": []}).status_code == 403


def test_an_auditor_reads_the_page_of_a_project_and_has_no_buttons(
    wasted, auditor, mona, as_user, project
):
    page = f"/projects/{project.slug}/patrol"
    for user, buttons in ((auditor, False), (mona, True)):
        shown = as_user(user).get(page, follow=True).content.decode()
        assert wasted.name in shown
        assert ('name="id"' in shown) is buttons


def test_f8_a_token_is_told_of_the_kinds_of_work_that_it_may_read(wasted, mona, project):
    url = f"/api/v1/projects/{project.slug}/patrol"
    rights = ["project:read", "patrol:read"]
    told = []
    for scopes in (rights, [*rights, "workspace:read"]):
        secret = token_create(who=Principal(user=mona), name="limited", scopes=scopes)[1]
        answer = Client(headers={"Authorization": f"Bearer {secret}"}).get(url).json()
        told.append([one["name"] for one in answer["holders"]])
    assert told == [[], [wasted.name]]


def test_a_message_and_parking_are_audited_and_told(wasted, alice, operator, api, settle):
    ids = [str(wasted.uid)]
    body = {"act": "message", "ids": ids, "said": "Do you still need it?"}
    assert api(operator, "POST", "/api/v1/patrol", body).json()["done"] == ids
    told = Notification.objects.get(kind="work.message")
    assert (told.user, told.params["text"]) == (alice, "Do you still need it?")
    unsaid = api(operator, "POST", "/api/v1/patrol", {"act": "park", "ids": ids}).json()
    assert list(unsaid["refused"]) == ids
    body = {"act": "park", "ids": ids, "said": "Nobody uses it"}
    assert api(operator, "POST", "/api/v1/patrol", body).json()["done"] == ids
    settle(wasted)
    assert wasted.phase == "stopped"
    assert Event.objects.filter(verb="work.messaged", actor_name=operator.label).exists()


def test_a_project_admin_acts_in_the_project_only(wasted, mona, api, project, alice):
    from projects.models import Membership, Project

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=mona, role="owner")
    body = {"act": "park", "ids": [str(wasted.uid)], "said": "Nobody uses it"}
    answer = api(mona, "POST", "/api/v1/projects/other/patrol", body).json()
    assert answer["done"] == []
    assert api(mona, "POST", f"/api/v1/projects/{project.slug}/patrol", body).json()["done"]


def test_the_page_asks_before_it_acts(wasted, operator, as_user):
    client = as_user(operator)
    page = client.get("/console/patrol/?below=10&hours=4").content.decode()
    assert wasted.name in page
    assert "gpu_below=10&amp;minutes=240" in page
    asked = client.get(f"/console/patrol/act?act=park&id={wasted.uid}")
    assert "Files, addresses, packages and settings are kept" in asked.content.decode()
    unsaid = client.post("/console/patrol/act", {"act": "park", "id": str(wasted.uid)})
    assert unsaid.status_code == 422
    said = {"act": "park", "id": str(wasted.uid), "reason": "Nobody uses it"}
    assert client.post("/console/patrol/act", said).status_code == 302
    wasted.refresh_from_db()
    assert wasted.desired == "stopped"


def test_a_thousand_holders_cost_as_many_questions_as_three(holder, alice, bob, hours):
    counts = []
    for user in (alice, bob):
        for _ in range(2):
            hours(holder(user), *[1] * 8)
        with CaptureQueriesContext(connection) as seen:
            assert patrol(Filter()).holders
        counts.append(len(seen))
    assert counts[0] == counts[1]
    assert counts[0] <= 12


# --- the dry run ----------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_have_come_back_and_from_whom(wasted, policy):
    found = dry_run.look_back(policy(state="dry-run"), days=7)
    line = found.lines[0]
    assert (line.owner, line.project, line.times) == ("alice", "vision", 1)
    assert 9 <= found.gpu_hours <= 12  # twelve idle hours less the 75 minutes of the rule
    assert found.unmeasured < 2


def test_another_size_begins_no_stretch_of_a_dry_run(wasted, policy):
    rule = policy(state="dry-run")
    plain = dry_run.look_back(rule, days=7)
    resized(wasted, *[(24 - n / 2, 2 if n % 2 else 1) for n in range(48)])
    found = dry_run.look_back(rule, days=7)
    assert found.times == 1
    assert found.gpu_hours == pytest.approx(plain.gpu_hours * 1.5, rel=0.03)
    assert found.held == pytest.approx(36, abs=0.05)
    assert found.measured == pytest.approx(plain.measured * 1.5, rel=0.03)


@pytest.mark.parametrize("said", [{"gpu_below": 2.0}, {"minutes": 60 * 24}, {"kind": "job"}])
def test_what_a_policy_does_not_reach_would_not_have_come_back(wasted, policy, said):
    act = {"act": "tell"} if said.get("kind") else {}
    assert dry_run.look_back(policy(state="dry-run", **said, **act), days=7).gpu_hours == 0


def test_what_was_not_measured_would_not_have_come_back(holder, alice, hours, policy):
    hours(holder(alice), 0, None, 0, None, 0, None, 0)
    found = dry_run.look_back(policy(state="dry-run"), days=7)
    assert found.gpu_hours == 0
    assert found.unmeasured > 15


def test_the_live_judgement_and_the_dry_run_agree_on_minutes(holder, alice, measured, policy):
    row = holder(alice)
    measured(row, 200)
    found = dry_run.look_back(policy(state="dry-run"), days=2)
    assert found.gpu_hours == pytest.approx((200 - 75) / 60, abs=0.06)


# --- policies -------------------------------------------------------------------------------------


def test_operators_set_policies_by_the_api(operator, auditor, alice, api, project):
    body = {"project": project.slug, "minutes": 90, "state": "dry-run"}
    assert api(alice, "POST", "/api/v1/idle-policies", body).status_code == 403
    made = api(operator, "POST", "/api/v1/idle-policies", body)
    assert made.status_code == 201
    path = f"/api/v1/idle-policies/{made.json()['id']}"
    assert api(operator, "POST", "/api/v1/idle-policies", body).status_code == 409
    assert api(operator, "PATCH", path, {"state": "on"}).json()["state"] == "on"
    assert api(auditor, "GET", f"{path}/dry-run?days=30").json()["gpu_hours"] == 0
    assert api(auditor, "PATCH", path, {"state": "off"}).status_code == 403
    told = Event.objects.get(verb="idle-policy.changed")
    assert "gpu_hours" in told.data["after"]
    assert api(operator, "DELETE", path).status_code == 204
    assert not IdlePolicy.objects.exists()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"kind": "job", "act": "park"}, "act"),
        ({"kind": "no-such"}, "kind"),
        ({"from_hour": 18, "until_hour": 9}, "until_hour"),
        ({"weekdays": "089"}, "weekdays"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"minutes": 0}, "minutes"),
        ({"gpu_below": 200}, "gpu_below"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(operator, api, said, field):
    answer = api(operator, "POST", "/api/v1/idle-policies", said)
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_the_form_shows_a_dry_run_before_anything_is_saved(wasted, operator, as_user):
    said = {
        "whose": "",
        "kind": "",
        "minutes": 60,
        "grace": 15,
        "act": "park",
        "gpu_below": 5,
        "cpu_below": 50,
        "extension": 120,
        "extensions": 2,
        "weekdays": list("1234567"),
        "from_hour": 0,
        "until_hour": 24,
        "zone": "UTC",
        "state": "on",
    }
    client = as_user(operator)
    page = client.post("/console/idle-policies/new", {**said, "look": "7"})
    assert page.status_code == 200
    assert "Alice" in page.content.decode()
    assert not IdlePolicy.objects.exists()
    assert client.post("/console/idle-policies/new", said).status_code == 302
    row = IdlePolicy.objects.get()
    page = client.get(f"/console/idle-policies/{row.uid}/").content.decode()
    assert "GPU-hours in the last 7 days" in page
    assert client.get("/console/idle-policies/").status_code == 200
    gone = client.post(
        f"/console/idle-policies/{row.uid}/delete", {"confirm": "The whole platform"}
    )
    assert gone.status_code == 302


# --- what its owner sees --------------------------------------------------------------------------


def test_its_page_warns_and_one_press_keeps_it(wasted, alice, charlie, bob, as_user, api, policy):
    row = policy()
    Stretch.objects.create(
        workload=wasted,
        launch=wasted.launch,
        policy=row,
        since=now() - timedelta(hours=2),
        quiet_since=now() - timedelta(hours=2),
        quiet_until=now(),
        warned_at=now(),
        due_at=now() + timedelta(minutes=12),
    )
    client = as_user(alice)
    page = client.get(wasted.get_absolute_url()).content.decode()
    assert "It will be parked in 12 minutes" in page
    assert "What its GPUs did in the last 24 hours" in page
    path = f"projects/vision/idle/{wasted.uid}"
    assert api(bob, "POST", f"/api/v1/{path}/extend", {}).status_code == 403
    assert api(charlie, "POST", f"/api/v1/{path}/extend", {}).status_code == 404
    assert client.post(f"/{path}/extend").status_code == 302
    told = api(alice, "GET", f"/api/v1/{path}").json()["notice"]
    assert (told["asks_why"], told["minutes"]) == (True, 120)
    assert api(alice, "POST", f"/api/v1/{path}/extend", {}).status_code == 400
    said = {"reason": "A long meeting", "minutes": 30}
    assert api(alice, "POST", f"/api/v1/{path}/extend", said).status_code == 200
