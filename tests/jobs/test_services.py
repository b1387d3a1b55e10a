"""What is particular to jobs in the services of every kind: replicas, images, a row that ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from clusters import registry
from clusters.models import Cluster
from common.errors import Conflict, Invalid, LimitExceeded
from jobs import replicas
from jobs.kind import JOB
from jobs.models import Job
from jobs.runtime_spec import workload_spec
from jobs.states import state_of
from quotas.models import Limit, Reservation
from runtime.hints import hint
from runtime.protocol import Observation, ReplicaSeen, Seen
from tests.notebooks.cluster_world import IMAGE, attach, pool
from volumes.models import Volume
from work import services
from work.attached import Attached
from work.ui.sizes import whole_size_words

pytestmark = pytest.mark.django_db
COMMAND = {"command": ["python", "train.py"]}
Ran = Callable[..., Any]


@pytest.fixture
def asked(project: Any, principal: Any, alice: Any, presets: Any) -> dict[str, Any]:
    return {"principal": principal(alice), "project": project, "kind": JOB}


@pytest.fixture
def ran(asked: dict[str, Any], settle: Any, fake: Any) -> Ran:
    """Make one, and let it end with a code; None: it goes on."""

    def run(code: int | None = 0, **said: Any) -> Any:
        row = settle(services.workload_create(**asked, said=COMMAND | said))
        if code is None:
            return row
        fake.exit(str(row.uid), code=code)
        hint(row)
        return settle(row)

    return run


@pytest.fixture
def cluster(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cluster that runs images, and no machine."""
    settings.BERTH_LOCAL_CLUSTER = False
    return attach(monkeypatch)


def test_g13_checkpoints_lie_in_a_folder_of_the_job_in_one_of_its_volumes(
    asked: dict[str, Any], settle: Any, project: Any
) -> None:
    for name in ("data", "other"):
        Volume.objects.create(project=project, name=name, kind="data", cluster_key="local")

    def refused(checkpoints: str, *volumes: str) -> str:
        said = COMMAND | {"checkpoints": checkpoints, "volumes": list(volumes)}
        with pytest.raises(Invalid) as told:
            services.workload_create(**asked, said=said)
        return str(told.value.fields["checkpoints"][0])

    assert refused("other", "data") == "It is in none of the job's volumes: data."
    assert refused("data", "data:ro") == "The job may only read this volume."
    for bad in ("/data", "data/../x", "data/.hidden", "data//x", "data/a/b/c/d"):
        assert refused(bad, "data") == "The name of a volume, or VOLUME/FOLDER."
    said = COMMAND | {"checkpoints": "data/runs", "volumes": ["data"]}
    row = settle(services.workload_create(**asked, said=said))
    assert workload_spec(row).checkpoints == f"data/runs/{row.short_id}"
    usual = settle(services.workload_create(**asked, said=COMMAND | {"checkpoints": "shared"}))
    assert workload_spec(usual).checkpoints == f"shared/{usual.short_id}"


@pytest.mark.parametrize("options", [{"queue": "team"}, {}])
def test_a7_a_plan_says_that_what_may_be_preempted_keeps_no_checkpoints(
    asked: dict[str, Any], cluster: Any, options: dict[str, Any]
) -> None:
    cluster.options |= options
    cluster.save()
    said = {"image": IMAGE, "gpus": 1}
    begins_anew = "Name a folder for its checkpoints: when its GPUs are asked back it begins anew"
    for more, told in (({}, bool(options)), ({"checkpoints": "shared"}, False)):
        plan = services.workload_plan(**asked, said=said | more)
        assert any(one.startswith(begins_anew) for one in plan.sentences) is told


def held(row: Any) -> dict[str, int]:
    rows = Reservation.objects.filter(workload_uid=row.uid)
    return dict(rows.values_list("resource", "amount"))


def test_limits_count_every_replica(asked: dict[str, Any], ran: Ran, project: Any) -> None:
    row = ran(None, replicas=3, cpu_milli=500, memory_mib=256)
    assert held(row) == {"cpu_milli": 1500, "memory_mib": 768}
    Limit.objects.create(project=project, resource="cpu_milli", amount=2000)
    said = COMMAND | {"replicas": 2, "cpu_milli": 500}
    plan = services.workload_plan(**asked, said=said)
    assert (plan.allowed, {e.resource: e.after for e in plan.quota}["cpu_milli"]) == (False, 2500)
    with pytest.raises(LimitExceeded):
        services.workload_create(**asked, said=said)


def test_a_machine_starts_all_replicas_or_none(asked: dict[str, Any]) -> None:
    from clusters.models import Cluster
    from clusters.services import ensure_local_cluster, health_refresh

    ensure_local_cluster()
    health_refresh(key="local")
    cpu_milli = Cluster.objects.get(key="local").capacity["cpu_milli"]
    said = COMMAND | {"cpu_milli": cpu_milli // 2, "memory_mib": 256}
    plans = [services.workload_plan(**asked, said=said | {"replicas": n}) for n in (1, 2, 64)]
    assert [plan.decision.fits for plan in plans] == [True, True, False]
    with pytest.raises(Conflict) as refused:
        services.workload_create(**asked, said=said | {"replicas": 64}, must_fit=True)
    assert refused.value.code == "does-not-fit"


def test_gpus_of_all_replicas_are_looked_for_and_paid(cluster: Any, asked: dict[str, Any]) -> None:
    said = {"image": IMAGE, "gpus": 4, "gpu_flavor": "h100-80"}
    two, three = (services.workload_plan(**asked, said=said | {"replicas": n}) for n in (2, 3))
    assert (two.decision.starts_now, three.decision.starts_now) == (True, False)
    assert three.decision.fits  # each of them fits on a node
    assert (two.cost_per_hour, three.cost_per_hour) == (16, 24)
    assert {e.resource: e.after for e in three.quota}["gpus"] == 12


def test_servers_of_a_size_of_their_own_count_as_what_they_are(
    cluster: Any, asked: dict[str, Any]
) -> None:
    cluster.operators = ["jobset"]
    cluster.save()
    said = {
        "image": IMAGE,
        "framework": "tensorflow",
        "replicas": 2,
        "parameter_servers": 3,
        "cpu_milli": 4000,
        "memory_mib": 4096,
        "gpus": 2,
        "gpu_flavor": "h100-80",
        "server_cpu_milli": 500,
        "server_memory_mib": 512,
    }
    plan = services.workload_plan(**asked, said=said)
    after = {effect.resource: effect.after for effect in plan.quota}
    assert (after["gpus"], after["cpu_milli"], after["memory_mib"]) == (4, 9500, 9728)
    assert plan.cost_per_hour == 8
    row = services.workload_create(**asked, said=said)
    assert whole_size_words(row).replace("\xa0", " ").endswith("0.5 CPU · 512 MiB")
    assert services.manifest_of(row, private=True)["spec"]["server_cpu_milli"] == 500
    sizes = [(group.role, group.resources) for group in workload_spec(row).groups]
    assert sizes[:2] == [("chief", None), ("worker", None)]
    assert (sizes[2][0], sizes[2][1].gpus, sizes[2][1].cpu_milli) == ("ps", 0, 500)
    without = {"gpus": 0, "gpu_flavor": "", "server_gpus": 1}
    for wrong, field in ((without, "server_gpus"), ({"server_memory_mib": 1}, "server_memory_mib")):
        with pytest.raises(Invalid) as refused:
            services.workload_create(**asked, said=said | wrong)
        assert list(refused.value.fields) == [field]


def test_what_a_replica_told_before_its_pod_went_is_kept(asked: dict[str, Any]) -> None:
    row = services.workload_create(**asked, said=COMMAND)
    known = ReplicaSeen(0, "worker", Seen.READY, node="n1", started_at=5.0, restarts=2)
    gone = ReplicaSeen(0, "worker", Seen.EXITED, exit_code=0, ended_at=9.0)
    for one in (known, gone):
        told = Observation(str(row.uid), one.seen, launch=row.launch, replicas=(one,))
        replicas.keep(replicas.news(row, told))
    (kept,) = row.replica_rows.all()
    found = (kept.seen, kept.node, kept.restarts, replicas.moment(5.0) == kept.started_at)
    assert found == ("exited", "n1", 2, True)


@pytest.mark.parametrize(
    ("there", "older", "operator"),
    [
        (["pytorchjob"], False, "pytorchjob"),
        (["trainer", "pytorchjob"], False, "trainer"),
        (["trainer", "pytorchjob"], True, "pytorchjob"),
    ],
)
def test_the_older_operator_serves_where_no_newer_is_or_operators_say_so(
    asked: dict[str, Any], cluster: Any, there: list[str], older: bool, operator: str
) -> None:
    cluster.operators = there
    cluster.options = {**cluster.options, "training_operator": older}
    cluster.save()
    said = COMMAND | {"image": IMAGE, "framework": "pytorch", "replicas": 2}
    told = "It runs as a PyTorchJob there" in str(services.workload_plan(**asked, said=said))
    row = services.workload_create(**asked, said=said)
    assert (workload_spec(row).operator, told) == (operator, operator == "pytorchjob")
    said |= {"retries": 2, "checkpoints": "shared", "volumes": ["shared"]}
    plan = str(services.workload_plan(**asked, said=said))
    assert ("let it look for the newest in BERTH_CHECKPOINTS" in plan) == told
    del said["checkpoints"], said["volumes"]
    assert "BERTH_CHECKPOINTS" not in str(services.workload_plan(**asked, said=said))


@pytest.mark.parametrize(
    ("said", "field"),
    [({}, "command"), ({**COMMAND, "image": IMAGE}, "image"), ({**COMMAND, "pool": "p"}, "pool")],
)
def test_one_machine_refuses_what_it_has_not(
    said: dict[str, Any], field: str, asked: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as refused:
        services.workload_create(**asked, said=said)
    assert list(refused.value.fields) == [field]


def test_a_cluster_needs_an_image_and_knows_its_pools(cluster: Any, asked: dict[str, Any]) -> None:
    pool(cluster, "fast")
    for said, field in ((COMMAND, "image"), ({"image": IMAGE, "pool": "slow"}, "pool")):
        with pytest.raises(Invalid) as refused:
            services.workload_create(**asked, said=said)
        assert list(refused.value.fields) == [field]
    row = services.workload_create(**asked, said={"image": IMAGE, "pool": "fast"})
    assert (row.cluster_key, row.pool, row.environment) == ("gpu", "fast", "")


def test_of_a_machine_and_a_cluster_what_is_said_decides(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach(monkeypatch)
    places = [
        services.workload_plan(**asked, said=said).row.cluster_key
        for said in (COMMAND, {"image": IMAGE}, {**COMMAND, "shm_mib": 64, "image": IMAGE})
    ]
    assert places == ["local", "gpu", "gpu"]


def test_an_image_that_cannot_work_is_refused_and_a_good_one_is_pinned(
    cluster: Any, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    from work.services import launch

    def good(**question: Any) -> Any:
        assert (question["kind"], question["right"]) == ("job", JOB.create)
        if "bad" in question["reference"]:
            raise Invalid("No.", fields={"image": ["No."]})
        return SimpleNamespace(digest=f"sha256:{len(question['reference']):064x}")

    monkeypatch.setattr(launch, "require_good", good)
    row = services.workload_create(**asked, said={"image": IMAGE})
    assert row.image_digest == f"sha256:{len(IMAGE):064x}"
    with pytest.raises(Invalid):
        services.workload_create(**asked, said={"image": "bad"})
    Job.objects.filter(pk=row.pk).update(desired="stopped", phase="stopped")
    row = services.workload_edit(
        principal=asked["principal"], row=row, said={"image": f"{IMAGE}.1"}
    )
    assert row.image_digest == f"sha256:{len(IMAGE) + 2:064x}"


def test_a_machine_gives_its_first_environment_and_no_other(asked: dict[str, Any]) -> None:
    assert services.workload_create(**asked, said=COMMAND).environment == "jupyterlab"
    with pytest.raises(Invalid) as refused:
        services.workload_create(**asked, said={**COMMAND, "environment": "../etc"})
    assert list(refused.value.fields) == ["environment"]


@pytest.mark.parametrize("code", [0, 3])
def test_what_ended_is_not_stopped_and_starts_again_as_new(
    code: int, ran: Ran, asked: dict[str, Any], settle: Any
) -> None:
    row, me = ran(code), asked["principal"]
    before = state_of(row)
    assert not held(row)
    with pytest.raises(Conflict) as refused:
        services.workload_stop(principal=me, row=row)
    assert refused.value.code == "not-running"
    row.refresh_from_db()
    assert (state_of(row), row.exit_code) == (before, code)
    row = services.workload_start(principal=me, row=row)
    assert (row.launch, row.exit_code, row.failed_replica, row.finished_at) == (2, None, None, None)
    assert state_of(row) == "queued"
    assert held(row)["cpu_milli"] == row.cpu_milli
    assert state_of(settle(row)) == "running"


def test_what_ended_stays_as_it_ended_when_its_project_or_owner_goes(
    ran: Ran, alice: Any, settle: Any
) -> None:
    from accounts import hooks as accounts

    row = ran(0)
    accounts.user_disabled(alice, None)
    assert state_of(settle(row)) == "succeeded"


def test_what_runs_changes_its_name_and_its_time_only(ran: Ran, asked: dict[str, Any]) -> None:
    row, me = ran(None), asked["principal"]
    for said in ({"command": ["true"]}, {"replicas": 2}, {"env": {"A": "1"}}, {"volumes": []}):
        plan = services.workload_plan(**asked, said=said, row=row)
        with pytest.raises(Conflict) as refused:
            services.workload_edit(principal=me, row=row, said=said)
        assert (refused.value.code, plan.allowed) == ("running", False)
        assert plan.refusal == refused.value.message
    row = services.workload_edit(principal=me, row=row, said={"name": "b", "time_limit_minutes": 9})
    assert (row.name, row.launch, row.time_limit_minutes) == ("b", 1, 9)


def test_what_ended_changes_for_its_next_start(ran: Ran, asked: dict[str, Any]) -> None:
    row = ran(1)
    said = {"command": ["python", "better.py"], "volumes": []}
    plan = services.workload_plan(**asked, said=said, row=row)
    assert (plan.action, plan.starts, plan.decision, plan.allowed) == ("update", False, None, True)
    row = services.workload_edit(principal=asked["principal"], row=row, said=said)
    assert (state_of(row), row.launch, row.command[1]) == ("failed", 1, "better.py")
    assert not row.mounts.exists()
    assert not held(row)


def test_a_volume_in_use_is_held_and_let_go(ran: Ran, asked: dict[str, Any], settle: Any) -> None:
    from volumes import references

    row = ran(None)
    volume = row.mounts.get().volume
    assert [holder.name for holder in references.holders_of(volume)] == [row.name]
    services.workload_stop(principal=asked["principal"], row=row)
    settle(row)
    assert not references.in_use(volume)


def test_d13_a_credential_that_goes_wakes_who_has_it(ran: Ran, project: Any, asked: Any) -> None:
    from credentials import references
    from credentials.services import Label, credential_add

    key = credential_add(
        principal=asked["principal"],
        project=project,
        kind="s3",
        label=Label("bucket"),
        fields={
            "access_key": "AKIAIOSFODNN7EXAMPLE",
            "secret_key": "s" * 40,
            "region": "eu-west-1",
        },
    )
    row = ran(None, credentials=["bucket"])
    assert [(one.kind, one.uid) for one in references.of(key)] == [("job", row.uid)]


@pytest.mark.parametrize(
    ("said", "there", "field", "words"),
    [
        ({"framework": "mpi"}, ["jobset"], "framework", "MPI needs mpi-operator on this cluster"),
        (
            {"framework": "tensorflow", "parameter_servers": 1},
            ["trainer"],
            "parameter_servers",
            "Parameter servers and an evaluator need JobSet or the training operator",
        ),
        (
            {"framework": "tensorflow", "replicas": 2, "evaluator": True},
            [],
            "evaluator",
            "need JobSet",
        ),
        ({"framework": "tensorflow", "evaluator": True}, ["jobset"], "evaluator", "one of two"),
        ({"parameter_servers": 1}, ["jobset"], "parameter_servers", "Only TensorFlow"),
        ({"framework": "mpi", "command": []}, ["mpi"], "command", "MPI needs the command"),
    ],
)
def test_what_lacks_an_operator_there_is_refused_before_it_is_submitted(
    asked: dict[str, Any],
    cluster: Any,
    said: dict[str, Any],
    there: list[str],
    field: str,
    words: str,
) -> None:
    cluster.operators = there
    cluster.save()
    with pytest.raises(Invalid) as refused:
        services.workload_create(**asked, said=COMMAND | {"image": IMAGE} | said)
    assert words in refused.value.fields[field][0]


def test_without_the_trainer_pytorch_is_an_indexed_job_and_with_it_a_trainjob(
    asked: dict[str, Any], cluster: Any, settle: Any
) -> None:
    said = COMMAND | {"image": IMAGE, "framework": "pytorch", "replicas": 2}
    row = services.workload_create(**asked, said=said)
    for there, operator in (([], ""), (["trainer"], "trainer")):
        cluster.operators, cluster.revision = there, cluster.revision + 1
        cluster.save()
        registry.forget(row.cluster_key)
        spec = workload_spec(Job.objects.get(pk=row.pk))
        assert (spec.operator, [group.role for group in spec.groups]) == (
            operator,
            ["master", "worker"],
        )


def test_on_one_machine_mpi_needs_mpirun_and_has_the_room_of_all_slots(
    asked: dict[str, Any], ran: Ran
) -> None:
    said: dict[str, Any] = {"framework": "mpi", "replicas": 3, "cpu_milli": 500, "memory_mib": 256}
    with pytest.raises(Invalid) as refused:
        ran(None, **said)
    assert "openmpi-bin" in refused.value.fields["framework"][0]
    Cluster.objects.update(operators=["mpi"])
    spec = workload_spec(ran(None, **said))
    assert spec.command[:5] == ("mpirun", "-n", "3", "--host", "localhost:3")
    assert (spec.replicas, spec.resources.cpu_milli) == (1, 1500)


def test_which_packages_come_along_to_a_cluster_is_said_before_the_start(
    cluster: Any, asked: dict[str, Any]
) -> None:
    said = {"name": "t", "command": ["python3", "x"], "image": IMAGE}
    row = services.workload_plan(**asked, said=said).row
    assert not [one for one in JOB.remarks(row, Attached()) if "Packages" in one]
    row.made_in = "desk"
    (told,) = (one for one in JOB.remarks(row, Attached()) if "Packages" in one)
    assert "What was installed elsewhere in the workspace's pod does not" in told


@pytest.mark.parametrize(("code", "is_fresh"), [(0, True), (3, False)])
def test_after_a_run_that_ended_well_the_next_begins_afresh_and_any_other_is_gone_on_with(
    ran: Ran, principal: Any, alice: Any, code: int, is_fresh: bool
) -> None:
    row = ran(code)
    assert workload_spec(row).checkpoints_since == 0
    before = time.time_ns()
    row = services.workload_start(principal=principal(alice), row=row)
    assert (workload_spec(row).checkpoints_since >= before) is is_fresh
