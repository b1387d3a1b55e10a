"""Each run of a job: what it was, how it ended, two of them side by side, one of them again."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common.clock import now
from common.errors import Forbidden
from jobs.models import Job, Run
from jobs.runs import run_keep
from work import services
from work.kinds import kind_of
from work.services.ending import workloads_stop_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(project: Any, principal: Any, settle: Any) -> Callable[..., Job]:
    """A job that somebody started through the services."""

    def make(user: Any, **said: Any) -> Job:
        values = {"name": "train", "command": ["python", "train.py"], **said}
        row: Job = settle(
            services.workload_create(
                principal=principal(user), project=project, kind=kind_of("job"), said=values
            )
        )
        return row

    return make


def packed(**files: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(held.getvalue(), mtime=0)


def url_of(row: Job, more: str = "") -> str:
    return f"/api/v1/projects/{row.project.slug}/jobs/{row.short_id}/runs{more}"


def test_a_run_keeps_what_was_said_and_how_it_ended(
    made: Any, end: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    row = made(alice, env={"TOKEN": "s3cret"}, replicas=2, cpu_milli=500)
    end(row, 3)
    (run,) = as_user(alice).get(url_of(row)).json()["results"]
    assert (run["run"], run["by"], run["how"], run["exit_code"]) == (1, "alice", "failed", 3)
    assert run["began_at"]
    assert run["ended_at"]
    assert run["said"]["command"] == ["python", "train.py"]
    assert (run["said"]["replicas"], run["said"]["cpu_milli"]) == (2, 500)
    assert run["variables"] == ["TOKEN"]
    (told,) = as_user(bob).get(url_of(row)).json()["results"]
    assert (told["said"]["command"], told["variables"]) == (None, None)
    assert "s3cret" not in str(Run.objects.values("said", "env"))


def test_a_run_of_before_is_run_again_exactly(
    made: Any, end: Any, settle: Any, alice: Any, bob: Any, principal: Any, as_user: Any
) -> None:
    row = made(alice, env={"LR": "1"}, args=["--epochs", "3"], time_limit_minutes=60)
    end(row, 0)
    said = {"env": {"LR": "2"}, "args": [], "cpu_milli": 250, "name": "renamed"}
    row = services.workload_edit(principal=principal(alice), row=row, said=said)
    row = services.workload_edit(
        principal=principal(alice), row=row, said={"time_limit_minutes": 0}, start=True
    )
    row = settle(services.workload_start(principal=principal(alice), row=row))
    again = as_user(alice).post(url_of(row, "/1/again"))
    assert (again.status_code, again.json()["code"]) == (409, "running")
    end(row, 1)
    assert as_user(bob).post(url_of(row, "/1/again")).status_code == 403
    assert as_user(alice).post(url_of(row, "/9/again")).status_code == 404
    assert as_user(alice).post(url_of(row, "/1/again")).status_code == 202
    row.refresh_from_db()
    assert (dict(row.env), row.args, row.name) == ({"LR": "1"}, ["--epochs", "3"], "renamed")
    end(settle(row), 0)
    assert as_user(alice).post(url_of(row, "/1/again")).status_code == 202
    _again, newest, _second, first = Run.objects.filter(job=row).order_by("-launch")
    assert newest.said == first.said
    assert (dict(newest.env), newest.launch) == ({"LR": "1"}, 3)


def test_two_runs_are_told_apart_field_by_field_and_file_by_file(
    made: Any, end: Any, settle: Any, alice: Any, bob: Any, principal: Any, as_user: Any
) -> None:
    def sent(**files: str) -> str:
        url = f"/api/v1/projects/{row.project.slug}/packages"
        answer = as_user(alice).post(url, packed(**files), content_type="application/gzip")
        return f"package:{answer.json()['sha256']}"

    row = made(alice, env={"LR": "1", "SEED": "7"})
    end(row, 1)
    first = sent(**{"train.py": "a", "data.py": "same", "old.py": "x"})
    second = sent(**{"train.py": "b", "data.py": "same", "new.py": "x"})
    for code, lr in ((first, "1"), (second, "3")):
        said = {"code": code, "env": {"LR": lr, "SEED": "7"}}
        row = services.workload_edit(principal=principal(alice), row=row, said=said)
        end(settle(services.workload_start(principal=principal(alice), row=row)), 0)
    told = as_user(alice).get(url_of(row, "/diff?a=2&b=3")).json()
    names = {one["name"]: (one["a"], one["b"]) for one in told["said"]}
    assert names == {"code": (first, second), "env.LR": ("1", "3")}
    assert told["files"] == {"new.py": "added", "old.py": "removed", "train.py": "changed"}
    ended = {
        one["name"] for one in as_user(alice).get(url_of(row, "/diff?a=1&b=3")).json()["ended"]
    }
    assert {"how", "exit_code"} <= ended
    others = as_user(bob).get(url_of(row, "/diff?a=2&b=3")).json()
    assert (others["said"], others["files"]) == ([], {})  # whoever knows the digest may run it
    assert as_user(alice).get(url_of(row, "/diff")).json() == told
    for numbers in ("?a=1", "?a=x&b=2", "?a=1&b=99999999999"):
        assert as_user(alice).get(url_of(row, f"/diff{numbers}")).status_code == 400
    page = as_user(alice).get(f"{row.get_absolute_url()}runs/?of=2&of=3").content.decode()
    assert "old.py" in page
    again = 'Run again<span class="visually-hidden"> Run 3</span>'
    assert again in page
    assert again not in as_user(bob).get(f"{row.get_absolute_url()}runs/").content.decode()
    one = as_user(alice).get(f"{row.get_absolute_url()}runs/?of=2").content.decode()
    assert "Choose two runs" in one


def test_a_page_of_runs_costs_the_same_for_many(made: Any, alice: Any, as_user: Any) -> None:
    row = made(alice)
    client, counts = as_user(alice), []
    for number in (2, 120):
        Run.objects.bulk_create(
            Run(job=row, launch=number + n, asked_at=now(), by=alice) for n in range(number)
        )
        for url in (url_of(row), f"{row.get_absolute_url()}runs/"):
            client.get(url)
            with CaptureQueriesContext(connection) as seen:
                assert client.get(url).status_code == 200
            counts.append(len(seen))
    assert counts[:2] == counts[2:]


def test_a1_runs_of_all_jobs_are_told_as_far_as_one_may_read_them(
    made: Any, end: Any, alice: Any, bob: Any, charlie: Any, as_user: Any
) -> None:
    for user, name in ((alice, "first"), (bob, "second")):
        end(made(user, name=name, env={"KEY": "v"}), 0)
    gone = made(alice, name="gone")
    Job.objects.filter(pk=gone.pk).update(deleted_at=now())
    url = f"/api/v1/projects/{gone.project.slug}/jobs/runs"
    told = as_user(alice).get(url).json()["results"]
    assert [(one["name"], one["by"], one["how"]) for one in told] == [
        ("second", "bob", "succeeded"),
        ("first", "alice", "succeeded"),
    ]
    assert [one["variables"] for one in told] == [None, ["KEY"]]
    assert [one["said"]["command"] for one in told] == [None, ["python", "train.py"]]
    assert as_user(charlie).get(url).status_code == 404


def test_ten_thousand_runs_of_a_project_cost_six_queries(
    made: Any, alice: Any, as_user: Any
) -> None:
    jobs = [made(alice, name=f"job-{n}") for n in range(4)]
    Run.objects.bulk_create(
        Run(job=job, launch=2 + n, asked_at=now(), by=alice) for job in jobs for n in range(2_500)
    )
    client, url = as_user(alice), f"/api/v1/projects/{jobs[0].project.slug}/jobs/runs"
    client.get(url)
    with CaptureQueriesContext(connection) as seen:
        page = client.get(url).json()
    assert page["results"][0]["run"] == 2_501
    assert len({one["run"] for one in page["results"]}) == len(page["results"]) > 1
    assert page["next"]
    assert len(seen) <= 6, [one["sql"] for one in seen]


def test_a_run_that_was_changed_while_it_waited_is_closed(
    made: Any, alice: Any, principal: Any
) -> None:
    row = made(alice)
    row.launch += 1
    run_keep(principal(alice), row)
    first = Run.objects.get(job=row, launch=1)
    assert (first.how, first.reason) == ("cancelled", "replaced")
    assert first.ended_at is not None
    assert Run.objects.get(job=row, launch=2).ended_at is None


def test_a_smoke_run_is_changed_and_started_by_nobody_and_goes_with_its_job(
    made: Any, alice: Any, principal: Any, project: Any
) -> None:
    row = made(alice, smoke=True)
    one = Job.objects.get(smoke_of=row.uid)
    for act in (
        lambda: services.workload_edit(principal=principal(alice), row=one, said={"gpus": 8}),
        lambda: services.workload_start(principal=principal(alice), row=one),
    ):
        with pytest.raises(Forbidden):
            act()
    workloads_stop_for(reason="project-archived", project=project)
    one.refresh_from_db()
    row.refresh_from_db()
    assert (row.desired, one.desired) == ("stopped", "absent")
    alone = Job.objects.filter(pk=one.pk)
    alone.update(desired="running", phase="running")  # whatever let its job go without it
    workloads_stop_for(reason="project-archived", project=project)
    assert alone.get().desired == "stopped"


def test_a_run_of_before_is_run_with_changes_by_api_and_page(
    made: Any, end: Any, settle: Any, alice: Any, bob: Any, as_user: Any, principal: Any
) -> None:
    row = made(alice, env={"LR": "1"}, replicas=2, args=["--epochs", "3"], retries=2)
    end(row, 0)
    said = {"env": {"LR": "2"}, "replicas": 1, "args": [], "retries": 0}
    services.workload_edit(principal=principal(alice), row=row, said=said)
    page = f"{row.get_absolute_url()}run-changed/"
    html = as_user(alice).get(f"{page}?run=1").content.decode()
    assert 'name="replicas" value="2"' in html
    assert "LR=1" in html
    assert as_user(bob).get(f"{page}?run=1").status_code == 403
    assert as_user(alice).get(f"{page}?run=7").status_code == 404

    wrong = as_user(alice).post(page, {"run": "1", "replicas": "99", "command": "x"})
    assert wrong.status_code == 422
    form = {"run": "1", "replicas": "4", "retries": "2", "env": "LR=1"}
    answer = as_user(alice).post(page, form | {"command": "python train.py", "args": ""})
    assert (answer.status_code, answer["Location"]) == (302, row.get_absolute_url())
    row.refresh_from_db()
    assert (row.replicas, row.retries, dict(row.env), row.args) == (4, 2, {"LR": "1"}, [])
    again = {"replicas": 3}
    url = url_of(row, "/1/again")
    refused = as_user(alice).post(url, again, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (409, "running")
    end(settle(row), 0)
    assert as_user(alice).post(url, again, content_type="application/json").status_code == 202
    row.refresh_from_db()
    assert (row.replicas, row.args) == (3, ["--epochs", "3"])
    assert [run.said["replicas"] for run in Run.objects.filter(job=row)] == [3, 4, 2]


def test_a_start_that_is_refused_changes_nothing(
    made: Any, end: Any, alice: Any, as_user: Any, project: Any, settle: Any, principal: Any
) -> None:
    row = made(alice, args=["--epochs", "3"])
    end(row, 0)
    row = services.workload_edit(principal=principal(alice), row=row, said={"args": ["x"]})
    before = (row.args, row.generation, row.launch)
    project.archived_at = now()
    project.save()
    answer = as_user(alice).post(url_of(row, "/1/again"))
    assert (answer.status_code, answer.json()["code"]) == (409, "project-archived")
    row.refresh_from_db()
    assert (row.args, row.generation, row.launch) == before


def test_the_page_of_all_runs_is_filtered_and_compares_any_two(
    made: Any, end: Any, alice: Any, bob: Any, charlie: Any, as_user: Any, project: Any
) -> None:
    base = f"/projects/{project.slug}/jobs/runs/"
    assert "No run yet" in as_user(alice).get(base).content.decode()
    first = made(alice, name="first", args=["--lr", "1"])
    end(first, 0)
    second = made(bob, name="second")
    end(second, 3)
    html = as_user(alice).get(base).content.decode()
    assert f'value="{first.short_id}.1"' in html
    assert f'value="{second.short_id}.1"' in html
    assert base in as_user(alice).get(f"/projects/{project.slug}/").content.decode()
    assert base in as_user(alice).get(f"/projects/{project.slug}/jobs/").content.decode()
    today = now().date().isoformat()
    for query, names in (
        ("state=failed", {"second"}),
        ("by=alice", {"first"}),
        ("job=sec", {"second"}),
        (f"since={today}&until={today}", {"first", "second"}),
        ("until=2020-01-01", set()),
        ("state=running", set()),
    ):
        html = as_user(alice).get(f"{base}?{query}").content.decode()
        shown = {row.name for row in (first, second) if f'value="{row.short_id}.1"' in html}
        assert shown == names, query
        api = f"/api/v1/projects/{project.slug}/jobs/runs?{query}"
        told = as_user(alice).get(api).json()["results"]
        assert {one["name"] for one in told} == names, query
    assert "No run is like that" in html
    assert "Enter a valid date" in as_user(alice).get(f"{base}?since=x").content.decode()
    pair = f"of={first.short_id}.1&of={second.short_id}.1"
    html = as_user(alice).get(f"{base}?{pair}").content.decode()
    assert "first</a> · Run 1" in html
    assert "--lr" not in html  # the arguments of the other one are not alice's to compare
    assert "Choose two runs" in as_user(alice).get(f"{base}?of={first.short_id}.1").content.decode()
    assert as_user(alice).get(f"{base}?of=nope.1&{pair}").status_code == 404
    assert as_user(charlie).get(base).status_code == 404


def test_ten_thousand_runs_on_a_page_cost_as_much_as_two(
    made: Any, alice: Any, as_user: Any, project: Any
) -> None:
    jobs = [made(alice, name=f"job-{n}") for n in range(4)]
    client, counts = as_user(alice), []
    pages = f"/projects/{project.slug}/jobs/runs/", f"/projects/{project.slug}/jobs/"
    for number in (1, 2_500):
        Run.objects.bulk_create(
            Run(job=job, launch=number + n + 1, asked_at=now(), by=alice)
            for job in jobs
            for n in range(number)
        )
        for url in pages:
            client.get(url)
            with CaptureQueriesContext(connection) as seen:
                assert client.get(url).status_code == 200
            counts.append([one["sql"] for one in seen])
    assert len(counts[2]) == len(counts[0])
    own = [sql for sql in counts[2] if "jobs_run" in sql]
    assert len(own) == 2  # the count and the page
    assert len(counts[2]) <= len(counts[3])  # all the rest is the frame of any page
