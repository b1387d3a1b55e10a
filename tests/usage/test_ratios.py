"""Three ratios of GPUs, and what was lost, now and over time: page, API and CSV say the same."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clusters import services as clusters
from clusters.models import Flavor
from common.clock import now
from metrics.models import DeviceReading, Sample
from runtime.protocol import Device
from tests.support.workspaces import workspace_stop
from usage import closing, node_days, ratio_history, ratios
from usage.models import CapacityHour, Interval, LedgerDay, Wait
from usage.ratios import By, Scope
from usage.selectors import Range

pytestmark = pytest.mark.django_db
OF_WORK = [by for by in By if by != By.NODE]
DAY = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.fixture
def machine(world: Any) -> Any:
    """Ten GPUs of one kind."""
    Flavor.objects.create(name="h100-80", label="H100 80 GB", match="h100", price_per_hour=4)
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(10)])
    cluster = clusters.ensure_local_cluster()
    return clusters.health_store(key=cluster.key, health=fake.probe())


def measured(row: Any, percent: float) -> None:
    Sample.objects.create(uid=row.uid, at=now(), gpu_utilisation=percent)


def asked_for_twelve(machine: Any, launch: Any, settle: Any, alice: Any) -> list[Any]:
    """Of ten GPUs eight are held, at 20 and at 40 percent, and work for four waits."""
    rows = [settle(launch(alice, name=f"w{n}", gpus=4, gpu_flavor="h100-80")) for n in range(3)]
    assert [row.phase for row in rows] == ["running", "running", "pending"]
    measured(rows[0], 20)
    measured(rows[1], 40)
    return rows


def test_c31_ten_gpus_twelve_requested_eight_attached_a_mean_of_thirty_percent(
    machine: Any, launch: Any, settle: Any, alice: Any, auditor: Any, as_user: Any
) -> None:
    asked_for_twelve(machine, launch, settle, alice)
    for client, url in (
        (as_user(auditor), "/api/v1/ratios"),
        (as_user(alice), "/api/v1/projects/vision/ratios"),
    ):
        for by in OF_WORK:
            told = client.get(f"{url}?by={by}").json()["now"]
            total = told["total"]
            assert (total["supply"], total["requested"], total["attached"]) == (10, 12, 8)
            shares = (total["requested_ratio"], total["attached_ratio"], total["utilisation"])
            assert shares == pytest.approx((1.2, 0.8, 0.3))
            (group,) = told["groups"]
            assert group["ratio"] == total
    labels = [
        as_user(auditor).get(f"/api/v1/ratios?by={by}").json()["now"]["groups"][0]["label"]
        for by in OF_WORK
    ]
    assert labels == ["vision", "alice", "h100-80", "workspace", "local"]


def test_c31_what_was_not_measured_is_unknown_and_never_zero(
    machine: Any, launch: Any, settle: Any, alice: Any, as_user: Any, principal: Any
) -> None:
    rows = asked_for_twelve(machine, launch, settle, alice)
    Sample.objects.filter(uid=rows[1].uid).delete()
    total, _groups = ratios.at_present(Scope())
    assert (total.utilisation, total.known) == (pytest.approx(0.2), 0.5)
    Sample.objects.all().delete()
    told = as_user(alice).get("/api/v1/projects/vision/ratios").json()["now"]["total"]
    assert told["utilisation"] is None
    workspace_stop(principal=principal(alice), workspace=rows[2])  # its wish is withdrawn
    settle(rows[2])
    assert ratios.at_present(Scope())[0].requested_ratio == 0.8


def test_without_supply_no_ratio_is_told(db: None) -> None:
    total, groups = ratios.at_present(Scope())
    assert (total.requested_ratio, total.attached_ratio, total.utilisation) == (None, None, None)
    assert groups == []


def test_strangers_and_members_see_only_what_is_theirs(
    machine: Any, launch: Any, settle: Any, alice: Any, charlie: Any, as_user: Any
) -> None:
    asked_for_twelve(machine, launch, settle, alice)
    for word in ("ratios", "waste", "ratios.csv", "waste.csv"):
        assert as_user(alice).get(f"/api/v1/{word}").status_code == 403
        assert as_user(alice).get(f"/api/v1/projects/vision/{word}").status_code == 200
        assert as_user(charlie).get(f"/api/v1/projects/vision/{word}").status_code == 404
    assert as_user(alice).get("/api/v1/projects/vision/ratios?by=node%00").status_code == 400


# --- over time ------------------------------------------------------------------------------------


@pytest.fixture
def week(project: Any, alice: Any, bob: Any) -> Range:
    """Three days: alice holds four of eight GPUs, bob two for a day while two wait for him."""
    Flavor.objects.create(name="h100-80", label="H100 80 GB", price_per_hour=Decimal("2.50"))

    def dims(who: Any, n: int) -> dict[str, Any]:
        return {
            "uid": UUID(int=n),
            "launch": 1,
            "kind": "workspace",
            "project_uid": project.uid,
            "project_slug": project.slug,
            "owner_uid": who.uid,
            "owner_name": who.username,
            "cluster_key": "local",
            "flavor": "h100-80",
        }

    def held(who: Any, n: int, begin: float, end: float, gpus: int) -> None:
        at = DAY + timedelta(hours=begin)
        marks = [[round(at.timestamp() * 1000), "run"]]
        Interval.objects.create(
            **dims(who, n),
            gpus=gpus,
            placed_at=at,
            started_at=at,
            ready_at=at,
            ended_at=DAY + timedelta(hours=end),
            marks=marks,
        )

    held(alice, 1, 0, 72, 4)
    held(bob, 2, 24, 48, 2)
    Wait.objects.create(
        **dims(bob, 3), gpus=2, began_at=DAY + timedelta(hours=24), ended_at=DAY + timedelta(days=2)
    )
    for n in range(72):
        at = DAY + timedelta(hours=n)
        CapacityHour.objects.create(
            cluster_key="local", flavor="h100-80", hour=at, samples=1, supply=8, out=1
        )
    with time_machine.travel(DAY + timedelta(hours=40), tick=False):
        closing.close_due(most=100)
    with time_machine.travel(DAY + timedelta(days=3, hours=1), tick=False):
        closing.close_due(most=100)
    return Range(DAY, DAY + timedelta(days=4))


SPAN = "since=2026-11-02&until=2026-11-05"


def test_c31_history_by_project_person_kind_of_gpu_and_kind_of_work(
    week: Range, alice: Any, auditor: Any, as_user: Any
) -> None:
    told = as_user(auditor).get(f"/api/v1/ratios?{SPAN}").json()
    assert [step["ratio"]["attached_ratio"] for step in told["steps"]] == [0.5, 0.75, 0.5]
    assert [step["ratio"]["requested_ratio"] for step in told["steps"]] == [0.5, 1.0, 0.5]
    assert told["total"]["utilisation"] is None
    found = {
        by: {
            g["label"]: g["ratio"]["attached"] / 3600
            for g in as_user(alice)
            .get(f"/api/v1/projects/vision/ratios?{SPAN}&by={by}")
            .json()["groups"]
        }
        for by in OF_WORK
    }
    whole = 4 * 72 + 2 * 24
    assert found[By.PERSON] == {"alice": 4 * 72, "bob": 2 * 24}
    assert found[By.PROJECT] == {"vision": whole}
    assert found[By.FLAVOR] == {"h100-80": whole}
    assert found[By.KIND] == {"workspace": whole}
    assert found[By.CLUSTER] == {"local": whole}
    mine = ratio_history.history(Scope(owner_uid=alice.uid), week, By.FLAVOR)
    assert (mine.total.attached / 3600, mine.total.supply / 3600) == (4 * 72, 8 * 72)


def test_short_spans_are_told_by_the_hour(week: Range, alice: Any, as_user: Any) -> None:
    span = "since=2026-11-02T22:00:00Z&until=2026-11-03T02:00:00Z"
    told = as_user(alice).get(f"/api/v1/projects/vision/ratios?{span}").json()
    assert told["step_seconds"] == 3600
    assert [step["ratio"]["attached"] / 3600 for step in told["steps"]] == [4, 4, 6, 6]


def test_waste_has_a_cause_an_owner_and_a_price_and_adds_up(
    week: Range, auditor: Any, alice: Any, as_user: Any
) -> None:
    told = as_user(auditor).get(f"/api/v1/waste?{SPAN}").json()
    causes = told["causes"]
    kept = causes["fragmented"] + causes["held_back"] + causes["unasked"]
    assert told["supply_gpu_hours"] == told["attached_gpu_hours"] + kept == 8 * 72
    assert causes["unknown"] == told["attached_gpu_hours"]  # nothing was measured
    lost = {(row["cause"], row["owner"]): row for row in told["losses"]}
    assert lost["unasked", ""]["gpu_hours"] == 8 * 72 - (4 * 72 + 2 * 24)
    assert lost["unasked", ""]["cost"] == "600.00"
    assert lost["out", ""]["gpu_hours"] == 72
    assert as_user(alice).get(f"/api/v1/projects/vision/waste?{SPAN}").json()["losses"] == []


def test_c31_the_monthly_csv_has_each_group_and_the_whole(
    week: Range, auditor: Any, as_user: Any
) -> None:
    def lines(address: str) -> list[dict[str, str]]:
        text = as_user(auditor).get(address).getvalue().decode("utf-8-sig")
        return list(csv.DictReader(io.StringIO(text)))

    monthly = lines(f"/api/v1/ratios.csv?{SPAN}&step=month&by=person")
    assert [(r["from"], r["group"], r["attached_gpu_hours"]) for r in monthly] == [
        ("2026-11", "*", "336.0"),
        ("2026-11", "alice", "288.0"),
        ("2026-11", "bob", "48.0"),
    ]
    assert (monthly[0]["requested_percent"], monthly[0]["utilised_percent"]) == ("66.67", "")
    assert len(lines(f"/api/v1/ratios.csv?{SPAN}")) == 2 * 3
    waste = lines(f"/api/v1/waste.csv?{SPAN}")
    assert {row["cause"] for row in waste} == {"unasked", "out"}


@pytest.mark.parametrize("by", list(By))
def test_a_dashboard_asks_the_same_of_one_day_and_of_many_projects(week: Range, by: By) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            ratio_history.history(Scope(), week, by, drawn=True)
        return len(seen)

    few = count()
    rows = list(LedgerDay.objects.all())
    for n in range(1, 40):
        for row in rows:
            row.pk = None
            row.day = row.day + timedelta(days=1) if n % 10 == 0 else row.day
            row.project_uid = row.project_uid and UUID(int=n)
            row.owner_uid = row.owner_uid and UUID(int=100 + n)
        LedgerDay.objects.bulk_create(rows)
    assert count() == few <= 8


def test_c31_by_node_as_it_is_and_over_days(
    machine: Any, launch: Any, settle: Any, alice: Any, auditor: Any, as_user: Any
) -> None:
    """Two nodes and the machine; what is out, old or held by others counts as what it is."""
    launch(alice)  # so that there is a project to ask about
    at = DAY + timedelta(days=1, hours=12)
    held = {"uid": UUID(int=1), "seen_at": at, "at": at}
    rows = [
        ("east", "n1", {**held, "utilisation": 50}),
        ("east", "n1", {**held, "utilisation": None}),
        ("east", "n1", {"seen_at": at}),
        ("east", "n2", {"seen_at": at, "healthy": False}),
        ("east", "n2", {"seen_at": at, "foreign": True}),
        ("east", "n2", {**held, "utilisation": 90, "at": at - timedelta(hours=1)}),
        ("east", "gone", {"seen_at": at - timedelta(hours=1)}),
        ("local", "", {**held, "utilisation": 10}),
    ]
    LedgerDay.objects.create(day=at.date(), grain=0, cluster_key="east", supply=3 * 86_400)
    DeviceReading.objects.all().delete()
    for n, (key, node, values) in enumerate(rows):
        DeviceReading.objects.create(cluster_key=key, node=node, device=f"d{n}", **values)
    with time_machine.travel(at, tick=False):
        told = as_user(auditor).get("/api/v1/ratios?by=node").json()["now"]["groups"]
        assert node_days.sample() == node_days.sample() == 3  # the second finds no time passed
        url = "/api/v1/ratios?by=node&since=2026-11-03&until=2026-11-03"
        days = as_user(auditor).get(url).json()
        lines = as_user(auditor).get(url.replace("ratios?", "ratios.csv?"))
        page = as_user(auditor).get("/usage/all?by=node&since=2026-11-03")
        refused = as_user(alice).get("/api/v1/projects/vision/ratios?by=node")
        metrics = Client().get("/metrics").content
    seen = {
        one["label"]: tuple(one["ratio"][k] for k in ("supply", "attached", "measured"))
        for one in told
    }
    assert seen == {"east/n1": (3, 2, 1), "east/n2": (1, 1, 0), "local": (1, 1, 1)}
    shares = {one["label"]: one["ratio"]["utilisation"] for one in told}
    assert shares == {"east/n1": 0.5, "east/n2": None, "local": 0.1}
    past = {one["label"]: one["ratio"] for one in days["groups"]}
    assert past["east/n1"]["attached"] == 2 * 900
    assert past["east/n1"]["utilisation"] == 0.5
    assert (days["step_seconds"], past["east/n2"]["utilisation"]) == (86_400, None)
    text = b"".join(lines.streaming_content).decode()
    assert "2026-11-03,east/n1,0.75,0.5,0.5,0.25,0.125,66.67,66.67,50.0" in text
    assert "east/n2" in page.content.decode()
    assert refused.status_code == 400
    assert b'berth_node_gpus_attached{cluster="east",node="n1"} 2.0' in metrics
    assert b'berth_node_gpu_utilisation_ratio{cluster="east",node="n2"}' not in metrics
