"""Jobs that are made in a workspace: what they take over, their smoke run, what they report."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from tests.work.kinds import PROJECT

pytestmark = pytest.mark.django_db
PAGE = gzip.compress(b"<p>42</p>" * 9000, 0)


@pytest.fixture
def desk(project: Any, alice: Any, presets: Any) -> Any:
    """A workspace of alice."""
    from accounts.principal import Principal
    from notebooks.kind import WORKSPACE
    from work.services import workload_create

    said = {"name": "desk", "env": {"TOKEN": "t"}, "cpu_milli": 1500}
    who = Principal(user=alice)
    return workload_create(principal=who, project=project, kind=WORKSPACE, said=said)


def report(client: Any, row: Any, settings: Any, **said: Any) -> Any:
    from hubapi.services import derive
    from jobs.runtime_spec import PURPOSE

    token = said.pop("token", derive(PURPOSE, row.uid, row.launch))
    return client.post(
        f"/hub/api/berth/jobs/{row.uid}/report",
        data=said,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
        SERVER_PORT=str(settings.BERTH_INTERNAL_PORT),
    )


def test_a_notebook_reports_its_page_and_only_its_owner_sees_it(
    client: Any, as_user: Any, job: Any, alice: Any, bob: Any, settings: Any
) -> None:
    row = job(script="train.ipynb", command=[])
    page = base64.b64encode(PAGE).decode()
    assert len(page) > 64 * 1024
    answer = report(
        client, row, settings, failure="Cell 2 failed: X\nlines", name="a.ipynb", page=page
    )
    assert answer.status_code == 200, answer.content
    address = f"/projects/vision/jobs/{row.short_id}/result-page/"
    shown = as_user(alice).get(address)
    assert gzip.decompress(shown.content).startswith(b"<p>42")
    assert "sandbox" in shown["Content-Security-Policy"]
    assert "script" not in shown["Content-Security-Policy"]
    assert as_user(bob).get(address).status_code == 403
    told = as_user(alice).get(f"{PROJECT}/jobs/{row.short_id}").json()["status"]
    assert told["failure"] == "Cell 2 failed: X\nlines"
    assert as_user(bob).get(f"{PROJECT}/jobs/{row.short_id}").json()["status"]["failure"] is None


def test_a_stranger_a_later_launch_and_a_page_that_is_none_are_refused(
    client: Any, job: Any, settings: Any
) -> None:
    from jobs.models import NotebookResult

    row = job(script="train.ipynb", command=[])
    assert report(client, row, settings, token="x" * 43).status_code == 403
    assert report(client, row, settings, page="bm8=").status_code == 400
    answer = client.post(
        f"/hub/api/berth/jobs/{row.uid}/report", data={}, content_type="text/plain"
    )
    assert answer.status_code == 404  # the portal's own listener knows nothing of it
    row.launch = 2
    row.save()
    row.launch = 1
    assert report(client, row, settings, failure="late").status_code == 403
    assert not NotebookResult.objects.exists()


def test_c35_a_job_of_a_workspace_has_what_that_has(as_user: Any, alice: Any, desk: Any) -> None:
    from jobs.models import Job
    from jobs.runtime_spec import workload_spec

    said = {
        "workspace": "desk",
        "script": "a.py",
        "workdir": "deep",
        "env": {"MORE": "1"},
        "smoke": False,
    }
    made = as_user(alice).post(f"{PROJECT}/jobs", said, content_type="application/json")
    assert made.status_code == 202, made.content
    told = made.json()
    assert (told["workspace"], told["spec"]["cpu_milli"]) == (desk.short_id, 1500)
    row = Job.objects.get(short_id=told["id"])
    assert row.env == {"TOKEN": "t", "MORE": "1"}
    spec = workload_spec(row)
    assert [mount.role for mount in spec.mounts][:1] == ["home"]
    assert spec.packages_of == str(desk.uid)
    assert spec.command[3:] == ("deep", "python3", "a.py")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"script": "../a.py"}, "script"),
        ({"script": "/etc/a.py"}, "script"),
        ({"script": "a.sh"}, "script"),
        ({"script": "a.py", "command": ["true"]}, "script"),
        ({"script": "a.ipynb", "args": ["x"]}, "args"),
        ({"script": "a.ipynb", "replicas": 2}, "replicas"),
        ({"command": ["true"], "workdir": "a/../../b"}, "workdir"),
        ({"workspace": None, "command": ["true"], "workdir": "a"}, "workdir"),
        ({"workspace": "nobodys", "command": ["true"]}, "workspace"),
    ],
)
def test_what_can_not_run_is_refused_by_its_field(
    said: dict[str, Any], field: str, as_user: Any, alice: Any, desk: Any
) -> None:
    body = {"workspace": desk.short_id, **said}
    answer = as_user(alice).post(f"{PROJECT}/jobs", body, content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert list(answer.json()["fields"]) == [field], answer.json()


def test_a1_another_ones_workspace_is_like_one_that_is_not_there(
    as_user: Any, bob: Any, desk: Any
) -> None:
    body = {"workspace": desk.short_id, "command": ["true"]}
    answer = as_user(bob).post(f"{PROJECT}/jobs", body, content_type="application/json")
    other = as_user(bob).post(
        f"{PROJECT}/jobs", {**body, "workspace": "nobodys"}, content_type="application/json"
    )
    assert (answer.status_code, answer.json()) == (other.status_code, other.json()) or (
        answer.json()["fields"] == other.json()["fields"]
    )
    assert as_user(bob).get(f"/jobs/from/{desk.short_id}/?path=a.py").status_code == 404


@pytest.fixture
def smoked(project: Any, as_user: Any, alice: Any, settle: Any) -> Any:
    """A job with its smoke run, looked at by the engine."""
    from jobs.models import Job

    body = {"name": "train", "command": ["python", "train.py"], "smoke": True, "replicas": 2}
    body |= {"cpu_milli": 8000, "memory_mib": 16384}
    answer = as_user(alice).post(f"{PROJECT}/jobs", body, content_type="application/json")
    assert answer.status_code == 202, answer.content
    row = Job.objects.get(short_id=answer.json()["id"])
    one = Job.objects.get(smoke_of=row.uid)
    return settle(row), settle(one)


def test_a_smoke_run_is_small_in_no_list_and_its_job_waits_for_it(
    smoked: Any, as_user: Any, alice: Any, end: Any, settle: Any
) -> None:
    from jobs.states import state_of
    from quotas.models import Reservation
    from runtime.reasons import Reason

    row, one = smoked
    assert (row.phase, row.reason) == ("pending", Reason.SMOKE_RUN)
    assert (one.gpus, one.replicas, one.cpu_milli, one.memory_mib) == (0, 1, 2000, 4096)
    assert not Reservation.objects.filter(workload_uid=one.uid).exists()
    listed = as_user(alice).get(f"{PROJECT}/jobs").json()["results"]
    assert [found["id"] for found in listed] == [row.short_id]
    assert "smoke-" not in as_user(alice).get("/projects/vision/jobs/").content.decode()
    end(one, 0)
    row = settle(row)
    assert state_of(row) == "running"
    told = as_user(alice).get(f"{PROJECT}/jobs/{row.short_id}").json()["smoke"]
    assert told["state"] == "succeeded"


def test_what_its_smoke_run_failed_at_is_never_queued_and_runs_again_when_mended(
    smoked: Any, as_user: Any, alice: Any, end: Any, settle: Any
) -> None:
    from jobs.models import Job
    from jobs.states import state_of
    from notifications.models import Notification

    row, one = smoked
    end(one, 1)
    row = settle(row)
    assert (state_of(row), row.reason, row.started_at) == ("failed", "smoke-failed", None)
    assert Notification.objects.filter(user=alice).count() == 1  # of the job, not of its smoke run
    page = as_user(alice).get(f"/projects/vision/jobs/{row.short_id}/").content.decode()
    assert "so it was not queued" in page
    again = as_user(alice).post(f"{PROJECT}/jobs/{row.short_id}/start")
    assert again.status_code == 202, again.content
    assert Job.objects.get(pk=one.pk).desired == "absent"
    fresh = Job.objects.exclude(desired="absent").get(smoke_of=row.uid)
    end(settle(fresh), 0)
    assert state_of(settle(Job.objects.get(pk=row.pk))) == "running"


def test_who_cancels_or_deletes_the_job_ends_its_smoke_run_too(
    smoked: Any, as_user: Any, alice: Any
) -> None:
    from jobs.models import Job

    row, one = smoked
    assert as_user(alice).post(f"{PROJECT}/jobs/{row.short_id}/cancel").status_code == 202
    assert Job.objects.get(pk=one.pk).desired == "absent"


def test_a_module_that_only_the_workspaces_pod_had_is_named_with_what_to_do(
    client: Any, as_user: Any, job: Any, alice: Any, settings: Any
) -> None:
    failure = "Cell 1 failed: ModuleNotFoundError: No module named 'torchmetrics.text'"
    row = job(script="train.ipynb", command=[], made_in="desk", image="registry.example/lab:1")
    report(client, row, settings, failure=failure)
    type(row).objects.filter(pk=row.pk).update(
        phase="failed", reason="exit", exit_code=1, observed_generation=row.generation
    )
    told = as_user(alice).get(f"{PROJECT}/jobs/{row.short_id}").json()["status"]["failure"]
    assert told.startswith(f"{failure}\n“torchmetrics” is neither in its image nor in your home.")
    assert "pip install --user" in as_user(alice).get(row.get_absolute_url()).content.decode()
    for kept in ({"image": ""}, {"made_in": ""}):  # one machine has the workspace's packages
        type(row).objects.filter(pk=row.pk).update(**kept)
        told = as_user(alice).get(f"{PROJECT}/jobs/{row.short_id}").json()["status"]["failure"]
        assert told == failure


def test_a_job_that_nobody_named_has_the_name_of_its_file_and_leads_to_its_workspace(
    as_user: Any, alice: Any, desk: Any
) -> None:
    from jobs.models import Job

    said = {"workspace": "desk", "script": "deep/train-cells.ipynb", "smoke": False}
    pages = as_user(alice)
    names = [
        pages.post(f"{PROJECT}/jobs", said, content_type="application/json").json()["name"]
        for _ in range(2)
    ]
    assert names == ["train-cells", "train-cells 2"]
    row = Job.objects.get(name="train-cells")
    page = pages.get(row.get_absolute_url()).content.decode()
    assert f'<a href="{desk.get_absolute_url()}">desk</a>' in page
    assert 'id="replicas-title"' not in page  # none was seen yet: its state says all


def test_who_lost_its_place_is_told_of_its_checkpoint_and_not_of_an_error(
    as_user: Any, alice: Any, job: Any
) -> None:
    from jobs.models import Job

    failure = "It was ended in cell 1."
    row = job(script="train.ipynb", command=[], reason="preempted", failure=failure)
    Job.objects.filter(pk=row.pk).update(phase="pending", observed_generation=row.generation)
    page = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "from its newest checkpoint" in page
    assert failure not in page
    Job.objects.filter(pk=row.pk).update(phase="failed", reason="exit")
    assert failure in as_user(alice).get(row.get_absolute_url()).content.decode()
