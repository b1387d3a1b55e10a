"""Parking and the way back at every door: what the page, the API and the command say before."""

from __future__ import annotations

from typing import Any

import pytest

from queues.models import Turn
from tests.work.test_way_back import launch, other, parked, promise, two  # noqa: F401
from work import services
from work.models import Ticket
from work.way_back import way_back

pytestmark = pytest.mark.django_db


def api(row: Any, verb: str = "") -> str:
    path = f"/api/v1/projects/{row.project.slug}/workspaces/{row.short_id}"
    return f"{path}/{verb}" if verb else path


def test_before_the_press_it_is_said_that_it_is_ready_about_now(parked: Any) -> None:  # noqa: F811
    back = way_back(parked)
    assert back is not None
    assert (back.gpus, back.starts_now, back.before, back.void) == (1, True, 0, "")
    assert back.ticket_until == Ticket.objects.get(workload=parked).valid_until
    assert back.sentence == "ready about now · by your ticket"


def test_before_the_press_it_is_said_who_is_before_and_what_a_ticket_saves(
    parked: Any,  # noqa: F811
    launch: Any,  # noqa: F811
    settle: Any,
) -> None:
    for _n in range(3):  # one holds what is guaranteed, two came since and wait for it
        launch(parked.project, gpus=1)
    Turn.objects.all().delete()  # of those that ended within this test
    back = way_back(parked)
    Ticket.objects.all().delete()
    without = way_back(parked)
    assert back is not None
    assert without is not None
    assert (back.starts_now, without.starts_now) == (False, False)
    assert (back.when, without.when) == ("in about 1 minute", "in about 3 minutes")
    assert without.ticket_until is None


def test_the_page_offers_to_go_on_without_gpus_and_to_get_them_back(
    parked: Any,  # noqa: F811
    as_user: Any,
    alice: Any,
    settle: Any,
) -> None:
    client, page = as_user(alice), parked.get_absolute_url()
    shown = client.get(page).content.decode()
    assert "Parked; resume any time" in shown
    assert "ready about now · by your ticket" in shown
    assert client.post(f"{page}plain/").status_code == 302
    row = settle(parked)
    assert (row.phase, row.gpus) == ("running", 0)
    shown = client.get(page).content.decode()
    assert "Get the GPUs back" in shown
    assert client.post(f"{page}regain/").status_code == 302
    row.refresh_from_db()
    assert (row.gpus, row.launch) == (1, 3)


def test_the_api_parks_goes_on_without_and_gets_back(
    launch: Any,  # noqa: F811
    project: Any,
    promise: Any,  # noqa: F811
    as_user: Any,
    alice: Any,
    bob: Any,
    settle: Any,
) -> None:
    promise(project, 1)
    row = launch(project, gpus=1)
    client = as_user(alice)
    assert as_user(bob).post(api(row, "park")).status_code == 403
    assert client.post(api(row, "park")).status_code == 202
    settle(row)
    told = client.get(api(row)).json()
    assert told["status"]["message"] == "Parked; resume any time"
    assert told["way_back"]["sentence"] == "ready about now · by your ticket"
    assert client.post(api(row, "plain")).status_code == 202
    settle(row)
    assert client.get(api(row)).json()["way_back"]["gpus"] == 1
    assert client.post(api(row, "regain")).status_code == 202
    assert client.post(api(row, "regain")).status_code == 409


def test_a_job_that_has_ended_is_not_offered_to_go_on_without_gpus(
    project: Any,
    alice: Any,
    as_user: Any,
    settle: Any,
    two: Any,  # noqa: F811
    principal: Any,
) -> None:
    from work import kinds

    row = services.workload_create(
        principal=principal(alice),
        project=project,
        kind=kinds.kind_of("job"),
        said={"command": ["true"], "gpus": 1},
    )
    row = settle(row)
    services.workload_stop(principal=principal(alice), row=row)
    row = settle(row)
    shown = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "Go on without GPUs" not in shown
