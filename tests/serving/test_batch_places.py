"""What is brought from a bucket for a batch prediction, and that it goes when nobody reads it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from jobs.models import Job, Told
from loaders.choices import Result, Task
from loaders.models import Load
from serving.services.batch_places import inputs_tidy

pytestmark = pytest.mark.django_db

HERE = "/api/v1/projects/vision/batch-predictions"


@pytest.fixture
def brought(api: Any, alice: Any, version: Any, data: Any, credential: Any) -> dict[str, Any]:
    """A batch prediction of a bucket that has ended, with an error."""
    version("v1", volume=data, folder="models/digits")
    credential("lake")
    said = {"model": "digits", "input": "s3://bucket/in/", "output": "volume:data/out"}
    made = api(alice, "POST", HERE, {**said, "credential": "lake"})
    assert made.status_code == 202, made.content
    end(made.json(), days=0)
    Load.objects.update(result=Result.DONE, loaded_at=now(), desired="stopped", phase="stopped")
    return dict(made.json())


def end(made: dict[str, Any], *, days: float) -> None:
    """Have it ended so many days ago."""
    job = Job.objects.get(short_id=made["job"])
    Told.objects.update_or_create(
        job=job, launch=1, defaults={"state": {"progress": [1.0, 120, 1]}}
    )
    at = now() - timedelta(days=days)
    ended = {"phase": "stopped", "observed_generation": job.generation, "finished_at": at}
    Job.objects.filter(pk=job.pk).update(**ended)


def again(api: Any, who: Any, made: dict[str, Any]) -> Any:
    return api(who, "POST", f"{HERE}/{made['id']}/again", {"errors_only": True})


def test_it_stays_for_another_try_of_its_errors_and_goes_once_nobody_reads_it(
    brought, api, alice, settings, as_user
) -> None:
    tried = again(api, alice, brought).json()
    end(brought, days=settings.BERTH_OUTPUT_DAYS + 1)
    assert inputs_tidy() == 0  # the other one reads it
    end(tried, days=1)
    assert inputs_tidy() == 0
    page = Job.objects.get(short_id=tried["job"]).get_absolute_url()
    assert "What was brought from it stays until" in as_user(alice).get(page).content.decode()
    end(tried, days=settings.BERTH_OUTPUT_DAYS + 1)
    Load.objects.update(credential=None)  # no store is asked
    assert inputs_tidy() == 1
    load = Load.objects.get()
    assert (load.task, load.desired, load.loaded_at) == (Task.CLEAR, "running", None)
    assert inputs_tidy() == 0  # on its way
    refused = again(api, alice, tried)
    assert (refused.status_code, refused.json()["code"]) == (409, "input-gone")
    assert api(alice, "GET", f"{HERE}/{tried['id']}").json()["input_gone"] is True
    shown = as_user(alice).get(page).content.decode()
    assert "What was brought from it was removed" in shown
    assert "error again" not in shown
    Load.objects.update(result=Result.DONE)
    inputs_tidy()
    assert Load.objects.get().desired == "absent"
    assert again(api, alice, tried).json()["code"] == "input-gone"


def test_it_goes_at_once_with_a_job_that_is_deleted(brought) -> None:
    assert inputs_tidy() == 0
    Job.objects.filter(short_id=brought["job"]).update(deleted_at=now())
    assert inputs_tidy() == 1
    assert Load.objects.get().task == Task.CLEAR
