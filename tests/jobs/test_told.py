"""What programs of jobs tell of themselves is read while they run and once they have ended."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Cluster
from common.clock import now
from jobs import told
from jobs.goodput import goodput_of
from jobs.models import Job, Run, RunGoodput, Told
from runtime.protocol import Unreachable
from runtime.reasons import Reason
from usage.models import Interval

pytestmark = pytest.mark.django_db


def line(**said: Any) -> str:
    return json.dumps(said) + "\n"


def steps(first: int, count: int, *, at: float, every: float = 0.01) -> str:
    times = ((first + n, at + n * every) for n in range(count))
    return "".join(line(step_count=n, step_start_time=when) for n, when in times)


@pytest.fixture
def running(job: Any, settle: Any, world: Any) -> Any:
    row = settle(job())
    assert row.phase == "running"
    return row


def read(row: Any, launch: int = 1) -> Any:
    Told.objects.filter(next_at__isnull=False).update(next_at=now())
    told.read_due()
    return Told.objects.get(job=row, launch=launch)


def test_g9_a_running_program_is_read_on_and_less_often_while_it_is_silent(
    running: Any, fake: Any
) -> None:
    began = Interval.objects.get(uid=running.uid).started_at.timestamp()
    assert read(running).state.get("count", 0) == 0
    fake.tell_events(str(running.uid), 1, steps(0, 3, at=began) + '{"step_count": 3, "step_st')
    first = read(running)
    assert (first.state["count"], first.pause_s) == (2, 5)  # half a line is not read
    fake.tell_events(str(running.uid), 1, f'art_time": {began + 1}}}\n')
    assert read(running).state["count"] == 3
    assert [read(running).pause_s for _ in range(8)] == [10, 20, 40, 80, 160, 300, 300, 300]


def test_g9_what_a_program_told_last_is_read_when_it_has_ended(
    running: Any, fake: Any, end: Any
) -> None:
    began = Interval.objects.get(uid=running.uid).started_at.timestamp()
    fake.tell_events(str(running.uid), 1, steps(0, 3, at=began).rstrip())  # no last end of line
    end(running)
    assert read(running).state["count"] == 2
    assert read(running).next_at is None


def test_g9_a_machine_that_does_not_answer_is_asked_again(running: Any, fake: Any) -> None:
    fake.fail("read_events", "unreachable", times=1)
    later = read(running)
    assert later.next_at > now() + timedelta(minutes=4)
    fake.tell_events(str(running.uid), 1, steps(0, 2, at=now().timestamp()))
    assert read(running).state["count"] == 1


def test_g9_a_flood_that_is_no_event_is_passed_over(running: Any, fake: Any) -> None:
    fake.tell_events(str(running.uid), 1, "x" * 600_000 + "\n" + line(job_start_time=0))
    found = read(running)
    assert found.state["unused"] == 1
    assert found.offset > 600_000


def test_g9_what_the_launch_before_told_last_is_read_though_the_next_one_has_begun(
    running: Any, fake: Any, end: Any, want: Any, settle: Any
) -> None:
    began = Interval.objects.get(uid=running.uid).started_at.timestamp()
    end(running)
    fake.tell_events(str(running.uid), 1, steps(0, 3, at=began))
    fake.fail("read_events", "crash", times=-1)  # the engine waits for no reading
    again = settle(want(running, "running"))
    assert (again.launch, again.phase) == (2, "running")
    fake.heal()
    assert read(again).state["count"] == 2


def test_g9_who_prints_much_beside_is_read_before_its_node_cuts_the_log(
    running: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "_FRESH", 1000)
    began = Interval.objects.get(uid=running.uid).started_at.timestamp()
    fake.tell_events(str(running.uid), 1, steps(0, 3, at=began))
    pauses = [read(running).pause_s for _ in range(4)]
    fake.tell_events(str(running.uid), 1, "x" * 1999 + "\n")
    assert [*pauses, read(running).pause_s] == [5, 10, 20, 40, 20]


def test_g9_what_a_turn_reads_is_bounded_and_who_is_left_comes_first(
    job: Any, settle: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "_TURN", 5000)
    rows = [settle(job(name=f"of-{n}")) for n in range(3)]
    for row in rows:
        fake.tell_events(str(row.uid), 1, "x" * 3999 + "\n")
    Told.objects.update(next_at=now())
    told.read_due()
    assert Told.objects.filter(offset__gt=0).count() == 2
    told.read_due()
    assert Told.objects.filter(offset__gt=0).count() == 3


def test_g9_what_a_job_that_moved_told_last_is_asked_where_it_ran(
    running: Any, fake: Any, end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(running)
    Job.objects.update(cluster_key="another")
    asked = []
    monkeypatch.setattr(told, "driver_for", lambda key: asked.append(key) or fake)
    read(running)
    assert asked == ["local"]


def test_g9_goodput_of_a_run_that_is_over_stays_what_it_was(
    running: Any, fake: Any, end: Any, alice: Any, as_user: Any
) -> None:
    Run.objects.create(job=running, launch=1, asked_at=now())
    began = Interval.objects.get(uid=running.uid).started_at.timestamp()
    fake.tell_events(str(running.uid), 1, steps(0, 3, at=began))
    end(running)
    read(running)
    assert not RunGoodput.objects.exists()  # it may have told more
    read(running)
    url = f"/api/v1/projects/{running.project.slug}/jobs/{running.short_id}/goodput"
    before = as_user(alice).get(url).json()
    Told.objects.all().delete()
    Interval.objects.all().delete()  # as samples go, or a rule changes
    assert RunGoodput.objects.count() == 1
    after = as_user(alice).get(url).json()
    assert (after, after["over"], after["steps"]["count"]) == (before, True, 2)


def test_g9_goodput_of_an_older_run_is_told_beside_that_of_the_latest(
    job: Any, alice: Any, as_user: Any, project: Any
) -> None:
    row, at = job(launch=3), now()
    kept = {"uid": row.uid, "kind": "job", "project_uid": project.uid, "owner_uid": alice.uid}
    for launch, minutes, reason in ((1, 60, "preempted"), (2, 40, "finished"), (3, 10, "")):
        began = at - timedelta(minutes=minutes)
        Interval.objects.create(
            **kept,
            project_slug=project.slug,
            owner_name="alice",
            cluster_key="local",
            launch=launch,
            asked_at=began,
            started_at=began,
            ended_at=began + timedelta(minutes=10) if launch < 3 else None,
            end_reason=reason,
        )
    for launch in (1, 3):
        Run.objects.create(job=row, launch=launch, asked_at=at)
    Told.objects.create(
        job=row, launch=3, smoke_began_at=at - timedelta(minutes=9), smoke_ended_at=at
    )
    url = f"/api/v1/projects/{project.slug}/jobs/{row.short_id}/goodput"
    client = as_user(alice)
    older = client.get(url, {"run": 1}).json()
    assert {part["launch"] for part in older["parts"]} == {1, 2}
    assert older["wall_seconds"] == 1800
    assert {part["launch"] for part in client.get(url).json()["parts"]} == {3}
    assert client.get(url, {"run": 2}).status_code == 404
    assert client.get(url, {"run": "x"}).status_code == 400
    page = client.get(f"{row.get_absolute_url()}goodput/", {"run": 1}).content.decode()
    assert "What the time of run 1 came to" in page
    assert "BERTH_EVENTS" in page


def test_g9_the_page_of_a_job_that_never_began_says_so(
    job: Any, alice: Any, as_user: Any, charlie: Any
) -> None:
    url = f"{job().get_absolute_url()}goodput/"
    assert "There is no time to tell of yet" in as_user(alice).get(url).content.decode()
    assert as_user(charlie).get(url).status_code == 404


def test_g13_a_run_keeps_where_each_of_its_attempts_ran(
    job: Any, settle: Any, fake: Any, alice: Any, as_user: Any, project: Any
) -> None:
    row = job(replicas=2)  # of one the fake machine tells no node
    Run.objects.create(job=row, launch=1, asked_at=now())
    row = settle(row)
    run = Run.objects.get(job=row)
    (place,) = run.places
    assert place["launch"] == 1
    assert place["nodes"]
    run.places = [*run.places, {**place, "nodes": ["other"]}, {**place, "nodes": ["other"]}]
    run.save()
    assert run.moves == [", ".join(place["nodes"]), "other"]
    page = as_user(alice).get(f"{row.get_absolute_url()}runs/").content.decode()
    assert "→ other" in page
    run.places = [{**place, "nodes": [f"n{n}"]} for n in range(9)]
    run.save(update_fields=["places"])
    page = as_user(alice).get(f"{row.get_absolute_url()}runs/").content.decode()
    assert "… → n4 → n5 → n6 → n7 → n8" in page
    told = as_user(alice).get(f"/api/v1/projects/{project.slug}/jobs/{row.short_id}/runs").json()
    assert [one["nodes"] for one in told["results"][0]["places"]][:2] == [["n0"], ["n1"]]


def test_g9_the_time_of_a_smoke_run_is_kept_with_its_launch(
    job: Any, settle: Any, fake: Any, end: Any
) -> None:
    from jobs import smoke

    row = job(smoke=True)
    smoke.begin(row)
    one = settle(Job.objects.get(smoke_of=row.uid))
    end(one)
    kept = Told.objects.get(job=row, launch=1)
    assert kept.smoke_began_at is not None
    assert kept.smoke_ended_at is not None
    assert kept.smoke_ended_at >= kept.smoke_began_at


def test_g9_what_a_dead_node_ran_puts_off_no_job_of_another(
    job: Any, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [settle(job(name=f"of-{n}")) for n in range(3)]
    Told.objects.update(next_at=now())
    real, asked = told._read, list[int]()

    def away(row: Told) -> int:
        asked.append(row.job_id)
        if row.job_id == rows[0].pk:
            raise Unreachable("Its node does not answer.")
        return real(row)

    monkeypatch.setattr(told, "_read", away)
    told.read_due()
    assert sorted(asked) == sorted(row.pk for row in rows)
    put_off = Told.objects.filter(next_at__gt=now() + timedelta(minutes=4))
    assert [one.job_id for one in put_off] == [rows[0].pk]


@pytest.mark.parametrize(("reachable", "times"), [(True, 2), (False, 1)])
def test_g9_a_silent_cluster_is_asked_for_few_of_its_jobs_and_then_left_for_a_while(
    job: Any, settle: Any, monkeypatch: pytest.MonkeyPatch, *, reachable: bool, times: int
) -> None:
    rows = [settle(job(name=f"of-{n}")) for n in range(3)]
    Told.objects.update(next_at=now())
    Cluster.objects.update(reachable=reachable, checked_at=now())
    asked = []

    def away(row: Told) -> None:
        asked.append(row.pk)
        raise Unreachable("The cluster does not answer.")

    monkeypatch.setattr(told, "_read", away)
    told.read_due()
    assert len(asked) == times
    assert Told.objects.filter(job__in=rows, next_at__gt=now()).count() == 3


def test_g9_a_run_begins_with_itself_however_the_one_before_lost_its_place(running: Any) -> None:
    first = Interval.objects.get(uid=running.uid)
    first.end_reason, first.ended_at = Reason.PREEMPTED, first.started_at + timedelta(seconds=60)
    first.save()
    later = Interval.objects.get(pk=first.pk)
    later.pk, later.launch, later.end_reason, later.ended_at = None, 3, "", None
    later.started_at = first.started_at + timedelta(days=2)
    later.placed_at = later.started_at
    later.save()
    Job.objects.filter(pk=running.pk).update(launch=3)
    Run.objects.create(job=running, launch=3, asked_at=later.started_at)
    found = goodput_of(Job.objects.get(pk=running.pk))
    assert found is not None
    assert {part.launch for part in found.parts} == {3}
