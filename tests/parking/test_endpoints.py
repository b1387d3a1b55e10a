"""An endpoint that idles is warned and parked as any work; a request does not wake it then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from common.clock import now
from parking import services
from parking.look import look
from parking.patrol import Filter, patrol
from usage.models import Interval

pytestmark = pytest.mark.django_db

ENDPOINTS = "/api/v1/projects/vision/endpoints"


@pytest.fixture
def endpoint(machine: Any, api: Any, alice: Any, project: Any, settle: Any) -> Any:
    """One with a GPU, a canary beside it, ready since yesterday."""
    from serving.models import Endpoint

    del machine, project
    said = {"name": "digits", "command": ["python3", "serve.py"], "gpus": 1}
    assert api(alice, "POST", ENDPOINTS, said).status_code == 202
    row = settle(Endpoint.objects.get())
    answer = api(alice, "POST", f"{ENDPOINTS}/{row.short_id}/canary", {"args": ["-v"]})
    assert answer.status_code == 202, answer.content
    settle()
    since = now() - timedelta(days=1)
    Endpoint.objects.update(ready_at=since)
    Interval.objects.update(started_at=since, placed_at=since, ready_at=since)
    row.refresh_from_db()
    return row


def test_an_idle_endpoint_is_parked_with_its_canary_and_wakes_by_no_request(
    endpoint, alice, policy, measured, settle, api
) -> None:
    from serving.models import Endpoint
    from serving.services import endpoint_wake

    policy()
    rows = list(Endpoint.objects.order_by("pk"))
    with time_machine.travel(now() - timedelta(minutes=70), tick=False):
        for row in rows:
            measured(row, 10)
        services.enforce()
    for row in rows:
        measured(row, 75)
    began = now()
    with time_machine.travel(began, tick=False):
        assert services.enforce() >= 1
    with time_machine.travel(began + timedelta(minutes=15), tick=False):
        for row in rows:
            measured(row, 20)
        services.enforce()
        settle()
        for row in rows:
            row.refresh_from_db()
            assert (row.phase, row.stop_reason) == ("stopped", "parked")
        assert not Interval.objects.filter(ended_at=None).exists()
        assert "until somebody starts it. Parked" in endpoint_wake(endpoint.pk)
        answer = api(alice, "POST", f"{ENDPOINTS}/{endpoint.short_id}/start")
        assert answer.status_code == 202
        settle()
        assert [settle(row).phase for row in rows] == ["running", "running"]


def test_an_idle_endpoint_is_found_by_the_patrol_and_in_the_ledger(endpoint, measured) -> None:
    from usage.closing import rows_of_hour

    begin = now().replace(minute=0, second=0, microsecond=0)
    with time_machine.travel(begin + timedelta(minutes=59), tick=False):
        measured(endpoint, 59)
        (row, *_more) = patrol(Filter(hours=0.5)).holders
        assert row.row.uid == endpoint.uid
        found = rows_of_hour(begin, now())
        mine = [value for dims, value in found.items() if dims.kind == "endpoint"]
        assert sum(one["idle"] for one in mine) > 0
        attached = sum(one["attached"] for one in mine)
        assert attached == pytest.approx(2 * 59 * 60_000, abs=5000)  # its canary has one, too


def test_a_request_is_use_also_of_what_stands_beside(endpoint, policy, measured) -> None:
    """GPUs that hardly compute are in use where somebody calls now and then."""
    from serving.models import Endpoint

    policy()
    rows = list(Endpoint.objects.order_by("pk"))
    called = now() - timedelta(minutes=20)
    Endpoint.objects.filter(canary_of=endpoint).update(called_at=called)
    with time_machine.travel(now() - timedelta(minutes=70), tick=False):
        for row in rows:
            measured(row, 10)
        services.enforce()
    for row in rows:
        measured(row, 75)
    services.enforce()
    seen = {one.uid: one.verdict.since for one in look()}
    assert set(seen) == {row.uid for row in rows}
    assert all(since is not None and since >= called for since in seen.values())


def test_an_answer_that_still_streams_is_use_now_and_one_that_a_lost_gateway_had_is_none(
    endpoint, policy, measured
) -> None:
    """What was called is in the rows only when it ended; hours of streams are no quiet."""
    from serving.models import Endpoint, Pressure

    policy()
    rows = list(Endpoint.objects.order_by("pk"))
    with time_machine.travel(now() - timedelta(minutes=70), tick=False):
        for row in rows:
            measured(row, 10)
        services.enforce()
    for row in rows:
        measured(row, 75)
    carried = Pressure.objects.create(
        endpoint=endpoint.canaries.get(), gateway="one", answering=1, seen_at=now()
    )
    assert [one.verdict.since for one in look()] == [None, None]
    carried.seen_at = now() - timedelta(minutes=1)
    carried.save()
    assert all(one.verdict.since is not None for one in look())


def test_its_page_reads_no_interval_that_ended_before_the_day_it_shows(endpoint) -> None:
    """Each change of size is an interval: an endpoint that scales has many."""
    from django.db.models.signals import post_init

    from parking.panel import spent

    (one,) = Interval.objects.filter(uid=endpoint.uid)
    before = spent(endpoint)
    for part in range(1, 6):
        one.pk, one.part, one.ended_at = None, part, now() - timedelta(days=2)
        one.started_at = one.ended_at - timedelta(hours=1)
        one.save()
    read: list[Interval] = []
    note = lambda instance, **_said: read.append(instance)  # noqa: E731
    post_init.connect(note, sender=Interval, weak=False)
    try:
        after = spent(endpoint)
    finally:
        post_init.disconnect(note, sender=Interval)
    assert before
    assert after
    assert (len(read), round(after.gpu_hours, 2)) == (1, round(before.gpu_hours, 2))
