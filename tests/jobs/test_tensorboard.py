"""TensorBoard of runs, by services and pages; the real one is in test_real_tensorboard.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound
from jobs.models import Job, Run
from jobs.tensorboard import shown_by, tensorboard_open
from loaders.models import Load
from notebooks.models import Preset, Workspace
from notebooks.programs import LACKS, tensorboard
from notebooks.runtime_spec import process_spec
from notebooks.services import ensure_default_presets
from runtime.hints import hint
from work import services
from work.kinds import kind_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _presets() -> None:
    ensure_default_presets()


@pytest.fixture
def made(project: Any, principal: Any, settle: Any, shared: Any) -> Callable[..., Job]:
    """A job that keeps what it writes, started so many times."""

    def make(user: Any, times: int = 1, **said: Any) -> Job:
        base = {"name": "train", "command": ["python", "train.py"], "output": "volume:shared/kept"}
        row: Job = services.workload_create(
            principal=principal(user), project=project, kind=kind_of("job"), said={**base, **said}
        )
        settle(shared)
        settle(row)
        for launch in range(2, times + 1):
            services.workload_stop(principal=principal(user), row=row)
            settle(row)
            row = services.workload_start(principal=principal(user), row=row)
            assert row.launch == launch
            settle(row)
        return row

    return make


def test_one_press_makes_a_workspace_that_only_reads_and_another_finds_it(
    made: Any, principal: Any, alice: Any, fake: Any, settle: Any
) -> None:
    job = made(alice, checkpoints="shared/saved")
    row = tensorboard_open(principal=principal(alice), row=job)
    assert isinstance(row, Workspace)
    assert (row.variant, row.name, row.gpus) == ("tensorboard", "TensorBoard train 1", 0)
    assert row.idle_stop_minutes == 60
    folder = f"kept/train-{job.short_id}/1"
    assert row.logdir == [f"shared/{folder}", f"shared/saved/{job.short_id}"]
    assert [(one.volume.name, one.read_only) for one in row.mounts.all()] == [("shared", True)]
    assert tensorboard_open(principal=principal(alice), row=job) == row
    spec = process_spec(Workspace.objects.get(pk=row.pk))
    assert spec.command[:2] == ("python3", "-c")
    assert spec.command[-2:] == tuple(row.logdir)
    assert [(mount.name, mount.read_only) for mount in spec.mounts] == [("shared", True)]

    services.workload_stop(principal=principal(alice), row=row)
    settle(row)
    again = tensorboard_open(principal=principal(alice), row=job)
    assert (again.pk, again.launch) == (row.pk, 2)  # the same, started
    services.workload_delete(principal=principal(alice), row=again)
    other = tensorboard_open(principal=principal(alice), row=job)
    assert other.pk != row.pk  # also a moment after the first one went


def test_it_is_of_whoever_may_read_the_run_and_never_of_a_stranger(
    made: Any, principal: Any, alice: Any, bob: Any, vera: Any, as_user: Any, charlie: Any
) -> None:
    job = made(alice)
    mine = tensorboard_open(principal=principal(alice), row=job)
    his = tensorboard_open(principal=principal(bob), row=job)
    assert his.pk != mine.pk
    assert (his.owner, his.logdir) == (bob, mine.logdir)
    with pytest.raises(Forbidden):  # who may only look starts nothing
        tensorboard_open(principal=principal(vera), row=job)
    url = f"/api/v1/projects/{job.project.slug}/jobs/{job.short_id}/tensorboard"
    assert as_user(charlie).post(url, {}, content_type="application/json").status_code == 404
    page = f"/projects/{job.project.slug}/jobs/{job.short_id}/"
    assert as_user(charlie).post(f"{page}tensorboard/").status_code == 404
    assert "Open TensorBoard" in as_user(bob).get(page).content.decode()
    assert "Open TensorBoard" not in as_user(vera).get(page).content.decode()


def test_several_runs_stand_beside_each_other(
    made: Any, principal: Any, alice: Any, as_user: Any
) -> None:
    job = made(alice, times=2)
    base = f"/projects/{job.project.slug}/jobs/{job.short_id}/"
    compared = as_user(alice).get(f"{base}runs/", {"of": ["1", "2"]}).content.decode()
    assert "Both in TensorBoard" in compared
    answer = as_user(alice).post(f"{base}tensorboard/", {"run": ["1", "2"]})
    row = Workspace.objects.get()
    assert answer["Location"] == f"{row.get_absolute_url()}?open=1"
    folder = f"shared/kept/train-{job.short_id}"
    assert row.logdir == [f"{folder}/2", f"{folder}/1"]
    assert row.name == "TensorBoard train 1-2"
    with pytest.raises(NotFound):
        tensorboard_open(principal=principal(alice), row=job, launches=[1, 9])
    with pytest.raises(Conflict, match="At most 20"):
        tensorboard_open(principal=principal(alice), row=job, launches=range(1, 30))


def test_runs_of_several_jobs_stand_beside_each_other(
    made: Any, principal: Any, alice: Any, bob: Any, vera: Any, as_user: Any, project: Any
) -> None:
    one, two = made(alice, times=2), made(bob, name="wide", checkpoints="shared/saved")
    made(alice, name="third", output="")
    base = f"/projects/{project.slug}/jobs/"
    listed = as_user(alice).get(f"{base}runs/").content.decode()
    assert "Show all chosen in TensorBoard" in listed
    assert "Show all chosen" not in as_user(vera).get(f"{base}runs/").content.decode()
    chosen = [f"{two.short_id}.1", f"{one.short_id}.1", f"{one.short_id}.2"]
    answer = as_user(alice).post(f"{base}runs/", {"of": chosen, "curves": "1", "state": "failed"})
    row = Workspace.objects.get()
    assert answer["Location"] == f"{row.get_absolute_url()}?open=1"
    assert row.logdir == [
        f"shared/kept/train-{one.short_id}/2",
        f"shared/kept/train-{one.short_id}/1",
        f"shared/kept/wide-{two.short_id}/1",
        f"shared/saved/{two.short_id}",
    ]
    assert row.name == "TensorBoard train 2, train 1, wide 1"
    api = f"/api/v1/projects/{project.slug}/jobs/{one.short_id}/tensorboard"
    said = {"runs": [2, 1], "beside": [two.short_id]}
    told = as_user(alice).post(api, said, content_type="application/json")
    assert (told.status_code, told.json()["workspace"]) == (202, row.short_id)  # the same
    of_one = as_user(alice).post(f"{base}{one.short_id}/runs/", {"of": ["2", "1"], "curves": "1"})
    assert Workspace.objects.latest("pk").name == "TensorBoard train 1-2", of_one["Location"]


def test_what_is_chosen_to_compare_is_an_address_and_what_cant_be_shown_says_why(
    made: Any, alice: Any, as_user: Any, project: Any
) -> None:
    one, two = made(alice), made(alice, name="wide")
    base = f"/projects/{project.slug}/jobs/runs/"
    chosen = {"of": [f"{one.short_id}.1", f"{two.short_id}.1"]}
    answer = as_user(alice).post(base, {**chosen, "state": "running"})
    named = "&".join(f"of={name}" for name in chosen["of"])
    assert (answer.status_code, set(answer["Location"].partition("?")[2].split("&"))) == (
        302,
        {*named.split("&"), "state=running"},
    )
    client = as_user(alice)
    assert client.post(base, {"curves": "1"})["Location"].startswith(base)
    assert "Choose runs in the list first." in client.get(base).content.decode()
    Job.objects.filter(pk=two.pk).update(cluster_key="alpha")
    answer = as_user(alice).post(base, {**chosen, "curves": "1"})
    assert answer.status_code == 409
    assert "What runs on different clusters wrote" in answer.content.decode()
    api = f"/api/v1/projects/{project.slug}/jobs/{one.short_id}/tensorboard"
    for beside, status in ((["nothing.1"], 404), ([f"{two.short_id}.9"], 404), (["a.b"], 404)):
        said = as_user(alice).post(api, {"beside": beside}, content_type="application/json")
        assert said.status_code == status, said.content
    said = as_user(alice).post(api, {"beside": [f"{two.short_id}.x"]}, "application/json")
    assert (said.status_code, list(said.json()["fields"])) == (400, ["beside"])
    Job.objects.filter(pk=two.pk).update(launch=0)  # it never began
    said = as_user(alice).post(api, {"beside": [two.short_id]}, "application/json")
    assert (said.status_code, said.json()["code"]) == (409, "no-run")
    with CaptureQueriesContext(connection) as asked:  # PostgreSQL refuses to compare with NUL
        assert as_user(alice).post(base, {"of": ["\0.1"], "curves": "1"}).status_code == 404
    assert not any('"short_id" = ' in one["sql"] for one in asked)
    assert not Workspace.objects.exists()


def test_what_keeps_nothing_says_what_to_do(made: Any, principal: Any, alice: Any) -> None:
    job = made(alice, output="")
    with pytest.raises(Conflict, match="Nothing that it writes is kept: name an output"):
        tensorboard_open(principal=principal(alice), row=job)


def test_a_folder_that_went_after_its_copy_is_loaded_back_first(
    made: Any, principal: Any, alice: Any, credential: Any
) -> None:
    credential(alice)
    job = made(alice, output="s3://lake/results")
    Run.objects.filter(job=job).update(output_cleared_at=now())
    row = tensorboard_open(principal=principal(alice), row=job)
    load = Load.objects.get(made_for=None)
    assert load.url == f"s3://lake/results/train-{job.short_id}/1/"
    assert (load.direction, load.folder) == ("in", f"job-outputs/train-{job.short_id}/1")
    assert [need.needed.uid for need in row.needs.all()] == [load.uid]


def test_an_image_without_it_is_said_in_one_sentence(
    made: Any, principal: Any, alice: Any, fake: Any, settle: Any
) -> None:
    row = settle(tensorboard_open(principal=principal(alice), row=made(alice)))
    fake.exit(str(row.uid), code=LACKS)
    hint(row)
    row = settle(row)
    assert row.shown_phase == "failed"
    assert str(row.why.text) == "Its image or environment has no TensorBoard."
    assert f"\nLACKS = {LACKS} " in tensorboard()


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        ({"kind": "tensorboard"}, "logdir", "Say which folders"),
        ({"kind": "notebook", "logdir": ["shared/a"]}, "logdir", "Only TensorBoard"),
        ({"kind": "tensorboard", "logdir": ["shared/../x"]}, "logdir", "without"),
        ({"kind": "tensorboard", "logdir": ["theirs/x"]}, "logdir", "none of its volumes"),
        ({"kind": "tensorboard", "logdir": ["shared/a"], "gpus": 1}, "gpus", "uses no GPU"),
        ({"kind": "tensorboard", "logdir": ["shared/a"], "command": ["x"]}, "command", ""),
    ],
)
def test_what_it_can_not_show_is_refused_at_its_field(
    project: Any, principal: Any, alice: Any, shared: Any, said: Any, field: str, words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        services.workload_plan(
            principal=principal(alice), project=project, kind=kind_of("workspace"), said=said
        )
    assert words in str(refused.value.fields[field])


def test_its_page_leads_back_to_the_runs_and_checkpoints_that_it_shows(
    made: Any, principal: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    job = made(alice, times=2, checkpoints="shared/saved")
    board = tensorboard_open(principal=principal(alice), row=job, launches=[1, 2])
    page = as_user(alice).get(board.get_absolute_url()).content.decode()
    base = job.get_absolute_url()
    for address, words in (
        (f"{base}goodput/?run=2", "Run 2 of train"),
        (f"{base}goodput/?run=1", "Run 1 of train"),
        (base, "Checkpoints of train"),
    ):
        assert f'<a href="{address}">{words}</a>' in page
        if address != base:
            assert as_user(alice).get(address).status_code == 200
    assert "Runs that it shows" not in as_user(bob).get(board.get_absolute_url()).content.decode()
    services.workload_delete(principal=principal(alice), row=job)
    Job.objects.filter(pk=job.pk).update(deleted_at=now())
    page = as_user(alice).get(board.get_absolute_url()).content.decode()
    assert "Runs that it shows" not in page


def test_one_that_shows_a_whole_volume_looks_through_no_runs(
    made: Any, principal: Any, alice: Any, django_assert_num_queries: Any
) -> None:
    made(alice, times=2, output="")
    made(alice, name="other")
    board = tensorboard_open(principal=principal(alice), row=Job.objects.get(name="other"))
    for whole in ("shared", "shared/"):
        board.logdir = [whole]
        with django_assert_num_queries(0):
            assert shown_by(board) == []


def test_a_project_without_presets_has_it_in_its_own_size(
    made: Any, principal: Any, alice: Any, as_user: Any, settle: Any
) -> None:
    Preset.objects.all().delete()
    job = made(alice)
    board = settle(tensorboard_open(principal=principal(alice), row=job))
    assert (board.preset, board.cpu_milli, board.memory_mib, board.gpus) == (None, 1000, 2048, 0)
    assert board.idle_stop_minutes == 60
    assert board.phase == "running"
    client = as_user(alice)
    for address in ("", "settings/", "usage/"):
        assert client.get(f"{board.get_absolute_url()}{address}").status_code == 200
    at = f"/api/v1/projects/{board.project.slug}/workspaces/{board.short_id}"
    assert client.get(at).status_code == 200
    with pytest.raises(Conflict, match="no preset"):  # all else says what it needs
        services.workload_create(
            principal=principal(alice), project=board.project, kind=kind_of("workspace"), said={}
        )
