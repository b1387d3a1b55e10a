"""A job from its row to its end on a fake machine: what people then read of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from jobs.models import Job, Replica
from jobs.states import FILTERS, state_of
from runtime.hints import hint
from work.models import Step

pytestmark = pytest.mark.django_db


def steps(row: Any) -> list[str]:
    return list(Step.objects.filter(workload=row, launch=row.launch).values_list("word", flat=True))


def replicas(row: Any) -> list[tuple[int, str, int | None]]:
    return list(Replica.objects.filter(job=row).values_list("index", "seen", "exit_code"))


def told(user: Any) -> list[str]:
    from notifications.models import Notification

    rows = Notification.objects.filter(user=user).order_by("id")
    return list(rows.values_list("kind", flat=True))


def filtered(row: Any) -> list[str]:
    return [word for word, what in FILTERS.items() if Job.objects.filter(what, pk=row.pk).exists()]


def test_one_that_ends_well_has_succeeded(job, settle, end, alice):
    row = settle(job(replicas=3))
    assert (row.phase, state_of(row)) == ("running", "running")
    assert replicas(row) == [(n, "ready", None) for n in range(3)]
    row = end(row)
    assert (row.phase, state_of(row), row.exit_code) == ("stopped", "succeeded", 0)
    assert row.finished_at == row.stopped_at is not None
    assert replicas(row) == [(n, "exited", 0) for n in range(3)]
    assert steps(row)[0] == "accepted"
    assert steps(row)[-1] == "stopped"
    assert (told(alice), filtered(row)) == (["job.succeeded"], ["succeeded"])


@pytest.mark.parametrize(("code", "kept"), [(3, 3), (-9, 137)])
def test_the_first_replica_that_fails_says_how_it_failed(code, kept, job, settle, end, alice):
    row = end(settle(job(replicas=3)), code, replica=1)
    assert (state_of(row), row.exit_code, row.failed_replica) == ("failed", kept, 1)
    assert {n: c for n, _s, c in replicas(row)}[1] == kept
    assert Replica.objects.get(job=row, index=0).reason == "stopped"
    assert (told(alice), filtered(row)) == (["job.failed"], ["failed"])


def test_a_lone_one_has_a_replica_too(job, settle, end):
    row = settle(job())
    assert replicas(row) == [(0, "ready", None)]
    row = end(row, 1)
    assert (replicas(row), row.failed_replica) == ([(0, "exited", 1)], 0)


def test_the_machine_gets_what_the_row_says(job, settle, fake, world):
    row = settle(job(command=["python", "-c", "print('{port}')"], args=["x"], env={"A": "1"}))
    seen = fake.spec_seen(str(row.uid))
    assert (seen["kind"], seen["name"], seen["env"]) == ("job", row.short_id, {"A": "1"})
    from jobs.runtime_spec import workload_spec

    spec = workload_spec(Job.objects.select_related("project", "owner").get(pk=row.pk))
    assert spec.command == ("python", "-c", "print('{port}')", "x")
    assert (spec.once, spec.verbatim, spec.is_group, spec.retry.attempts) == (True, True, False, 1)


def test_on_one_machine_a_job_without_a_command_fails_with_a_sentence(job, settle, alice):
    row = settle(job(command=[]))
    assert (state_of(row), row.reason) == ("failed", "invalid-spec")
    assert "needs a command" in row.message
    assert told(alice) == ["job.failed"]


def test_it_is_tried_as_often_as_it_may_and_each_attempt_is_told(job, settle, fake):
    fake.script("*", exit_after_s=0, exit_codes=[7, 7, 0])
    row = settle(job(retries=2, replicas=2))
    for _look in range(4):
        hint(row)
        settle(row)
    assert (state_of(row), row.exit_code, row.launch) == ("succeeded", 0, 1)
    assert steps(row).count("restarted") == 2
    texts = {s.shown_message for s in Step.objects.filter(workload=row, word="restarted")}
    assert texts == {"It ended with an error and is tried again."}


def test_when_the_last_attempt_fails_it_has_failed(job, settle, fake):
    fake.script("*", exit_after_s=0, exit_code=7)
    row = settle(job(retries=1))
    for _look in range(3):
        hint(row)
        settle(row)
    assert (state_of(row), row.exit_code, steps(row).count("restarted")) == ("failed", 7, 1)


def test_its_time_begins_with_its_start_and_ends_it_as_failed(job, settle, fake, alice):
    row = settle(job(time_limit_minutes=10, replicas=2))
    assert row.ends_at == row.started_at + timedelta(minutes=10)
    assert row.next_reconcile_at <= row.ends_at
    past = now() - timedelta(seconds=1)
    Job.objects.filter(pk=row.pk).update(
        started_at=past - timedelta(minutes=10), ends_at=past, next_reconcile_at=now()
    )
    settle(row)
    assert (state_of(row), row.reason, row.desired) == ("failed", "time-limit", "running")
    assert (row.exit_code, row.ends_at) == (None, None)
    assert {seen for _n, seen, _c in replicas(row)} == {"exited"}
    assert told(alice) == ["job.failed"]


def test_an_end_of_its_own_a_moment_before_its_time_is_over_counts(job, settle, fake):
    row = settle(job(time_limit_minutes=10))
    fake.exit(str(row.uid), code=0)
    Job.objects.filter(pk=row.pk).update(
        ends_at=now() - timedelta(seconds=1), next_reconcile_at=now()
    )
    assert state_of(settle(row)) == "succeeded"


def test_a_longer_limit_counts_while_it_runs(job, settle):
    row = settle(job(time_limit_minutes=10))
    Job.objects.filter(pk=row.pk).update(time_limit_minutes=20)
    hint(row)
    settle(row)
    assert row.ends_at == row.started_at + timedelta(minutes=20)


def test_cancelled_it_is_no_failure_and_nobody_is_told(job, settle, want, alice):
    row = settle(job(replicas=2))
    row = settle(want(row, "stopped", stop_reason="cancelled"))
    assert (row.phase, state_of(row), row.reason) == ("stopped", "cancelled", "user")
    assert {seen for _n, seen, _c in replicas(row)} == {"exited"}
    assert (row.exit_code, row.failed_replica) == (None, None)
    assert row.finished_at is not None
    assert (told(alice), filtered(row)) == ([], ["cancelled"])


def test_started_again_it_forgets_how_it_ended(job, settle, want, end):
    row = end(settle(job(replicas=2)), 3)
    row = settle(want(row, "running", replicas=1))
    assert (row.launch, state_of(row)) == (2, "running")
    assert (row.exit_code, row.failed_replica) == (None, None)
    assert replicas(row) == [(0, "ready", None)]
    assert "running" in steps(row)
    assert state_of(end(row)) == "succeeded"


def test_one_that_vanishes_has_failed_and_so_have_its_replicas(job, settle, fake):
    row = settle(job(replicas=2))
    fake.vanish(str(row.uid))
    hint(row)
    row = settle(row)
    assert (state_of(row), row.reason) == ("failed", "vanished")
    assert {seen for _n, seen, _c in replicas(row)} == {"missing"}


def test_all_its_replicas_count_for_use_and_for_the_queue(job, settle, end, fake):
    from clusters.models import Claim
    from usage.models import Interval

    row = settle(job(replicas=4, cpu_milli=500, memory_mib=512))
    claim = Claim.objects.get(workload_uid=row.uid)
    assert (claim.cpu_milli, claim.memory_mib) == (2000, 2048)
    used = Interval.objects.get(uid=row.uid)
    assert (used.cpu_milli, used.memory_mib, used.ended_at) == (2000, 2048, None)
    row = end(row)
    used.refresh_from_db()
    assert (used.end_reason, used.ended_at) == ("finished", row.finished_at)
    assert not Claim.objects.filter(workload_uid=row.uid).exists()


def test_what_its_latest_launch_holds_on_a_cluster_is_counted_with_its_servers(job):
    """Fewer replicas after a loss, and servers that have GPUs of their own."""
    from clusters.demand import demand_on, placed_on
    from runtime.models import ObservedWorkload

    columns = {"cluster_key": "east", "gpus": 4, "gpu_flavor": "h100", "phase": "running"}
    job(replicas=8, replicas_now=2, framework="pytorch", **columns)
    assert demand_on(["east"])["east"].used == {"h100": 8}
    servers = {"parameter_servers": 2, "server_gpus": 1, "framework": "tensorflow"}
    row = job(name="servers", replicas=1, **servers, **columns)
    assert demand_on(["east"])["east"].used == {"h100": 8 + 6}
    told = [{"node": node, "seen": "ready"} for node in ("a", "b", "b")]
    ObservedWorkload.objects.create(
        cluster_key="east", uid=row.uid, seen="ready", data={"replicas": told}, seen_at=now()
    )
    found = {one.node: one.gpus for one in placed_on(["east"]) if one.uid == row.uid}
    assert found == {"a": 4, "b": 2}


def test_one_that_is_removed_leaves_nothing(job, settle, want, fake):
    row = settle(want(settle(job(replicas=2)), "absent"))
    assert row.deleted_at is not None
    assert list(fake.list_owned()) == []


def test_what_changed_of_a_replica_wakes_it_and_an_old_worker_writes_nothing(job, settle):
    """A result that comes too late changes neither the row nor what stands beside it."""
    from runtime import engine

    row = settle(job(replicas=2))
    Replica.objects.filter(job=row, index=1).update(seen="starting")
    hint(row)
    held = engine.claim("job", row.pk)
    outcome, _failures = engine.attempt(held)
    assert outcome.beside is not None
    Job.objects.filter(pk=row.pk).update(lease_token=None, lease_until=None)
    assert engine.apply(held, outcome) is False
    assert (1, "starting", None) in replicas(row)
    hint(row)
    settle(row)
    assert (1, "ready", None) in replicas(row)


def test_it_holds_its_volumes_until_it_has_ended(job, settle, end, want, shared):
    from volumes import references
    from work.models import WorkloadVolume

    row = job()
    WorkloadVolume.objects.create(workload=row, volume=shared)
    row = settle(row)
    held = ([("job", "train")], {shared.uid: 1})

    def seen() -> tuple[list[tuple[str, str]], dict[Any, int]]:
        found = [(one.kind, one.name) for one in references.holders_of(shared)]
        return found, references.counts_of([shared.uid])

    assert seen() == held
    row = end(row)
    assert seen() == ([], {})
    row = want(row, "running")
    assert seen() == held  # wanted again, before anybody looked
    settle(row)
    assert seen() == held


def test_a_credential_knows_which_jobs_have_it(job, settle):
    from credentials import references
    from credentials.models import Credential
    from work.models import WorkloadCredential

    row = job()
    key = Credential.objects.create(
        project=row.project, owner=row.owner, kind="generic", name="key", sealed=b""
    )
    WorkloadCredential.objects.create(workload=row, credential=key)
    settle(row)
    assert [(one.kind, one.uid) for one in references.of(key)] == [("job", row.uid)]


def test_it_asks_for_no_place_before_its_data_is_there(job, settle, load, alice, fake):
    from clusters.models import Claim
    from loaders.models import Load
    from work.models import WorkloadNeed
    from work.needs import changed

    copy = load(alice)
    row = job()
    WorkloadNeed.objects.create(workload=row, needed=copy)
    settle()
    row.refresh_from_db()
    assert (state_of(row), row.reason) == ("queued", "data")
    assert not Claim.objects.filter(workload_uid=row.uid).exists()
    Load.objects.filter(pk=copy.pk).update(loaded_at=now())
    changed([copy.uid])
    assert state_of(settle(row)) == "running"


def test_the_devices_of_all_its_replicas_count_on_the_nodes_that_they_came_to(job):
    from clusters.demand import demand_on, held_on
    from runtime.models import ObservedWorkload

    waits = job(name="waits", gpus=2, gpu_flavor="h100", replicas=3, cluster_key="east")
    runs = job(name="runs", gpus=2, gpu_flavor="h100", replicas=3, cluster_key="east")
    Job.objects.filter(pk=runs.pk).update(phase="running")
    demand = demand_on(["east"])["east"]
    assert (demand.used, demand.waiting) == ({"h100": 6}, {"h100": 6})
    assert held_on(["east"]) == {("east", ""): [("h100", 6)]}
    told = [("a", "ready"), ("b", "ready"), ("b", "exited")]
    ObservedWorkload.objects.create(
        cluster_key="east",
        uid=runs.uid,
        seen="ready",
        seen_at=now(),
        data={"detail": {"node": "a"}, "replicas": [{"node": n, "seen": s} for n, s in told]},
    )
    assert held_on(["east"]) == {("east", "a"): [("h100", 2)], ("east", "b"): [("h100", 2)]}
    assert waits.phase == "pending"


def test_another_attempt_gives_it_no_more_time(job, settle, fake):
    row = settle(job(time_limit_minutes=10, retries=1))
    began = row.started_at
    fake.change(row.uid, attempt=2, started_at=began.timestamp() + 120)
    hint(row)
    settle(row)
    assert (row.started_at, row.ends_at) == (began, began + timedelta(minutes=10))
    assert steps(row).count("restarted") == 1
