"""How large a job is, with all its replicas, and where it can run: limits, pools, operators."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import registry
from clusters.models import Cluster
from common.errors import Conflict, Invalid, LimitExceeded
from jobs.models import Job
from jobs.runtime_spec import workload_spec
from quotas.models import Limit, Reservation
from tests.notebooks.cluster_world import IMAGE, attach, pool
from work import services
from work.ui.sizes import whole_size_words

pytestmark = pytest.mark.django_db
COMMAND = {"command": ["python", "train.py"]}


def test_limits_count_every_replica(asked: dict[str, Any], ran: Any, project: Any) -> None:
    row = ran(None, replicas=3, cpu_milli=500, memory_mib=256)
    held = Reservation.objects.filter(workload_uid=row.uid).values_list("resource", "amount")
    assert dict(held) == {"cpu_milli": 1500, "memory_mib": 768}
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


def test_a_machine_gives_its_first_environment_and_no_other(asked: dict[str, Any]) -> None:
    assert services.workload_create(**asked, said=COMMAND).environment == "jupyterlab"
    with pytest.raises(Invalid) as refused:
        services.workload_create(**asked, said={**COMMAND, "environment": "../etc"})
    assert list(refused.value.fields) == ["environment"]


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
        (
            {"framework": "tensorflow", "evaluator": True},
            ["jobset"],
            "evaluator",
            "the last of two",
        ),
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
    asked: dict[str, Any], ran: Any
) -> None:
    said: dict[str, Any] = {"framework": "mpi", "replicas": 3, "cpu_milli": 500, "memory_mib": 256}
    with pytest.raises(Invalid) as refused:
        ran(None, **said)
    assert "openmpi-bin" in refused.value.fields["framework"][0]
    Cluster.objects.update(operators=["mpi"])
    spec = workload_spec(ran(None, **said))
    assert spec.command[:5] == ("mpirun", "-n", "3", "--host", "localhost:3")
    assert (spec.replicas, spec.resources.cpu_milli) == (1, 1500)
