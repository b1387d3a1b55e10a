"""Every list costs the same number of queries with one row and with thirty.

The numbers are committed in query_counts.json; a list that is not there fails. After a change
that is wanted: BERTH_UPDATE_QUERY_COUNTS=1 pytest tests/architecture/test_query_counts.py
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.architecture import rows, world
from tests.architecture.routes import Route, every_route

BASELINE = Path(__file__).with_name("query_counts.json")
MOST_OF_API = 6
MOST_OF_A_REPORT = 13  # sums of several tables, or all there is, not rows of one
REPORTS = ("fleet", "ratios", "ratios.csv", "waste", "waste.csv")
# Pages of the whole platform that draw a moment, not a list, or read the machine.
SKIPPED = ("/console/system/", "/console/audit/export")


def lists() -> list[Route]:
    """Every GET route that needs nothing but a project."""
    return [
        r for r in every_route() if r.is_ours and "GET" in r.verbs and set(r.params) <= {"project"}
    ]


def measure(client: Any, url: str, *, is_known: bool = False) -> int:
    if not is_known:
        client.get(url)  # whatever is loaded once is loaded now
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
        if response.streaming:
            b"".join(response.streaming_content)
    assert response.status_code in {200, 302}, f"{url}: {response.status_code}"
    return len([q for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))])


@pytest.mark.django_db
@pytest.mark.parametrize("is_api", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_list_costs_the_same_for_one_row_and_for_thirty(
    is_api: bool, project: Any, alice: Any, as_user: Any
) -> None:
    """The API's by itself: the pages take seven seconds of a core."""
    alice.platform_role = "operator"
    alice.save()
    client = as_user(alice)
    urls = {r: world.address(r, {"project": project.slug}) for r in lists()}
    known = set(urls.values())
    urls = {r: u for r, u in urls.items() if u not in SKIPPED and r.is_api is is_api}
    client.get(f"/projects/{project.slug}/")  # the session knows its project from here on
    rows.fill(1, project=project, user=alice, mark="a")
    one = {url: measure(client, url) for url in urls.values()}
    rows.fill(29, project=project, user=alice, mark="b")
    thirty = {url: measure(client, url, is_known=True) for url in urls.values()}
    # what is written once a minute (when somebody was last seen) belongs to no page: look again
    for url in [u for u in one if thirty[u] > one[u]]:
        again = [measure(client, url) for _turn in range(2)]  # nor what is asked every few seconds
        thirty[url] = min(thirty[url], *again)
    grown = {u: (one[u], thirty[u]) for u in one if thirty[u] > one[u]}
    assert not grown, f"queries grow with the rows: {grown}"
    api = {r.path: thirty[u] for r, u in urls.items() if r.is_api}
    most = {p: MOST_OF_A_REPORT if p.endswith(REPORTS) else MOST_OF_API for p in api}
    above = {path: n for path, n in api.items() if n > most[path]}
    assert not above, f"more queries than are let: {above}"
    kept = json.loads(BASELINE.read_text())
    if os.environ.get("BERTH_UPDATE_QUERY_COUNTS"):
        kept = {u: n for u, n in (kept | thirty).items() if u in known}
        BASELINE.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
    worse = {u: (kept.get(u), n) for u, n in thirty.items() if n > kept.get(u, -1)}
    assert not worse, f"not in the baseline, or above it: {worse}"
