"""Usage as a page, as CSV and through the API."""

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.models import Flavor
from common.clock import now
from common.ids import new_uid
from usage.models import Interval
from usage.selectors import MOST_PARTS

pytestmark = pytest.mark.django_db


@pytest.fixture
def held(project: Any, alice: Any, bob: Any) -> Any:
    at = now()

    def make(owner: Any, launch: int, begin: float, end: float | None, **extra: Any) -> Interval:
        return Interval.objects.create(
            **{
                "uid": project.uid,
                "launch": launch,
                "kind": "workspace",
                "name": "Lab",
                "project_uid": project.uid,
                "project_slug": project.slug,
                "owner_uid": owner.uid,
                "owner_name": owner.username,
                "cluster_key": "local",
                "gpus": 2,
                "flavor": "h100-80",
                "cpu_milli": 4000,
                "memory_mib": 8192,
                "started_at": at - timedelta(hours=begin),
                "ended_at": None if end is None else at - timedelta(hours=end),
                **extra,
            }
        )

    make(alice, 1, 10, 6)
    make(alice, 2, 2, None)
    make(bob, 3, 5, 4, gpus=0, flavor="")
    make(bob, 4, 24 * 100, 24 * 99)
    return make


def test_hours_are_cut_at_the_edges_of_the_span(
    project: Any, alice: Any, held: Any, as_user: Any
) -> None:
    since = (now() - timedelta(hours=8)).isoformat().replace("+00:00", "Z")
    data = as_user(alice).get(f"/api/v1/projects/vision/usage?since={since}").json()
    people = {p["label"]: p for p in data["people"]}
    assert people["alice"]["gpu_hours"] == pytest.approx(2 * (2 + 2), abs=0.01)
    assert people["bob"]["gpu_hours"] == 0
    assert people["bob"]["cpu_hours"] == pytest.approx(4, abs=0.01)
    assert data["held"] == {
        "workloads": 1,
        "gpus": 2,
        "gpu_hours": pytest.approx(4, abs=0.01),
    }


def test_hours_over_time_are_those_of_the_whole_cut_at_midnight(
    project: Any, alice: Any, held: Any, as_user: Any
) -> None:
    page = as_user(alice).get("/projects/vision/usage?since=2026-01-01&until=2026-01-02")
    assert [part.gpu_hours for part in page.context["report"].over_time.parts] == [0, 0]
    begin = datetime(2026, 1, 1, 22, tzinfo=UTC)
    Interval.objects.filter(launch=1).update(started_at=begin, ended_at=begin + timedelta(hours=5))
    page = as_user(alice).get("/projects/vision/usage?since=2026-01-01&until=2026-01-02")
    parts = page.context["report"].over_time.parts
    assert [part.gpu_hours for part in parts] == [4, 6]
    assert [part.cpu_hours for part in parts] == [8, 12]
    html = page.content.decode()
    assert 'data-hours="over-time-table"' in html
    assert 'data-day="2026-01-02" data-gpu="6.000"' in html
    long = as_user(alice).get("/projects/vision/usage?since=2020-01-01&until=2026-12-31")
    report = long.context["report"]
    assert 50 <= len(report.over_time.parts) <= MOST_PARTS
    assert sum(p.gpu_hours for p in report.over_time.parts) == pytest.approx(
        report.total.gpu_hours, abs=0.01
    )


def test_my_usage_is_mine_only(project: Any, bob: Any, held: Any, as_user: Any) -> None:
    data = as_user(bob).get("/api/v1/me/usage").json()
    assert data["total"]["launches"] == 1
    assert as_user(bob).get("/usage/").status_code == 200


def test_the_page_shows_hours_by_person_and_by_kind(
    project: Any, vera: Any, held: Any, as_user: Any
) -> None:
    html = as_user(vera).get("/projects/vision/usage").content.decode()
    assert "12.0" in html
    assert "h100-80" in html


def test_all_projects_are_for_operators_and_auditors(
    project: Any, alice: Any, auditor: Any, held: Any, as_user: Any
) -> None:
    assert as_user(alice).get("/usage/all").status_code == 403
    assert as_user(auditor).get("/usage/all").status_code == 200
    assert as_user(auditor).get("/api/v1/usage").json()["people"][0]["label"] == "vision"


def test_b3_the_csv_runs_nothing_in_a_spreadsheet(
    project: Any, alice: Any, held: Any, as_user: Any
) -> None:
    Interval.objects.filter(launch=1).update(name='=HYPERLINK("http://evil")', end_reason="+1")
    for url in ("/api/v1/projects/vision/usage.csv", "/projects/vision/usage?format=csv"):
        response = as_user(alice).get(url)
        assert response["Content-Type"].startswith("text/csv")
        text = b"".join(response.streaming_content).decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows[0]["name"] == '\'=HYPERLINK("http://evil")'
        assert rows[0]["end_reason"] == "'+1"
        assert float(rows[0]["gpu_hours_in_span"]) == pytest.approx(8, abs=0.01)
        assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=2026-02-30",
        "since=2026-01-02&until=2026-01-01",
        "since=0001-01-01",
        "until=9999-12-31&since=9999-12-30T00:00:00Z9",
        "since=%00",
    ],
)
def test_a_wrong_span_is_refused(project: Any, alice: Any, as_user: Any, query: str) -> None:
    assert as_user(alice).get(f"/api/v1/projects/vision/usage?{query}").status_code == 400


def test_the_intervals_themselves(project: Any, alice: Any, held: Any, as_user: Any) -> None:
    rows = as_user(alice).get("/api/v1/projects/vision/usage/intervals").json()["results"]
    assert [r["launch"] for r in rows] == [3, 2, 1]


def test_pages_say_names_of_people_projects_and_kinds(
    project: Any, alice: Any, auditor: Any, held: Any, as_user: Any
) -> None:
    Flavor.objects.create(name="h100-80", label="H100 80 GB")
    html = as_user(alice).get("/projects/vision/usage").content.decode()
    assert alice.label in html
    assert "H100 80 GB" in html
    assert project.name in as_user(auditor).get("/usage/all").content.decode()


def test_what_is_gone_keeps_the_word_that_was_written_down(
    project: Any, alice: Any, held: Any, as_user: Any
) -> None:
    held(alice, 9, 3, 2, owner_uid=new_uid(), owner_name="gone-person")
    assert "gone-person" in as_user(alice).get("/projects/vision/usage").content.decode()


def test_large_numbers_have_separators(project: Any, alice: Any, held: Any, as_user: Any) -> None:
    held(alice, 9, 500, 250, gpus=8)
    assert "2,012.0" in as_user(alice).get("/projects/vision/usage").content.decode()
