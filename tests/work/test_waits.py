"""What somebody who waits is told: position, whose work is ahead, when, and what starts sooner."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from clusters import services
from clusters.models import Claim, Cluster, Flavor, Node
from common.clock import now
from jobs.models import Job
from projects.models import Membership, Project
from queues.models import Turn
from runtime.hints import hint
from runtime.protocol import Device, Phase
from runtime.reconcilers import Outcome, Transition
from tests.support.workloads import insert
from work import listeners
from work.services import workload_edit
from work.ui.present import reason_of
from work.waits import wait_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def machine(world: Any) -> Cluster:
    """Four H100, three A100."""
    fake = world.driver_for("local")
    names = ["H100"] * 4 + ["A100"] * 3
    fake.set_devices([Device(f"GPU-{n}", n, name, 80_000) for n, name in enumerate(names)])
    cluster = services.ensure_local_cluster()
    return services.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture
def job(project: Any, alice: Any) -> Any:
    def make(**columns: Any) -> Job:
        values = {
            "project": project,
            "owner": alice,
            "name": f"job-{Job.objects.count()}",
            "cluster_key": "local",
            "environment": "jupyterlab",
            "command": ["python", "train.py"],
            "launch": 1,
            "cpu_milli": 100,
            "memory_mib": 256,
            "gpu_flavor": "h100",
            "asked_at": now(),
            "next_reconcile_at": now(),
        }
        return Job.objects.create(**{**values, **columns})

    return make


def turns(cluster: Cluster, minutes: int) -> None:
    at = now() - timedelta(days=1)
    for _n in range(8):
        Turn.objects.create(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind="job",
            project_uid=uuid4(),
            gpus=1,
            asked_at=at,
            granted_at=at,
            ended_at=at + timedelta(minutes=minutes),
        )


def test_f13_a_wait_has_position_project_range_and_what_starts_now(
    machine, job, settle, alice, bob, principal
):
    turns(machine, 40)
    other = Project.objects.create(slug="secret", name="Secret", phase="running")
    for _n in range(2):
        settle(job(gpus=2))
    settle(job(gpus=3, project=other, owner=bob))
    row = settle(job(gpus=3))
    found = wait_of(principal(alice), row)
    assert found is not None
    assert (found.position, found.ahead) == (2, "1 of another project")
    assert "minutes" in found.when
    assert found.honesty == "From 8 past runs."
    texts = [change.text for change in found.changes]
    assert texts[0] == "3 × A100 instead: starts now"  # noqa: RUF001 - the sign
    assert found.changes[0].said == {"gpu_flavor": "a100"}
    told = wait_of(principal(bob), row)
    assert told is not None
    assert told.changes == ()  # it is alice's to change


def test_one_press_changes_what_waits_and_it_starts(machine, job, settle, alice, principal):
    settle(job(gpus=4))
    row = settle(job(gpus=3))
    found = wait_of(principal(alice), row)
    assert found is not None
    workload_edit(principal=principal(alice), row=row, said=found.changes[0].said)
    hint(row)
    row = settle(row)
    assert (row.phase, row.gpu_flavor, row.launch) == ("running", "a100", 2)
    assert Claim.objects.filter(workload_uid=row.uid, granted_at__isnull=False).count() == 1


def test_fewer_are_offered_the_most_first(machine, job, settle, alice, principal):
    settle(job(gpus=2))
    settle(job(gpus=3, gpu_flavor="a100"))
    row = settle(job(gpus=4))
    found = wait_of(principal(alice), row)
    assert found is not None
    assert found.changes[0].said == {"gpus": 2}
    assert found.changes[0].text == "2 GPUs instead of 4: starts now"


def test_what_does_not_wait_has_nothing_to_say(machine, job, settle, alice, principal):
    assert wait_of(principal(alice), settle(job(gpus=1))) is None


def test_what_never_fits_is_said_with_what_would(machine, job, settle, alice, principal):
    row = settle(job(gpus=6))
    found = wait_of(principal(alice), row)
    assert found is not None
    assert found.estimate is None
    assert found.when.startswith("Nobody can say")
    assert found.changes[0].said == {"gpus": 3}


def test_the_api_tells_of_one_that_waits_and_keeps_lists_short(
    machine, job, settle, alice, bob, api, project
):
    turns(machine, 40)
    settle(job(gpus=4))
    row = settle(job(gpus=3))
    every = f"/api/v1/projects/{project.slug}/jobs"
    found = api(alice, "GET", f"{every}/{row.short_id}").json()["wait"]
    assert found["position"] == 1
    assert found["sentence"] == "Waiting for 3 × h100; position 1 in the queue."  # noqa: RUF001 - the sign
    assert found["earliest"] <= found["latest"]
    assert "minutes" in found["when"]
    assert (found["samples"], found["held"]) == (8, None)
    said = found["changes"][0]["said"]
    assert said == {"gpu_flavor": "a100"}
    assert api(alice, "PATCH", f"{every}/{row.short_id}", said).status_code == 202
    assert api(bob, "GET", f"{every}/{row.short_id}").json()["wait"] is None  # not seen again yet
    assert {one["wait"] for one in api(alice, "GET", every).json()["results"]} == {None}


# --- pages ------------------------------------------------------------------------------------


def test_the_page_tells_the_wait_and_one_press_starts_it_and_is_taken_back(
    machine, job, settle, alice, as_user
):
    turns(machine, 40)
    settle(job(gpus=4))
    row = settle(job(gpus=3))
    client, here = as_user(alice), row.get_absolute_url()
    html = client.get(here).content.decode()
    assert "3 × A100 instead: starts now" in html  # noqa: RUF001 - the sign
    assert "From 8 past runs." in html
    said = {"gpu_flavor": "a100", "generation": str(row.generation)}
    answer = client.post(f"{here}change/", said, follow=True)
    assert f"“{row.name}” is changed." in answer.content.decode()
    row.refresh_from_db()
    assert row.gpu_flavor == "a100"
    assert client.post(f"{here}change/", said).status_code == 409  # it is another one than was read
    back = {"gpu_flavor": "h100", "generation": str(row.generation)}
    assert f'name="generation" value="{row.generation}"' in answer.content.decode()
    assert client.post(f"{here}change/", back).status_code == 302
    row.refresh_from_db()
    assert row.gpu_flavor == "h100"


def test_a_press_changes_only_how_many_and_which_and_only_what_waits(
    machine, job, settle, alice, bob, as_user
):
    row = settle(job(gpus=1))
    here = f"{row.get_absolute_url()}change/"
    client, told = as_user(alice), {"generation": str(row.generation)}
    assert client.post(here, {**told, "command": "rm"}).status_code in {400, 422}
    assert client.post(here, {**told, "gpus": "-1"}).status_code in {400, 422}
    assert client.post(here, {**told, "gpus": "2"}).status_code == 409
    assert as_user(bob).post(here, {**told, "gpus": "2"}).status_code == 403


def test_who_gives_back_is_told_for_whom_and_how_long(machine, job, settle, alice, as_user):
    row = settle(job(gpus=4))
    other = Project.objects.create(slug="secret", name="Secret", phase="running")
    wants = job(gpus=1, project=other)
    until = now() + timedelta(seconds=30)
    Claim.objects.filter(workload_uid=row.uid).update(
        reclaim_at=now(), reclaim_until=until, reclaim_for=wants.uid
    )
    Job.objects.filter(pk=row.pk).update(phase="stopping", reason="preempted")
    html = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "Its GPUs are asked back for another project" in html
    assert "Secret" not in html
    assert f'data-countdown="{until.isoformat()[:16]}' in html


# --- clusters whose own queue keeps the line ----------------------------------------------------


@pytest.fixture
def far(db: Any) -> Cluster:
    """Eight H100 on one node; its queue decides who starts."""
    cluster = Cluster.objects.create(
        key="gpu",
        name="GPU",
        driver="kubernetes",
        reachable=True,
        checked_at=now(),
        kinds={"h100": {"total": 8, "largest": 8}},
    )
    Flavor.objects.get_or_create(
        name="h100", defaults={"label": "H100", "resource": "nvidia.com/gpu"}
    )
    Node.objects.create(
        cluster=cluster,
        name="n1",
        ready=True,
        cpu_milli=64_000,
        memory_mib=512_000,
        accelerators={"nvidia.com/gpu": 8},
        offers={"h100": 8},
        seen_at=now(),
    )
    return cluster


def ended(row: Job, **updates: Any) -> Transition:
    outcome = Outcome(phase=Phase.STOPPED, updates=updates)
    return Transition(row, Phase.RUNNING, Phase.STOPPED, outcome, gone=False, seen=row)


def test_a_turn_on_a_cluster_is_kept_once_and_estimates_those_that_wait(far, job, alice, principal):
    start = now() - timedelta(hours=3)
    for n in range(6):
        begun = start + timedelta(seconds=n)
        over = begun + timedelta(minutes=40)
        row = job(cluster_key="gpu", gpus=8, asked_at=start, started_at=begun, stopped_at=over)
        listeners.on_transition(ended(row))
        listeners.on_transition(ended(row))
    assert Turn.objects.filter(cluster=far).count() == 6
    held = {"launch": 1, "queue": {}}
    waits = {"cluster_key": "gpu", "phase": "pending", "reason": "queued", "external_ref": held}
    job(gpus=4, asked_at=now() - timedelta(minutes=9), **waits)
    row = job(gpus=4, **waits)
    Job.objects.update(observed_generation=F("generation"))
    row.refresh_from_db()
    found = wait_of(principal(alice), row)
    assert found is not None
    assert (found.position, found.changes) == (None, ())
    assert found.when == "in about 40 minutes"  # 8 GPUs before and with it, of 8, 40 minutes each
    assert found.honesty == "From 6 past runs."


def test_who_asked_before_on_a_cluster_is_named_to_who_belongs_to_them(
    far, job, alice, bob, principal, project
):
    other = Project.objects.create(slug="secret", name="Secret", phase="running")
    held = {"launch": 1, "queue": {}}
    waits = {"cluster_key": "gpu", "phase": "pending", "reason": "queued", "external_ref": held}
    for minutes, columns in ((9, {"project": other}), (8, {"project": other}), (7, {})):
        job(gpus=4, asked_at=now() - timedelta(minutes=minutes), **waits, **columns)
    job(gpus=1, gpu_flavor="a100", asked_at=now() - timedelta(minutes=9), **waits)
    row = job(gpus=4, **waits)
    job(gpus=4, asked_at=now() + timedelta(minutes=1), **waits)
    Job.objects.update(observed_generation=F("generation"))
    row.refresh_from_db()
    found = wait_of(principal(alice), row)
    assert found is not None
    assert (found.ahead, found.by_time) == ("Vision, 2 of other projects", True)
    Membership.objects.create(project=other, user=alice, role="viewer")
    told = wait_of(principal(alice), row)
    assert told is not None
    assert set(told.ahead.split(", ")) == {"Vision", "Secret"}


def test_the_place_in_line_is_of_the_moment_of_what_is_before_it(
    machine, job, settle, alice, principal, as_user
):
    settle(job(gpus=4))
    settle(job(gpus=2))
    row = settle(job(gpus=3))
    kept = {**row.external_ref, "queue": {**row.external_ref["queue"], "position": 7}}
    Job.objects.filter(pk=row.pk).update(external_ref=kept)
    row.refresh_from_db()
    found = wait_of(principal(alice), row)
    assert found is not None
    assert (found.position, found.ahead) == (2, "Vision")
    assert "position 2" in found.sentence
    page = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "position 2" in page
    assert "position 7" not in page


def test_what_never_began_on_a_cluster_leaves_no_turn(far, job):
    listeners.on_transition(ended(job(cluster_key="gpu", gpus=8)))
    assert not Turn.objects.exists()


def test_a_row_and_a_card_say_place_and_turn_in_one_line_and_ask_nothing_for_it(
    machine, job, settle, as_user, alice, django_assert_num_queries
):
    turns(machine, 40)
    settle(job(gpus=4))
    row = settle(job(gpus=4))
    said = reason_of(row)
    assert said.startswith("Waiting for 4 × h100; position 1 in the queue. Its turn comes in ")  # noqa: RUF001 - the sign
    with django_assert_num_queries(0):
        assert reason_of(row) == said
    client = as_user(alice)
    listed = client.get(f"/projects/{row.project.slug}/jobs/").content.decode()
    home = client.get("/").content.decode()
    assert "Its turn comes in " in listed
    assert "Its turn comes in " in home


def test_a_turn_that_did_not_come_when_it_was_expected_is_not_told_any_more(machine, job, settle):
    turns(machine, 40)
    settle(job(gpus=4))
    row = settle(job(gpus=4))
    past = (now() - timedelta(minutes=1)).timestamp()
    row.external_ref["queue"]["turn"] = [past - 60, past]
    assert "Its turn" not in reason_of(row)


def test_a_list_of_very_many_that_wait_takes_six_queries_and_no_more(
    machine, job, settle, alice, as_user
):
    settle(job(gpus=4))
    row = settle(job(gpus=4))
    client = as_user(alice)

    def asked() -> int:
        with CaptureQueriesContext(connection) as seen:
            found = client.get(f"/api/v1/projects/{row.project.slug}/jobs?page_size=50")
        assert found.status_code == 200, found.content
        return len(seen)

    asked()  # what is read once for all
    few = asked()
    own = {"uid", "short_id", "name", "nonce", "workload_ptr", "id"}
    names = {field.name for field in Job._meta.concrete_fields} - own
    columns = {name: getattr(row, name) for name in names}
    insert([Job(**columns, name=f"waits-{n}") for n in range(10_000)])
    assert asked() == few <= 6
