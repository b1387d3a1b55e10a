"""What is particular to jobs in the services of every kind: images, folders, a row that ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from common.errors import Conflict, Invalid
from jobs import replicas
from jobs.kind import JOB
from jobs.models import Job
from jobs.runtime_spec import workload_spec
from jobs.states import state_of
from quotas.models import Reservation
from runtime.protocol import Observation, ReplicaSeen, Seen
from tests.notebooks.cluster_world import IMAGE
from volumes.models import Volume
from work import services
from work.attached import Attached

pytestmark = pytest.mark.django_db
COMMAND = {"command": ["python", "train.py"]}


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


@pytest.mark.parametrize("code", [0, 3])
def test_what_ended_is_not_stopped_and_starts_again_as_new(
    code: int, ran: Any, asked: dict[str, Any], settle: Any
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
    ran: Any, alice: Any, settle: Any
) -> None:
    from accounts import hooks as accounts

    row = ran(0)
    accounts.user_disabled(alice, None)
    assert state_of(settle(row)) == "succeeded"


def test_what_runs_changes_its_name_and_its_time_only(ran: Any, asked: dict[str, Any]) -> None:
    row, me = ran(None), asked["principal"]
    for said in ({"command": ["true"]}, {"replicas": 2}, {"env": {"A": "1"}}, {"volumes": []}):
        plan = services.workload_plan(**asked, said=said, row=row)
        with pytest.raises(Conflict) as refused:
            services.workload_edit(principal=me, row=row, said=said)
        assert (refused.value.code, plan.allowed) == ("running", False)
        assert plan.refusal == refused.value.message
    row = services.workload_edit(principal=me, row=row, said={"name": "b", "time_limit_minutes": 9})
    assert (row.name, row.launch, row.time_limit_minutes) == ("b", 1, 9)


def test_what_ended_changes_for_its_next_start(ran: Any, asked: dict[str, Any]) -> None:
    row = ran(1)
    said = {"command": ["python", "better.py"], "volumes": []}
    plan = services.workload_plan(**asked, said=said, row=row)
    assert (plan.action, plan.starts, plan.decision, plan.allowed) == ("update", False, None, True)
    row = services.workload_edit(principal=asked["principal"], row=row, said=said)
    assert (state_of(row), row.launch, row.command[1]) == ("failed", 1, "better.py")
    assert not row.mounts.exists()
    assert not held(row)


def test_a_volume_in_use_is_held_and_let_go(ran: Any, asked: dict[str, Any], settle: Any) -> None:
    from volumes import references

    row = ran(None)
    volume = row.mounts.get().volume
    assert [holder.name for holder in references.holders_of(volume)] == [row.name]
    services.workload_stop(principal=asked["principal"], row=row)
    settle(row)
    assert not references.in_use(volume)


def test_d13_a_credential_that_goes_wakes_who_has_it(ran: Any, project: Any, asked: Any) -> None:
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
    ran: Any, principal: Any, alice: Any, code: int, is_fresh: bool
) -> None:
    row = ran(code)
    assert workload_spec(row).checkpoints_since == 0
    before = time.time_ns()
    row = services.workload_start(principal=principal(alice), row=row)
    assert (workload_spec(row).checkpoints_since >= before) is is_fresh
