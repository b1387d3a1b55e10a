"""A project that is archived and brought back, with all that serves in it."""

from __future__ import annotations

import pytest

from accounts.principal import Principal
from jobs.models import Job
from projects.services.life import project_archive, project_unarchive
from quotas.models import Reservation
from serving.gateway.rows import read_table
from serving.services import endpoint_wake
from tests.serving.conftest import ENDPOINTS
from usage.models import Interval

pytestmark = pytest.mark.django_db


def test_an_archived_project_serves_nothing_and_brought_back_its_endpoint_starts_again(
    api, alice, operator, project, serve, version, data, settle, fake
) -> None:
    from serving.models import Endpoint

    for name in ("v1", "v2"):
        version(name, volume=data, folder=f"digits/{name}")
    row = serve(model="digits/v1", command=[])
    at = f"{ENDPOINTS}/{row.short_id}"
    assert api(alice, "POST", f"{at}/canary", {"model": "digits/v2"}).status_code == 202
    canary = settle(Endpoint.objects.get(canary_of=row))
    assert api(alice, "POST", f"{at}/keys", {"name": "shop"}).status_code == 201
    said = {"endpoint": row.name, "input": "volume:data/in", "output": "volume:data/out"}
    begun = api(alice, "POST", "/api/v1/projects/vision/batch-predictions", said)
    assert begun.status_code < 400, begun.content
    job = settle(Job.objects.get(short_id=begun.json()["job"]))
    assert len(read_table().principals) == 2  # the key, and the batch

    project_archive(principal=Principal(operator), project=project, confirm_stop=True)
    for one in (row, canary, job):
        settle(one)
        assert (one.desired, one.stop_reason) == ("stopped", "project-archived")
    seen = fake.observe([str(one.uid) for one in (row, canary, job)])
    assert not [one for one in seen.values() if one.seen == "ready"]
    assert not Reservation.objects.filter(workload_uid__in=[row.uid, canary.uid, job.uid]).exists()
    assert not Interval.objects.filter(ended_at=None).exists()
    table = read_table()
    assert (table.endpoints, [one for one in table.principals.values() if one.word[0] == "b"]) == (
        (),
        [],
    )
    assert endpoint_wake(row.pk).startswith("It does not answer until somebody starts it.")
    assert api(alice, "POST", f"{at}/start").status_code >= 400

    project.refresh_from_db()
    project_unarchive(principal=Principal(operator), project=project)
    assert settle(row).desired == "stopped", "nothing starts unasked"
    assert api(alice, "POST", f"{at}/start").status_code == 202
    for one in (row, canary):
        settle(one)
        assert (one.desired, one.phase, one.launch) == ("running", "running", 2)
    (endpoint,) = read_table().endpoints
    assert (endpoint.name, endpoint.canary is not None) == (row.name, True)
    assert len(read_table().principals) == 1  # its key is as it was
