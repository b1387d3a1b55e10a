"""What a run leaves: where it is written, its copy as a load of the job's own, how that is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, LimitExceeded
from jobs import output_copies, output_states
from jobs.models import Job, Run
from jobs.runtime_spec import workload_spec
from loaders.models import Load
from loaders.reports import parse, report_store
from loaders.runtime_spec import plan_of
from notifications.models import Notification
from work import services
from work.kinds import kind_of

pytestmark = pytest.mark.django_db

FILES = [["accuracy.txt", 4], ["model/w.bin", 8]]


@pytest.fixture
def made(project: Any, principal: Any, settle: Any, shared: Any) -> Callable[..., Job]:
    """A job with an output that somebody started."""

    def make(user: Any, **said: Any) -> Job:
        base = {"name": "train", "command": ["python", "train.py"], "output": "s3://lake/results"}
        row: Job = services.workload_create(
            principal=principal(user), project=project, kind=kind_of("job"), said={**base, **said}
        )
        settle(shared)
        found: Job = settle(row)
        return found

    return make


@pytest.fixture
def copied(fake: Any, settle: Any) -> Callable[..., Load]:
    """Let the copy of the latest run end: its last report, then its process."""
    from runtime.hints import hint

    def run(ends: int = 0, failed: int = 0, **final: Any) -> Load:
        load = settle(Load.objects.get(made_for__isnull=False))
        done = len(FILES) - failed
        counts = {"found": 2, "done": done, "unchanged": 0, "skipped": 0, "failed": failed}
        body = {
            "launch": load.launch,
            "seq": load.seq + 1,
            "phase": "ended",
            "files": {**counts, "deleted": 0},
            "bytes": {"found": 12, "done": 12, "read": 12},
            "rate_bytes_s": 0,
            "concurrency": 1,
            "listed": True,
            "final": {"exit": ends, "code": "done", "message": "", "files": FILES[:done], **final},
        }
        report_store(load.uid, parse(json.loads(json.dumps(body))))
        fake.exit(str(load.uid), code=ends)
        hint(load)
        found: Load = settle(load)
        return found

    return run


def url_of(row: Job, run: int = 1, more: str = "") -> str:
    return f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}/runs/{run}/artifacts{more}"


def test_it_is_written_into_a_volume_and_copied_by_a_load_when_the_run_has_ended(
    made: Any, end: Any, copied: Any, fake: Any, credential: Any, alice: Any, as_user: Any
) -> None:
    credential()
    row = made(alice, name="Täglich: ein Lauf/1")
    folder = f"job-outputs/T-glich-ein-Lauf-1-{row.short_id}/1"
    assert workload_spec(row).output == f"shared/{folder}"
    assert as_user(alice).get(url_of(row)).json()["state"] == "writing"
    assert output_copies.outputs_copy() == 0
    end(row, 3)
    assert as_user(alice).get(url_of(row)).json()["state"] == "waiting"
    assert (output_copies.outputs_copy(), output_copies.outputs_copy()) == (1, 0)
    load = Load.objects.get()
    assert (load.made_for, load.url) == (
        row.uid,
        f"s3://lake/{folder.replace('job-outputs', 'results')}/",
    )
    assert (load.direction, load.volume.name, load.folder) == ("out", "shared", folder)
    plan = plan_of(load, None)
    assert (plan["marker"], plan["tells"]) == ("_BERTH_COMPLETE", 1000)
    assert as_user(alice).get(url_of(row)).json()["state"] == "copying"
    listed = as_user(alice).get(f"/api/v1/projects/{row.project.slug}/loads").json()
    assert listed["results"] == []  # it belongs to the job
    copied()
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["files"], told["bytes"], told["message"]) == ("complete", 2, 12, "")
    assert told["named"][0] == {"path": "accuracy.txt", "size": 4, "url": f"{load.url}accuracy.txt"}
    assert not Notification.objects.filter(kind__startswith="load.").exists()


def test_what_lacks_is_told_and_copied_again_by_whoever_owns_the_job(
    made: Any,
    end: Any,
    copied: Any,
    settle: Any,
    credential: Any,
    alice: Any,
    bob: Any,
    as_user: Any,
) -> None:
    credential()
    row = end(made(alice), 0)
    output_copies.outputs_copy()
    copied(4, 2, code="denied", message="The store refuses this credential.")
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["volume"]) == ("failed", "shared")
    assert "refuses" in told["message"]
    (note,) = Notification.objects.filter(kind="job.output")
    assert (note.user, note.params["run"]) == (alice, 1)
    assert as_user(bob).get(url_of(row)).status_code == 403
    assert as_user(bob).post(url_of(row, more="/copy")).status_code == 403
    load = Load.objects.get()
    for user in (alice, bob):  # nor by the door of loads
        at = f"/api/v1/projects/{row.project.slug}/loads/{load.uid}"
        for act in ("resume", "cancel", "pause"):
            assert as_user(user).post(f"{at}/{act}").status_code == 403, act
        assert as_user(user).delete(at).status_code == 403
    assert as_user(alice).post(url_of(row, more="/copy")).json()["state"] == "copying"
    assert as_user(alice).post(url_of(row, more="/copy")).status_code == 202  # pressed twice
    load.refresh_from_db()
    assert load.launch == 2
    copied(3, 1)
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["files"], len(told["named"])) == ("partial", 1, 1)
    assert as_user(alice).post(url_of(row, more="/copy")).status_code == 202
    copied()
    assert as_user(alice).get(url_of(row)).json()["state"] == "complete"
    assert Load.objects.count() == 1


def test_another_credential_of_the_job_is_taken_when_it_is_copied_again(
    made: Any, end: Any, copied: Any, credential: Any, alice: Any, principal: Any
) -> None:
    credential("first")
    row = end(made(alice), 0)
    output_copies.outputs_copy()
    copied(4, 2, code="denied")
    second = credential("second")
    said = {"output_credential": "second"}
    row = services.workload_edit(principal=principal(alice), row=row, said=said)
    output_copies.output_again(principal=principal(alice), row=row, launch=1)
    assert Load.objects.get().credential == second


def test_what_can_not_be_kept_is_refused_before_anything_runs(
    made: Any, credential: Any, alice: Any, project: Any
) -> None:
    def refused(**said: Any) -> tuple[str, str]:
        with pytest.raises(Invalid) as error:
            made(alice, **said)
        assert not Job.objects.exists()
        ((field, (sentence,)),) = error.value.fields.items()
        return field, sentence

    assert refused() == (
        "output",
        "No credential of the project opens s3:// addresses: add one first.",
    )
    credential("one")
    credential("two")
    assert refused() == ("output_credential", "Say which credential opens the bucket: one, two.")
    assert refused(output="gs://lake/x", output_credential="one")[0] == "output_credential"
    assert refused(volumes=[])[0] == "output"
    assert refused(volumes=["shared:ro"], output_credential="one")[0] == "output"
    for text in (
        "ftp://x/y",
        "s3://",
        "s3://a..b/c",
        "volume:nowhere",
        "volume:shared/../x",
        "/etc",
    ):
        assert refused(output=text, output_credential="")[0] == "output", text
    assert refused(output="volume:shared/x", output_credential="one")[0] == "output_credential"


def test_a_volume_keeps_it_where_it_is_written(
    made: Any, end: Any, fake: Any, alice: Any, as_user: Any
) -> None:
    row = made(alice, output="volume:shared/results")
    assert workload_spec(row).output == f"shared/results/train-{row.short_id}/1"
    end(row, 0)
    assert output_copies.outputs_copy() == 0
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["url"], told["volume"]) == ("kept", "", "shared")


def test_of_what_never_began_nothing_is_copied(
    made: Any, settle: Any, credential: Any, alice: Any, principal: Any, as_user: Any
) -> None:
    credential()
    row = made(alice, cpu_milli=10**6, memory_mib=1024)  # it waits
    settle(services.workload_stop(principal=principal(alice), row=row))
    assert as_user(alice).get(url_of(row)).json()["state"] == "nothing"
    assert output_copies.outputs_copy() == 0


def test_it_waits_for_room_in_a_limit(
    made: Any, end: Any, credential: Any, alice: Any, as_user: Any, monkeypatch: Any
) -> None:
    credential()
    row = end(made(alice, smoke=False), 0)

    def no_room(**_said: Any) -> None:
        raise LimitExceeded("Your limit of memory is used up.")

    with monkeypatch.context() as patched:
        patched.setattr(output_copies.loads, "load_create", no_room)
        assert output_copies.outputs_copy() == 0
    run = Run.objects.get()
    assert run.output_due_at is not None
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["message"]) == ("waiting", "Your limit of memory is used up.")
    Run.objects.update(output_due_at=now())
    assert output_copies.outputs_copy() == 1


def test_its_folder_goes_after_some_days_and_its_load_with_the_job(
    made: Any, end: Any, copied: Any, settle: Any, credential: Any, alice: Any, principal: Any
) -> None:
    credential()
    row = end(made(alice), 0)
    output_copies.outputs_copy()
    copied()
    assert output_copies.outputs_tidy() == 0
    Run.objects.update(ended_at=now() - timedelta(days=8))
    assert (output_copies.outputs_tidy(), output_copies.outputs_tidy()) == (1, 0)
    load = Load.objects.get()
    assert (load.task, plan_of(load, None)["mode"]) == ("clear", "clear")
    copied()
    run = Run.objects.get()
    assert (run.output_how, bool(run.output_cleared_at)) == ("done", True)
    with pytest.raises(Conflict, match="removed"):
        output_copies.output_again(principal=principal(alice), row=row, launch=1)
    output_copies.outputs_tidy()
    settle()
    assert not Load.objects.filter(deleted_at=None).exists()
    assert len(output_states.output_of(Run.objects.get()).named) == 2


def test_what_stays_in_its_folder_is_said(
    made: Any, end: Any, copied: Any, credential: Any, alice: Any, principal: Any, as_user: Any
) -> None:
    credential()
    row = end(made(alice), 0)
    output_copies.outputs_copy()
    copied()
    Run.objects.update(ended_at=now() - timedelta(days=8))
    output_copies.outputs_tidy()
    copied(3, code="partial", message="2 files removed; what was not copied stays.")
    told = as_user(alice).get(url_of(row)).json()
    assert (told["state"], told["volume"]) == ("complete", "shared")
    assert told["message"] == "Files that were not copied, or changed since, stay in its folder."
    assert Run.objects.get().output_cleared_at is None
    with pytest.raises(Conflict, match="copied already"):
        output_copies.output_again(principal=principal(alice), row=row, launch=1)


def test_its_load_goes_with_the_job(
    made: Any, end: Any, copied: Any, settle: Any, credential: Any, alice: Any, principal: Any
) -> None:
    credential()
    row = end(made(alice), 0)
    output_copies.outputs_copy()
    copied(4, 2, code="denied")
    services.workload_delete(principal=principal(alice), row=row)
    settle()
    output_copies.outputs_tidy()
    assert Load.objects.get().desired == "absent"  # parts at the store are given up first


def test_a_member_who_lost_the_right_copies_nothing(
    made: Any, end: Any, copied: Any, credential: Any, alice: Any, bob: Any, principal: Any
) -> None:
    credential()
    row = end(made(alice), 0)
    with pytest.raises(Forbidden):
        output_copies.output_again(principal=principal(bob), row=row, launch=1)


def test_its_page_says_how_it_is_and_offers_to_try_again(
    made: Any, end: Any, copied: Any, credential: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    credential()
    row = made(alice)
    page = f"/projects/{row.project.slug}/jobs/{row.short_id}/artifacts/"
    assert "Being written" in as_user(alice).get(page).content.decode()
    assert as_user(bob).get(page).status_code == 403
    row = end(row, 0)
    assert "Waits to be copied" in as_user(alice).get(page).content.decode()
    output_copies.outputs_copy()
    copied(4, 2, code="denied", message="The store refuses this credential.")
    shown = as_user(alice).get(page).content.decode()
    assert "Not copied" in shown
    assert "Try again" in shown
    pressed = as_user(alice).post(page.replace("artifacts", "copy-again"), {"run": "1"})
    assert pressed.status_code == 302
    copied()
    shown = as_user(alice).get(f"{page}?run=1").content.decode()
    assert "Complete" in shown
    assert "model/w.bin" in shown
    assert f"/files/#job-outputs/train-{row.short_id}/1/model" in shown
    assert "Try again" not in shown


def test_a_worker_that_is_killed_while_it_begins_a_copy_leaves_none_and_loses_none(
    made: Any, end: Any, credential: Any, alice: Any, monkeypatch: Any
) -> None:
    credential()
    end(made(alice), 0)
    create = output_copies.loads.load_create

    def killed(**said: Any) -> None:
        create(**said)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(output_copies.loads, "load_create", killed)
        with pytest.raises(KeyboardInterrupt):
            output_copies.outputs_copy()
    assert not Load.objects.exists()
    assert output_copies.outputs_copy() == 1
    assert Load.objects.count() == 1
