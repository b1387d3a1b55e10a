"""Documents of jobs: applied once, applied again, and what they do not tell."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import Forbidden, Invalid, NotFound
from jobs.models import Job
from jobs.states import state_of
from runtime.hints import hint
from work import services

pytestmark = pytest.mark.django_db


def document(name: str = "train", project: str = "vision", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "berth.dev/v1",
        "kind": "Job",
        "metadata": {"name": name, "project": project},
        "spec": {"command": ["python", "train.py"], **spec},
    }


def test_a_document_is_applied_once(asked: dict[str, Any], settle: Any) -> None:
    plan = services.manifest_plan(**asked, document=document(replicas=2))
    assert (plan.action, plan.name, plan.starts) == ("create", "train", True)
    row = services.manifest_apply(**asked, document=document(replicas=2))
    assert (row.name, row.replicas, row.launch) == ("train", 2, 1)
    assert services.manifest_apply(**asked, document=document(replicas=2)).launch == 1
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("code", "changes", "launches"), [(0, {}, 1), (0, {"retries": 2}, 2), (1, {}, 2)]
)
def test_applied_to_one_that_ended_it_runs_what_is_new_or_failed(
    code: int, changes: Any, launches: int, asked: dict[str, Any], settle: Any, fake: Any
) -> None:
    """What has succeeded is not done twice because its document is applied twice."""
    row = settle(services.manifest_apply(**asked, document=document()))
    fake.exit(str(row.uid), code=code)
    hint(row)
    settle(row)
    plan = services.manifest_plan(**asked, document=document(**changes))
    assert plan.starts == (launches == 2)
    assert (plan.decision is not None) == plan.starts
    again = services.manifest_apply(**asked, document=document(**changes))
    assert again.launch == launches
    assert state_of(again) == ("queued" if launches == 2 else "succeeded")


def test_what_cannot_start_again_is_not_changed_either(
    asked: dict[str, Any], settle: Any, fake: Any, project: Any
) -> None:
    from common.errors import LimitExceeded
    from quotas.models import Limit

    row = settle(services.manifest_apply(**asked, document=document()))
    fake.exit(str(row.uid), code=1)
    hint(row)
    settle(row)
    Limit.objects.create(project=project, resource="cpu_milli", amount=4000)
    with pytest.raises(LimitExceeded):
        services.manifest_apply(**asked, document=document(replicas=8))
    row.refresh_from_db()
    assert (row.replicas, row.launch, state_of(row)) == (1, 1, "failed")


def test_null_is_no_time_limit_and_says_so(asked: dict[str, Any]) -> None:
    row = services.manifest_apply(**asked, document=document(time_limit_minutes=30))
    assert services.manifest_of(row, private=True)["spec"]["time_limit_minutes"] == 30
    row = services.manifest_apply(**asked, document=document(time_limit_minutes=None))
    assert row.time_limit_minutes is None
    assert services.manifest_of(row, private=True)["spec"]["time_limit_minutes"] is None


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (document(color="red"), "spec.color"),
        (document(replicas="2"), "spec.replicas"),
        (document(replicas=0), "replicas"),
        (document(replicas=65), "replicas"),
        (document(project="other"), "metadata.project"),
        (document(name=""), "name"),
        (document(env={"LD_PRELOAD": "/tmp/x.so"}), "env"),
        (document() | {"kind": "Workspace"}, "kind"),
        ({"spec": []}, "apiVersion"),
        ("kind: Job", "document"),
    ],
)
def test_a_wrong_document_is_refused_by_the_name_of_what_is_wrong(
    said: Any, field: str, asked: dict[str, Any]
) -> None:
    for door in (services.manifest_plan, services.manifest_apply):
        with pytest.raises(Invalid) as refused:
            door(**asked, document=said)
        assert list(refused.value.fields) == [field]
    assert not Job.objects.exists()


def test_a_name_of_somebody_else_is_theirs(
    asked: dict[str, Any], principal: Any, bob: Any, charlie: Any
) -> None:
    """Their document, or one of that name, changes nothing and tells nothing of what is private."""
    row = services.manifest_apply(**asked, document=document(env={"TOKEN": "s3cret"}))
    for who, error in ((bob, Forbidden), (charlie, NotFound)):
        for door in (services.manifest_plan, services.manifest_apply):
            with pytest.raises(error):
                door(**asked | {"principal": principal(who)}, document=document(args=["--x"]))
    told = services.manifest_of(row, private=False)["spec"]
    assert {"command", "args", "env"}.isdisjoint(told)
