"""What the time of a job's run came to: page, API and words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from jobs.goodput import WORDS
from jobs.models import Job
from metrics.models import FIELDS, MinuteSample
from usage.goodput import CAUSES
from usage.models import Interval, Wait

pytestmark = pytest.mark.django_db


@pytest.fixture
def one(job: Any) -> Any:
    return job()


def millis(at: Any) -> int:
    return round(at.timestamp() * 1000)


def begun(job: Any, minutes: int, *, gpus: int, **more: Any) -> Interval:
    """A launch that got its place so many minutes ago."""
    at = now() - timedelta(minutes=minutes)
    row = {
        "uid": job.uid,
        "launch": 1,
        "kind": "job",
        "project_uid": job.project.uid,
        "project_slug": job.project.slug,
        "owner_uid": job.owner.uid,
        "owner_name": job.owner.username,
        "cluster_key": "local",
        "gpus": gpus,
        "placed_at": at,
        "started_at": at,
    }
    return Interval.objects.create(**{**row, **more})


def test_g9_a_run_that_was_taken_from_its_gpus_is_told_whole(
    one: Any, alice: Any, as_user: Any
) -> None:
    at = now()
    first = begun(
        one,
        60,
        gpus=2,
        marks=[[millis(at - timedelta(minutes=58)), "run"]],
        ready_at=at - timedelta(minutes=58),
        started_at=at - timedelta(minutes=58),
        ended_at=at - timedelta(minutes=40),
        end_reason="preempted",
    )
    Wait.objects.create(
        **{n: getattr(first, n) for n in ("uid", "kind", "project_uid", "project_slug")},
        owner_uid=one.owner.uid,
        owner_name="alice",
        cluster_key="local",
        launch=2,
        gpus=2,
        began_at=at - timedelta(minutes=40),
        ended_at=at - timedelta(minutes=30),
    )
    begun(
        one,
        30,
        gpus=2,
        launch=2,
        marks=[[millis(at - timedelta(minutes=29)), "run"]],
        ready_at=at - timedelta(minutes=29),
        started_at=at - timedelta(minutes=29),
        ended_at=at,
        end_reason="finished",
    )
    hour = (at - timedelta(minutes=20)).replace(second=0, microsecond=0)
    counts = {f"{name}_count": 0 for name in FIELDS}
    use = {"gpu_utilisation_count": 6, "gpu_utilisation_sum": 0.0}
    idle = {**counts, **use, "samples": 6, "shared": 0, "simulated": 0}
    MinuteSample.objects.create(uid=one.uid, device="", at=hour, **idle)
    url = f"/api/v1/projects/{one.project.slug}/jobs/{one.short_id}/goodput"
    told = as_user(alice).get(url).json()
    minutes = {cause: round(s / 60, 1) for cause, s in told["seconds"].items()}
    assert minutes == {
        "start": 2,
        "repeated": 18,
        "suspended": 10,
        "restart": 1,
        "run": 28,
        "idle": 1,
    }
    assert told["wall_seconds"] == pytest.approx(3600, abs=0.1)
    assert told["goodput"] == pytest.approx(28 / 60, abs=0.001)
    assert (told["gpus"], told["over"], told["measured"]) == (2, True, True)
    assert told["advice"] == str(WORDS["repeated"][2])
    page = as_user(alice).get(one.get_absolute_url()).content.decode()
    assert "of its time on 2 GPUs was productive" in page
    assert str(WORDS["suspended"][1]) in page


def test_g9_a_job_without_gpus_is_told_in_hours(one: Any, alice: Any, as_user: Any) -> None:
    at = now()
    Job.objects.update(launch=1, started_at=at - timedelta(minutes=9))  # nothing else is kept
    begun(
        one,
        10,
        gpus=0,
        started_at=at - timedelta(minutes=9),
        asked_at=at - timedelta(minutes=15),
        ended_at=at,
    )
    url = f"/api/v1/projects/{one.project.slug}/jobs/{one.short_id}/goodput"
    told = as_user(alice).get(url).json()
    minutes = {cause: round(s / 60, 1) for cause, s in told["seconds"].items()}
    assert minutes == {"queue": 5, "start": 1, "run": 9}
    page = as_user(alice).get(one.get_absolute_url()).content.decode()
    assert "60\u00a0%" in page
    assert "How busy its GPUs were" not in page


def test_g9_what_never_began_has_none(one: Any, alice: Any, as_user: Any, charlie: Any) -> None:
    url = f"/api/v1/projects/{one.project.slug}/jobs/{one.short_id}/goodput"
    told = as_user(alice).get(url).json()
    assert (told["goodput"], told["wall_seconds"], told["parts"]) == (None, 0, [])
    assert as_user(charlie).get(url).status_code == 404


def test_g9_g13_a_run_that_went_on_with_fewer_counts_the_gpus_of_each_start(
    one: Any, alice: Any, as_user: Any
) -> None:
    """Four GPUs for twenty minutes, then two for forty."""
    at = now()
    began, lost = at - timedelta(minutes=60), at - timedelta(minutes=40)
    more = {"marks": [[millis(began), "run"]], "ended_at": lost, "end_reason": "node-lost"}
    begun(one, 60, gpus=4, placed_at=began, started_at=began, **more)
    more = {"marks": [[millis(lost), "run"]], "ended_at": at, "end_reason": "finished"}
    begun(one, 40, gpus=2, launch=2, placed_at=lost, started_at=lost, **more)
    url = f"/api/v1/projects/{one.project.slug}/jobs/{one.short_id}/goodput"
    told = as_user(alice).get(url).json()
    assert {cause: round(s / 60) for cause, s in told["seconds"].items()} == {
        "repeated": 20,
        "run": 40,
    }
    gpu_minutes = {cause: round(s / 60) for cause, s in told["gpu_seconds"].items()}
    assert gpu_minutes == {"repeated": 80, "run": 80}
    assert told["whole_gpu_seconds"] == pytest.approx(160 * 60, abs=0.1)
    assert told["goodput"] == pytest.approx(0.5, abs=0.001)
    assert [(part["launch"], part["gpus"]) for part in told["parts"]] == [(1, 4), (2, 2)]
    assert "of its time on 2 to 4 GPUs was productive" in (
        as_user(alice).get(one.get_absolute_url()).content.decode()
    )
    page = as_user(alice).get(f"{one.get_absolute_url()}goodput/").content.decode()
    assert "each start counts with those that it had" in page


def test_each_cause_has_words() -> None:
    assert set(WORDS) == set(CAUSES)


def test_g9_a_program_runs_from_its_start_whenever_somebody_looked(
    one: Any, alice: Any, as_user: Any
) -> None:
    at = now()
    url = f"/api/v1/projects/{one.project.slug}/jobs/{one.short_id}/goodput"

    def minutes(**more: Any) -> dict[str, float]:
        Interval.objects.all().delete()
        begun(one, 10, gpus=1, ended_at=at, started_at=at - timedelta(minutes=9), **more)
        seconds = as_user(alice).get(url).json()["seconds"]
        return {cause: round(s / 60, 1) for cause, s in seconds.items()}

    assert minutes(end_reason="finished") == {"start": 1, "run": 9}
    late = [[millis(at - timedelta(minutes=4)), "run"]]
    unseen = [[millis(at), "stop"]]
    assert minutes(end_reason="exit", marks=unseen) == {"start": 1, "run": 9}
    assert minutes(end_reason="exit", marks=late) == {"start": 1, "run": 9}
    assert minutes(end_reason="image-missing") == {"start": 10}
    Job.objects.update(launch=2)  # which waits: of it there is nothing yet
    assert minutes(end_reason="finished") == {}
