"""What a job does after it lost its place, on a fake machine with GPUs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clusters import registry
from clusters import services as clusters
from clusters.models import Cluster, Device
from common.clock import now
from common.errors import Invalid
from jobs import reconciler
from jobs.goodput import goodput_of
from jobs.kind import JOB
from jobs.models import Job, Run
from jobs.runtime_spec import workload_spec
from jobs.states import state_of
from runtime import engine, workload, workload_ending
from runtime.hints import hint
from runtime.protocol import Device as Seen
from tests.notebooks.cluster_world import IMAGE, attach
from usage.models import Wait
from work import services
from work.models import Step, Workload
from work.services import workload_create

pytestmark = pytest.mark.django_db
LOST = ("vanished", "unknown")  # with the machine; with all of its processes


@pytest.fixture
def gpus(fake: Any) -> Callable[[int], None]:
    """Let the machine have so many."""

    def have(count: int) -> None:
        fake.set_devices([Seen(f"GPU-{n}", n, "H100", 80_000) for n in range(count)])
        cluster = clusters.ensure_local_cluster()
        clusters.health_store(key=cluster.key, health=fake.probe())

    return have


@pytest.fixture
def make(project: Any, alice: Any, principal: Any, shared: Any) -> Callable[..., Job]:
    """Launch a job as a person does."""

    def launched(**said: Any) -> Job:
        asked = {"principal": principal(alice), "project": project, "kind": JOB}
        return workload_create(**asked, said={"command": ["python", "train.py"], **said})

    return launched


@pytest.fixture
def lose(fake: Any, settle: Any) -> Callable[..., Job]:
    """Let its machine restart, or all of its processes go, and the engine see it."""

    def run(row: Job, reason: str = "vanished") -> Job:
        fake.exit(str(row.uid), code=None, reason=reason)
        for _look in range(3):
            hint(row)
            settle(row)
        return row

    return run


def words(row: Job, launch: int) -> list[tuple[str, str]]:
    rows = Step.objects.filter(workload=row, launch=launch)
    return [(one.word, str(one.shown_message)) for one in rows]


@pytest.mark.parametrize("reason", LOST)
@pytest.mark.parametrize("said", [{"retries": 1}, {"checkpoints": "shared/runs"}])
def test_g14_after_its_machine_restarts_it_goes_on_as_the_same_run(
    reason: str, said: dict[str, Any], make: Any, settle: Any, lose: Any
) -> None:
    row = settle(make(**said))
    row = lose(row, reason)
    assert (state_of(row), row.launch, row.desired) == ("running", 2, "running")
    run = Run.objects.get(job=row)
    assert (run.launch, run.how, [place["launch"] for place in run.places]) == (1, "", [1, 2])
    again = [text for word, text in words(row, 1) if word == "restarted"]
    assert len(again) == 1
    assert "Its machine restarted" in again[0]


def test_g14_without_either_it_says_what_happened(make: Any, settle: Any, lose: Any) -> None:
    row = lose(settle(make()))
    assert (state_of(row), row.reason, row.launch, row.exit_code) == ("failed", "vanished", 1, None)


def test_g14_its_own_folder_with_a_checkpoint_is_enough(make: Any, settle: Any, fake: Any) -> None:
    row = settle(make())
    fake.exit(str(row.uid), code=None, reason="vanished", checkpoint=True)
    for _look in range(3):
        hint(row)
        settle(row)
    assert (state_of(row), row.launch) == ("running", 2)


def test_g14_who_brings_its_machine_down_each_time_is_given_up(
    make: Any, settle: Any, lose: Any
) -> None:
    row = settle(make(checkpoints="shared"))
    for _time in range(6):
        row = lose(row)
    assert (state_of(row), row.reason, row.launch) == ("failed", "vanished", 6)


def test_what_its_program_did_itself_is_no_loss(make: Any, settle: Any, end: Any) -> None:
    row = end(settle(make(checkpoints="shared")), -9)
    assert (state_of(row), row.reason, row.launch) == ("failed", "killed", 1)


def test_g13_one_that_waits_stays_stopped_and_a_press_goes_on(
    make: Any, settle: Any, lose: Any, principal: Any, alice: Any
) -> None:
    row = lose(settle(make(after_loss="wait")))
    assert (state_of(row), row.reason, row.launch) == ("failed", "place-lost", 1)
    assert Run.objects.get(job=row).reason == "place-lost"
    services.workload_start(principal=principal(alice), row=row)
    assert (state_of(settle(row)), row.launch) == ("running", 2)


@pytest.mark.parametrize(("left", "had"), [(3, 3), (1, None), (4, 4)])
def test_g13_with_fewer_it_goes_on_with_what_fits_and_grows_back(
    left: int, had: int | None, make: Any, settle: Any, lose: Any, gpus: Any
) -> None:
    """At least two of four: with three GPUs three run, with one it waits for two."""
    gpus(4)
    said = {"replicas": 4, "gpus": 1, "after_loss": "fewer", "min_replicas": 2}
    row = settle(make(**said, framework="pytorch", checkpoints="shared"))
    assert row.launched_replicas == 4
    Device.objects.filter(index__gte=left).update(healthy=False)
    row = lose(row)
    if had is None:
        assert (state_of(row), row.launched_replicas) == ("queued", 2)
        assert Wait.objects.get(launch=2, ended_at=None).gpus == 2  # it waits for no more
        return
    assert (state_of(row), row.launched_replicas) == ("running", had)
    assert row.replica_rows.filter(launch=2).count() == had
    Device.objects.update(healthy=True)
    row = lose(row)
    assert (state_of(row), row.launched_replicas) == ("running", 4)
    counts = [4, had, 4]
    assert list(Wait.objects.order_by("launch").values_list("gpus", flat=True)) == counts
    assert [place["replicas"] for place in Run.objects.get(job=row).places] == counts
    found = goodput_of(row)
    assert found is not None
    assert found.sums.get("suspended") is None  # nobody took its place
    assert list(found.sizes.values()) == counts


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"framework": "tensorflow", "replicas": 4}, "after_loss"),
        ({"replicas": 1}, "after_loss"),
        ({"replicas": 2, "min_replicas": 3}, "min_replicas"),
    ],
)
def test_fewer_is_refused_by_name_where_it_makes_no_sense(
    said: dict[str, Any], field: str, make: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        make(**said, after_loss="fewer")
    assert list(refused.value.fields) == [field]


@pytest.fixture
def taken(monkeypatch: Any, settings: Any, make: Any, settle: Any) -> Callable[..., Job]:
    """Let a cluster take the pods of a running job away; it would make them anew by itself."""
    settings.BERTH_LOCAL_CLUSTER = False
    cluster = attach(monkeypatch)
    driver: Any = registry.driver_for(cluster.key)

    def run(reason: str, *, silent: bool = False, **said: Any) -> Job:
        driver.script("*")
        row = settle(make(image=IMAGE, cluster=cluster.key, **said))
        assert state_of(row) == "running"
        driver.script("*", never_ready=True)
        driver.change(str(row.uid), seen="starting", reason=reason, silent=silent)
        for _look in range(3):
            hint(row)
            settle(row)
        return row

    return run


@pytest.mark.parametrize("reason", ["preempted", "node-lost", "evicted"])
def test_a7_g13_what_a_cluster_takes_away_waits_where_it_should(reason: str, taken: Any) -> None:
    row = taken(reason)
    assert (state_of(row), row.reason, row.launch) == ("starting", reason, 1)
    row = taken(reason, after_loss="wait")
    assert (state_of(row), row.reason, row.launch) == ("failed", "place-lost", 1)


@pytest.mark.parametrize("after_loss", ["wait", "fewer"])
def test_g13_a_node_that_is_silent_for_a_moment_is_no_loss(
    after_loss: str, taken: Any, settle: Any
) -> None:
    """Its pod is there, and its cluster has not given it up; when it does, that is one."""
    said = {"replicas": 2, "after_loss": after_loss, "cpu_milli": 100}
    row = taken("node-lost", silent=True, **said)
    assert (state_of(row), row.reason, row.launch) == ("starting", "node-lost", 1)
    driver: Any = registry.driver_for(row.cluster_key)
    driver.change(str(row.uid), seen="ready", reason="", silent=False)
    hint(row)
    assert (state_of(settle(row)), row.launch) == ("running", 1)
    driver.change(str(row.uid), seen="starting", reason="node-lost")
    for _look in range(3):
        hint(row)
        settle(row)
    assert (state_of(row), row.launch) == {"wait": ("failed", 1), "fewer": ("starting", 2)}[
        after_loss
    ]


def test_g13_a_gang_on_a_cluster_goes_on_with_what_its_nodes_have(taken: Any) -> None:
    """Eight GPUs in all, and none of them is free but three."""
    Cluster.objects.update(kinds={"h100-80": {"total": 3, "nodes": 1, "largest": 3, "out": 0}})
    said = {"replicas": 4, "gpus": 1, "gpu_flavor": "h100-80", "after_loss": "fewer"}
    row = taken("node-lost", **said, min_replicas=2)
    assert (row.launch, row.launched_replicas) == (2, 3)


@pytest.mark.parametrize("framework", ["none", "pytorch"])
def test_g13_who_goes_on_alone_is_told_that_it_is_one_of_one(
    framework: str, make: Any, settle: Any, lose: Any, gpus: Any
) -> None:
    gpus(2)
    row = settle(make(replicas=2, gpus=1, after_loss="fewer", framework=framework, retries=1))
    Device.objects.filter(index=1).update(healthy=False)
    row = lose(row)
    assert (state_of(row), row.launched_replicas) == ("running", 1)
    assert workload_spec(row).is_group


@pytest.mark.parametrize(("left", "runs"), [(2, True), (1, False)])
def test_g13_where_others_come_before_it_while_it_asks_it_goes_on_with_what_is_left(
    left: int,
    runs: bool,
    make: Any,
    settle: Any,
    lose: Any,
    gpus: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three of four fitted when it counted; when it asks for them fewer are left."""
    gpus(4)
    said = {"replicas": 4, "gpus": 1, "after_loss": "fewer", "min_replicas": 2}
    row = settle(make(**said, framework="pytorch", checkpoints="shared"))
    Device.objects.filter(index__gte=3).update(healthy=False)
    counted: list[int] = []

    def reached(_name: str) -> None:
        """Between two passes: what it counted is written, its place not asked for yet."""
        if not counted and Job.objects.filter(pk=row.pk, replicas_now=3).exists():
            counted.append(3)
            Device.objects.filter(index__gte=left).update(healthy=False)

    monkeypatch.setattr(engine, "killpoint", reached)
    row = lose(row)
    assert counted
    assert (state_of(row), row.launched_replicas) == ("running" if runs else "queued", 2)
    assert Wait.objects.get(launch=2).gpus == 2
    if runs:
        assert [place["replicas"] for place in Run.objects.get(job=row).places] == [4, 2]
    Device.objects.update(healthy=True)
    hint(row)
    assert (state_of(settle(row)), row.launched_replicas) == ("running", 2)  # never up in between


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, open transactions roll back."""


@pytest.mark.parametrize("point", ["place-lost", "stepped", "applied", "committed", "admitted"])
@pytest.mark.parametrize("after", range(4))
def test_e1_g13_a_worker_killed_while_it_counts_anew_leaves_one_launch_with_what_fits(
    point: str,
    after: int,
    make: Any,
    settle: Any,
    fake: Any,
    gpus: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the first, second … time that a pass comes to the point after the loss."""
    gpus(4)
    said = {"replicas": 4, "gpus": 1, "after_loss": "fewer", "min_replicas": 2}
    row = settle(make(**said, framework="pytorch", checkpoints="shared"))
    Device.objects.filter(index__gte=3).update(healthy=False)
    fake.exit(str(row.uid), code=None, reason="vanished")
    times: list[str] = []

    def reached(name: str) -> None:
        if name == point:
            times.append(name)
            if len(times) == after + 1:
                raise Killed

    for module in (engine, workload, workload_ending, reconciler):
        monkeypatch.setattr(module, "killpoint", reached)
    for _look in range(4):
        hint(row)
        try:
            settle(row)
        except Killed:
            past = now() - timedelta(seconds=1)
            mine = Workload.objects.filter(pk=row.pk, lease_token__isnull=False)
            mine.update(lease_until=past, next_reconcile_at=past)
    assert times
    assert (state_of(row), row.launch, row.launched_replicas) == ("running", 2, 3)
    assert row.replica_rows.filter(launch=2).count() == 3
    run = Run.objects.get(job=row)
    assert [place["replicas"] for place in run.places] == [4, 3]
    assert [wait.gpus for wait in Wait.objects.order_by("launch")] == [4, 3]
