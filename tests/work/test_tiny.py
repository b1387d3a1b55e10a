"""The least kind of work: its own field goes through every door, and a running one restarts."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import Invalid
from quotas.models import Reservation
from runtime.reconcilers import reconciler_for
from work import selectors, services
from work.api.serializers import serializer_in
from work.ui.forms import WorkForm

pytestmark = pytest.mark.django_db


@pytest.fixture
def kind(tiny: Any) -> Any:
    return tiny


def test_its_field_goes_through_document_plan_form_api_and_the_machine(
    make: Any, kind: Any, project: Any, principal: Any, alice: Any
) -> None:
    row = make(alice, color="blue")
    assert reconciler_for("tiny").spec_of(row).command == ("paint", "blue")
    document = services.manifest_of(row, private=False)
    assert document["spec"]["color"] == "blue"
    document["spec"]["color"] = "red"
    plan = services.manifest_plan(
        principal=principal(alice), project=project, kind=kind, document=document
    )
    assert [(one.field, one.before, one.after) for one in plan.changes] == [
        ("color", "blue", "red")
    ]
    assert plan.restarts
    form = WorkForm(
        {"color": "blue"},
        table=kind.table,
        offers=selectors.offers_for(principal(alice), project, kind),
        values={},
    )
    assert (form.is_valid(), form.said()["color"]) == (True, "blue")
    asked = serializer_in("TinyIn", kind.table)(data={"color": "green"})
    assert (asked.is_valid(), list(asked.errors)) == (False, ["color"])


def test_an_edit_restarts_what_runs_only_where_its_process_must_know(
    make: Any, principal: Any, settle: Any, alice: Any
) -> None:
    row, me = make(alice), principal(alice)
    row = services.workload_edit(principal=me, row=row, said={"time_limit_minutes": 5})
    assert (settle(row).launch, row.time_limit_minutes) == (1, 5)
    row = settle(
        services.workload_edit(principal=me, row=row, said={"color": "blue", "cpu_milli": 3000})
    )
    assert (row.launch, row.phase, row.color) == (2, "running", "blue")
    held = Reservation.objects.filter(workload_uid=row.uid, resource="cpu_milli")
    assert held.get().amount == 3000
    same = services.workload_edit(principal=me, row=row, said={"color": "blue", "name": row.name})
    assert (same.launch, same.generation) == (2, row.generation)


def test_its_cluster_is_chosen_once(make: Any, principal: Any, alice: Any) -> None:
    row = make(alice)
    with pytest.raises(Invalid) as refused:
        services.workload_edit(principal=principal(alice), row=row, said={"cluster": "other"})
    assert list(refused.value.fields) == ["cluster"]
    said = {"cluster": row.cluster_key}
    assert services.workload_edit(principal=principal(alice), row=row, said=said).launch == 1
