"""Performance tests through API and pages, as rows and what a job printed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace as LogPart
from typing import Any

import pytest

from jobs.models import Job, Package, Replica
from perftests import reading
from perftests.models import PerfTest
from runtime.hints import hint
from work.services.ending import workload_delete

pytestmark = pytest.mark.django_db
HERE = "/api/v1/projects/vision/perftests"
HEAD = '# perftest {"test": "all-reduce", "backend": "gloo", "ranks": 2}\n'


def table(busbw: float) -> str:
    return f"{HEAD}1024 256 float sum -1 10.0 0.1 0.1 0\n4096 1024 float sum -1 9.0 {busbw} {busbw} 0\n"


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def measure(api: Any, alice: Any, project: Any, settle: Any, fake: Any) -> Callable[..., PerfTest]:
    """Begin a test, let its job print ``says`` and end with ``code``, and read it."""

    def run(says: str = table(0.5), code: int = 0, **said: Any) -> PerfTest:
        answer = api(alice, "POST", HERE, said)
        assert answer.status_code == 202, answer.content
        row = PerfTest.objects.select_related("job").get(uid=answer.json()["id"])
        assert row.job is not None
        settle(row.job)
        fake.write_log(str(row.job.uid), says)
        fake.exit(str(row.job.uid), code=code)
        hint(row.job)
        settle(row.job)
        reading.turn()
        row.refresh_from_db()
        return row

    return run


def test_three_fields_make_a_job_and_what_it_prints_is_kept_with_where_it_ran(
    measure: Any,
) -> None:
    row = measure(test="all-reduce", replicas=2, gpus=0)
    assert (row.state, row.backend, row.headline) == ("succeeded", "gloo", 0.5)
    assert row.cluster_key == "local"
    assert row.nodes == sorted(
        set(Replica.objects.filter(job=row.job).values_list("node", flat=True))
    )
    job = row.job
    assert (job.replicas, job.command) == (2, ["python3", "collective.py"])
    assert job.code == f"package:{Package.objects.get().sha256}"
    measure()
    assert Package.objects.count() == 1  # sent once, kept once


def test_a_regression_is_said_beside_the_baseline_by_api_and_on_pages(
    measure: Any, api: Any, alice: Any, client: Any
) -> None:
    first = measure(table(0.5))
    chosen = api(alice, "POST", f"{HERE}/{first.uid}/baseline")
    assert chosen.json()["is_baseline"] is True
    slow = measure(table(0.44))
    beside = api(alice, "GET", f"{HERE}/{slow.uid}").json()["beside_baseline"]
    assert (beside["regression"], round(beside["change"], 2)) == (True, -0.12)
    assert "12\N{NO-BREAK SPACE}% under the baseline" in beside["sentence"]
    client.force_login(alice)
    for page in ("/projects/vision/perftests/", slow.get_absolute_url()):
        assert "12\N{NO-BREAK SPACE}% under the baseline" in client.get(page).content.decode()
    other_shape = measure(table(0.1), replicas=3)
    assert api(alice, "GET", f"{HERE}/{other_shape.uid}").json()["beside_baseline"] is None


def test_one_baseline_of_a_shape_the_newest_choice(measure: Any, api: Any, alice: Any) -> None:
    first, second = measure(), measure()
    for row in (first, second, second):
        assert api(alice, "POST", f"{HERE}/{row.uid}/baseline").status_code == 200
    assert list(PerfTest.objects.filter(is_baseline=True)) == [second]


def test_what_did_not_end_well_is_no_baseline_and_says_why(
    measure: Any, api: Any, alice: Any
) -> None:
    failed = measure(code=3)
    assert (failed.state, failed.message) == ("failed", "Its job failed: the log says why.")
    silent = measure("nothing of use\n")
    assert silent.state == "failed"
    assert "printed no result" in silent.message
    wrong = measure(table(0.5).replace("0.5 0\n", "0.5 7\n"))
    assert wrong.state == "failed"
    assert "were wrong" in wrong.message
    for row in (failed, silent, wrong):
        assert api(alice, "POST", f"{HERE}/{row.uid}/baseline").status_code == 409


def test_a_result_outlives_its_job_and_is_removed_by_its_owner_or_a_manager(
    measure: Any, api: Any, alice: Any, bob: Any, settle: Any
) -> None:
    row = measure()
    job = Job.objects.get(pk=row.job_id)
    workload_delete(principal=_who(alice), row=job)
    settle(job)
    assert api(alice, "GET", f"{HERE}/{row.uid}").json()["headline"] == 0.5
    assert api(alice, "DELETE", f"{HERE}/{row.uid}").status_code == 204
    assert not PerfTest.objects.exists()


def test_a_job_that_is_deleted_before_its_end_ends_the_test(
    api: Any, alice: Any, project: Any, settle: Any
) -> None:
    row = PerfTest.objects.get(uid=api(alice, "POST", HERE, {}).json()["id"])
    workload_delete(principal=_who(alice), row=row.job)
    reading.turn()
    row.refresh_from_db()
    assert (row.state, row.message) == ("stopped", "Its job was deleted before it ended.")


def test_a_log_that_can_not_be_read_yet_is_read_later(
    api: Any, alice: Any, project: Any, settle: Any, fake: Any, monkeypatch: Any
) -> None:
    from common.errors import Unavailable

    row = PerfTest.objects.select_related("job").get(uid=api(alice, "POST", HERE, {}).json()["id"])
    settle(row.job)
    fake.exit(str(row.job.uid), code=0)
    hint(row.job)
    settle(row.job)

    def away(*_args: Any, **_kwargs: Any) -> LogPart:
        raise Unavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(reading, "log_read", away)
        reading.turn()
    row.refresh_from_db()
    assert row.state == "running"
    fake.write_log(str(row.job.uid), table(0.5))
    reading.turn()
    row.refresh_from_db()
    assert row.state == "succeeded"


def test_a_scaling_test_says_what_of_the_ideal_was_reached(
    measure: Any, alice: Any, client: Any
) -> None:
    said = HEAD + "scaling 1 1 10.0 100.0\nscaling 2 2 12.5 160.0\n"
    row = measure(said, test="scaling", replicas=2)
    assert row.headline == pytest.approx(0.8)
    client.force_login(alice)
    assert "80 %" in client.get(row.get_absolute_url()).content.decode()


def test_the_form_has_three_fields_keeps_what_was_typed_and_measures_again(
    measure: Any, alice: Any, client: Any
) -> None:
    client.force_login(alice)
    page = client.get("/projects/vision/perftests/new").content.decode()
    assert page.index('name="test"') < page.index('name="replicas"') < page.index("<details")
    refused = client.post(
        "/projects/vision/perftests/new",
        {"test": "all-reduce", "replicas": 2, "gpus": 0, "variables": "LD_PRELOAD=x"},
    )
    assert refused.status_code == 422
    assert "LD_PRELOAD=x" in refused.content.decode()
    refused = client.post(
        "/projects/vision/perftests/new",
        {"test": "all-reduce", "replicas": 0, "gpus": 0, "variables": "NCCL_ALGO=Ring\nNCCL_DEBUG"},
    )
    assert list(refused.context["form"].errors) == ["replicas", "variables"]
    assert "this is not: NCCL_DEBUG" in refused.content.decode()
    alone = client.post(
        "/projects/vision/perftests/new", {"test": "all-reduce", "replicas": 1, "gpus": 1}
    )
    assert alone.status_code == 422
    assert "One alone sends nothing" in alone.content.decode()
    row = measure(variables={"NCCL_ALGO": "Ring"})
    again = client.post(f"{row.get_absolute_url()}again")
    assert again.status_code == 302
    newest = PerfTest.objects.order_by("-id").first()
    assert newest is not None
    assert (newest.pk != row.pk, newest.variables) == (True, {"NCCL_ALGO": "Ring"})
    assert newest.job is not None
    assert dict(newest.job.env) == {"NCCL_ALGO": "Ring"}


def _who(user: Any) -> Any:
    from accounts.principal import Principal

    return Principal(user=user)


def test_the_page_of_jobs_leads_to_them(alice: Any, client: Any, project: Any) -> None:
    client.force_login(alice)
    page = client.get("/projects/vision/jobs/").content.decode()
    assert 'class="btn" href="/projects/vision/perftests/"' in page
