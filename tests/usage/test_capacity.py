"""A15: what there was of each kind, what was held of it, and what was waited for, over time."""

import csv
import io
from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine

from clusters.models import Cluster
from clusters.services import nodes_store
from common.clock import now
from console.views.system import HEIGHT, chart
from runtime.capabilities.clusters import NodeChanges
from tests.clusters.fleet import fleet
from tests.engineapp.models import Thing
from usage import capacity
from usage.capacity import Day, Figures, Kind
from usage.models import CapacityHour, Grain, LedgerDay
from usage.selectors import Range

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 2, 12, 5, tzinfo=UTC)


@pytest.fixture
def cluster(db):
    made = Cluster.objects.create(key="east", name="East", driver="kubernetes")
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    return made


def thing(gpu_flavor, gpus, phase="running"):
    return Thing.objects.create(cluster_key="east", gpus=gpus, gpu_flavor=gpu_flavor, phase=phase)


def sample_at(moment):
    with time_machine.travel(moment, tick=False):
        capacity.sample()


def seen(days=90):
    with time_machine.travel(NOON + timedelta(days=7), tick=False):
        span = Range(now() - timedelta(days=days), now())
    return {(k.cluster, k.kind): k for k in capacity.report(span)}


def test_a15_what_was_used_of_what_was_held_is_the_ledgers_and_unknown_where_nobody_measured(
    cluster,
):
    thing("h100-80", 60)
    sample_at(NOON)
    sample_at(NOON + timedelta(days=1))
    assert seen()["east", "h100-80"].total.utilisation is None
    for measured, utilised in ((3000.0, 600.0), (1000.0, 600.0)):
        LedgerDay.objects.create(
            day=NOON.date(),
            grain=Grain.ALL,
            cluster_key="east",
            flavor="h100-80",
            measured=measured,
            utilised=utilised,
        )
    found = seen()["east", "h100-80"]
    assert [day.figures.utilisation for day in found.days] == [30.0, None]
    assert found.total.utilisation == 30.0
    assert next(capacity.csv_rows([found]))[-1] == 30.0


def test_a15_averages_and_peaks_of_a_day(cluster):
    thing("h100-80", 60)
    sample_at(NOON)
    waiting = thing("h100-80", 40, "pending")
    sample_at(NOON + timedelta(minutes=10))
    waiting.delete()
    sample_at(NOON + timedelta(hours=1))
    sample_at(NOON + timedelta(hours=1, minutes=10))
    found = seen()["east", "h100-80"]
    total = found.total
    assert (total.supply, total.attached, total.waiting) == (80, 60, 10)
    assert (total.requested, total.used) == (70, 0.75)
    assert (total.peak, total.peak_waiting, total.short) == (100, 40, 20)
    assert (total.hours_with_waiting, total.hours_seen) == (1, 2)
    assert [one.day.isoformat() for one in found.days] == ["2026-11-02"]
    t4 = seen()["east", "t4"].total
    assert (t4.supply, t4.attached, t4.short) == (11, 0, 0)


def test_a15_what_is_not_there_and_what_takes_any_kind_is_demand_too(cluster):
    sample_at(NOON)
    thing("b200", 8, "pending")
    thing("", 2, "pending")
    sample_at(NOON + timedelta(minutes=10))
    b200, anything = seen()["east", "b200"].total, seen()["east", ""].total
    assert (b200.supply, b200.waiting, b200.short) == (0, 4, 8)  # half of the time
    assert b200.used is None
    assert anything.peak_waiting == 2


def test_hours_outside_the_span_do_not_count_and_very_old_ones_are_forgotten(cluster):
    sample_at(NOON - timedelta(days=401))
    sample_at(NOON - timedelta(days=40))
    sample_at(NOON)
    assert seen(days=30)["east", "t4"].total.hours_seen == 1
    assert len(seen(days=90)["east", "t4"].days) == 2
    assert CapacityHour.objects.filter(flavor="t4").count() == 2


def test_one_machine_is_seen_too(db):
    from clusters import services
    from runtime.protocol import Device, Health

    local = services.ensure_local_cluster()
    device = Device(uuid="GPU-0", index=0, name="NVIDIA H100 80GB HBM3", memory_mib=80_000)
    services.health_store(key=local.key, health=Health(True, "1", 8000, 65536, (device,), {}))
    sample_at(NOON)
    (found,) = seen().values()
    assert (found.cluster, found.total.supply, found.total.attached) == ("local", 1, 0)


def body_kinds(client):
    return client.get("/api/v1/capacity").json()["kinds"]


def test_a15_page_api_and_csv_say_the_same_to_operators_and_auditors_only(
    cluster, as_user, operator, auditor, alice
):
    thing("h100-80", 60)
    thing("h100-80", 40, "pending")
    capacity.sample()
    for person in (operator, auditor):
        client = as_user(person)
        page = client.get("/console/capacity/")
        assert page.status_code == 200
        text = page.content.decode()
        assert "20 more would have been needed at the peak" in text
        assert text.count('href="?since=') == 2
        assert text.count('class="chart-waiting"') == len(body_kinds(client))  # one day of each
        kind = next(k for k in body_kinds(client) if k["kind"] == "h100-80")
        assert (kind["total"]["peak"], kind["days"][0]["figures"]["waiting"]) == (100, 40)
        for address in ("/api/v1/capacity.csv", "/console/capacity/?format=csv"):
            rows = csv.DictReader(io.StringIO(client.get(address).getvalue().decode("utf-8-sig")))
            row = next(r for r in rows if r["gpu_kind"] == "h100-80")
            assert (row["supply"], row["attached"], row["requested"]) == ("80.0", "60.0", "100.0")
    stranger = as_user(alice)
    for address in ("/console/capacity/", "/api/v1/capacity", "/api/v1/capacity.csv"):
        assert stranger.get(address).status_code in {403, 404}


def test_an_empty_page_says_when_something_will_be_seen(as_user, operator):
    text = as_user(operator).get("/console/capacity/").content.decode()
    assert "Nothing was seen in this time" in text


def test_days_are_drawn_to_one_scale():
    days = [
        Day(date(2026, 11, 1), Figures(supply=8, attached=4, waiting=0)),
        Day(date(2026, 11, 2), Figures(supply=8, attached=8, waiting=8)),
        Day(date(2026, 11, 3), Figures()),
    ]
    drawn = chart(Kind("c", "a100", days=days))
    assert (drawn.top, drawn.width) == (16, 300)
    assert [c.held_height for c in drawn.columns] == [244, 488, 0]
    assert [c.waiting_height for c in drawn.columns] == [0, 488, 0]
    full = drawn.columns[1]
    assert full.waiting + full.waiting_height == full.held  # on top of what is held
    assert full.held + full.held_height == HEIGHT
    assert all(0 <= c.supply <= HEIGHT for c in drawn.columns)


def test_a_kind_without_days_is_no_error():
    assert chart(Kind("c", "a100")).columns == []
