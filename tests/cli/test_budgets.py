"""Budgets and what was used, from a terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from budgets.models import Budget
from clusters.models import Flavor
from common.clock import now
from tests.cli.conftest import read
from usage.models import Interval

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def used(transactional_db: None, project: Any, bob: Any) -> None:
    Flavor.objects.create(name="h100", label="H100", price_per_hour=2)
    Interval.objects.create(
        uid=uuid4(),
        launch=1,
        kind="job",
        project_uid=project.uid,
        project_slug=project.slug,
        owner_uid=bob.uid,
        owner_name=bob.username,
        cluster_key="local",
        gpus=4,
        flavor="h100",
        started_at=now() - timedelta(hours=2),
        ended_at=now() - timedelta(hours=1),
    )


def test_an_operator_sets_one_and_sets_it_again(
    berth: Run, operator: Any, bob: Any, token_of: Callable[[Any], str]
) -> None:
    me = {"token": token_of(operator)}
    said = ("-p", "vision", "budgets", "set", "100")
    made = berth(*said, "--hard", **me)
    assert made.exit_code == 0, made.output
    assert "4.0 of 100" in made.output
    berth("-p", "vision", "budgets", "set", "50", "--days", "7", "--stops", **me)
    berth("-p", "vision", "budgets", "set", "10", "--user", "bob", **me)
    kept = list(Budget.objects.order_by("pk").values_list("hours", "days", "mode", "stops"))
    assert kept == [(50, 7, "hard", True), (10, 30, "soft", False)]
    mine = read(berth("-p", "vision", "budgets", "list", "-o", "json", token=token_of(bob)))
    assert [row["percent"] for row in mine] == [8, 40]
    every = read(berth("budgets", "list", "--all", "-o", "json", **me))
    assert berth("budgets", "delete", every[0]["id"], **me).exit_code == 0
    assert Budget.objects.count() == 1
    denied = berth("-p", "vision", "budgets", "set", "9", token=token_of(bob))
    assert denied.exit_code != 0


def test_what_was_used_is_shown_and_told_as_csv(
    berth: Run, bob: Any, token_of: Callable[[Any], str]
) -> None:
    me = {"token": token_of(bob)}
    shown = berth("-p", "vision", "usage", **me)
    assert shown.exit_code == 0, shown.output
    assert "4.00" in shown.output
    assert "8.00" in shown.output
    lines = berth("-p", "vision", "usage", "--csv", **me).output.lstrip("\ufeff").splitlines()
    assert lines[0].startswith("month,project,owner,gpu_kind,gpu_hours")
    assert len(lines) == 2
    each = berth("-p", "vision", "usage", "--csv", "--intervals", **me).output
    assert "gpu_hours_in_span" in each
    assert berth("-p", "vision", "usage", "--intervals", **me).exit_code != 0


def test_ratios_and_losses_are_shown_and_told_as_csv(
    berth: Run, bob: Any, operator: Any, token_of: Callable[[Any], str]
) -> None:
    me, all_of = {"token": token_of(bob)}, {"token": token_of(operator)}
    shown = berth("-p", "vision", "usage", "ratios", "--by", "flavor", **me)
    assert shown.exit_code == 0, shown.output
    assert "now" in shown.output
    head = berth("-p", "vision", "usage", "ratios", "--csv", "--month", **me).output
    assert head.lstrip("\ufeff").startswith("from,group,supply_gpu_hours")
    assert berth("usage", "waste", "--all", **all_of).exit_code == 0
    assert read(berth("usage", "waste", "--all", "-o", "json", **all_of))["losses"] == []
    assert berth("usage", "waste", "--all", **me).exit_code != 0
    lost = berth("-p", "vision", "usage", "waste", "--csv", **me).output
    assert lost.lstrip("\ufeff").startswith("cause,owner,gpu_hours")
