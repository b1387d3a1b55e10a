"""What is brought from a bucket for a batch prediction, and that it goes when nobody reads it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict
from jobs.models import Job, Told
from loaders.choices import Result, Task
from loaders.models import Load
from serving.models import BatchPrediction
from serving.services import batch, batch_places
from serving.services.batch_places import clear_unless_kept, inputs_tidy

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


def cleared(result: Result, *, days: float = 0) -> None:
    """Have its removal ended so, begun so many days ago."""
    began = {"asked_at": now() - timedelta(days=days), "phase": "stopped"}
    Load.objects.update(result=result, observed_generation=F("generation"), **began)


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
    cleared(Result.DONE)
    inputs_tidy()
    assert Load.objects.get().desired == "absent"
    assert again(api, alice, tried).json()["code"] == "input-gone"


def test_it_goes_at_once_with_a_job_that_is_deleted(brought) -> None:
    assert inputs_tidy() == 0
    Job.objects.filter(short_id=brought["job"]).update(deleted_at=now())
    assert inputs_tidy() == 1
    assert Load.objects.get().task == Task.CLEAR


def test_a_removal_that_left_what_was_changed_is_done_and_one_that_failed_is_tried_again(
    brought, api, alice, settings
) -> None:
    end(brought, days=settings.BERTH_OUTPUT_DAYS + 1)
    assert inputs_tidy() == 1
    cleared(Result.FAILED)
    assert inputs_tidy() == 0  # it failed just now
    assert api(alice, "GET", f"{HERE}/{brought['id']}").json()["input_gone"] is False
    cleared(Result.FAILED, days=2)
    assert inputs_tidy() == 1
    assert api(alice, "GET", f"{HERE}/{brought['id']}").json()["input_gone"] is True
    cleared(Result.PARTIAL)
    assert api(alice, "GET", f"{HERE}/{brought['id']}").json()["input_gone"] is True
    assert inputs_tidy() == 0
    assert Load.objects.get().desired == "absent"


def test_what_can_t_be_removed_now_holds_up_no_other(
    brought, api, alice, bob, settings, monkeypatch
) -> None:
    """Bob has left the project; what was brought for him is older."""
    monkeypatch.setattr(batch_places, "AT_ONCE", 1)
    first = Load.objects.get()
    said = {"model": "digits", "input": "s3://bucket/in/", "output": "volume:data/other"}
    made = api(alice, "POST", HERE, {**said, "credential": "lake"}).json()
    Load.objects.filter(pk=first.pk).update(owner=bob)
    bob.memberships.all().delete()
    Load.objects.update(result=Result.DONE, loaded_at=now(), desired="stopped", phase="stopped")
    for one in (brought, made):
        end(one, days=settings.BERTH_OUTPUT_DAYS + 1)
    assert inputs_tidy() == 1
    assert Load.objects.get(task=Task.CLEAR) != first


def test_who_tries_the_errors_again_and_what_removes_the_input_see_each_other(
    brought, api, alice, settings
) -> None:
    seen = BatchPrediction.objects.select_related("load", "job").get(uid=brought["id"])
    load = Load.objects.get()
    tried = again(api, alice, brought).json()
    end(brought, days=settings.BERTH_OUTPUT_DAYS + 1)
    assert not clear_unless_kept(load)  # it was found before the other one was begun
    end(tried, days=settings.BERTH_OUTPUT_DAYS + 1)
    assert clear_unless_kept(load)
    with pytest.raises(Conflict) as told:  # it looked before that
        batch.batch_again(principal=Principal(user=alice), row=seen, errors_only=True)
    assert told.value.code == "input-gone"
    assert BatchPrediction.objects.count() == 2
