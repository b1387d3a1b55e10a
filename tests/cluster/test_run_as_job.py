"""C35 on a cluster: a notebook of a pod runs as a job in the same home, after a smoke run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.visitors import Person, named, portal_of_people, until
from tests.jobs.test_real_notebooks import notebook
from tests.support.clustered import ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(600)]
JOBS = "projects/demo/jobs"


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "nj") as running:
        yield running


@pytest.mark.long("a minute; real processes: jobs/test_real_notebooks.py")
def test_c35_a_typo_is_caught_in_a_small_pod_and_mended_it_runs_where_its_notebook_lies(
    ann: Person, kube: Kube
) -> None:
    row = ann.launch(name=named("desk"), memory_mib=1024)
    url = row["status"]["url"]
    assert ann.open(url).status_code == 200

    def write(*cells: str) -> None:
        code = f"import json; open('train.ipynb', 'w').write(json.dumps({notebook(*cells)!r}))"
        assert int(ann.run(url, code)) > 0

    def ended(job: dict[str, Any]) -> Any:
        found = ok(ann.api.get(f"{JOBS}/{job['id']}")).json()
        return found if found["status"]["state"] in {"succeeded", "failed"} else None

    assert ann.run(url, "open('mine.py', 'w').write('word = 42')") == "9"
    write("import mine", "print('sees', mine.word", "1")
    said = {"workspace": row["id"], "script": "train.ipynb", "memory_mib": 1024}
    job = ok(ann.api.post(JOBS, json={"name": named("train"), **said})).json()
    failed = until(lambda: ended(job))
    assert failed["status"]["reason"] == "smoke-failed", failed["status"]
    smoke = ok(ann.api.get(f"{JOBS}/{failed['smoke']['id']}")).json()
    assert "Cell 2 can't be run" in smoke["status"]["failure"]
    assert not kube.list("batch/v1", "Job", labelSelector=f"berth.dev/uid={job['uid']}")

    write("import mine", "print('sees', mine.word)", "{}['gone']")
    ok(ann.api.patch(f"{JOBS}/{job['id']}", json={"smoke": False}))
    ok(ann.api.post(f"{JOBS}/{job['id']}/start"))
    whole = until(lambda: (found := ended(job)) and found["launch"] == 2 and found)
    assert whole["exit_code"] == 1
    assert whole["status"]["failure"].startswith("Cell 3 failed: KeyError: 'gone'")
    kept = ann.script("GET", f"{url}api/contents/train.run-1.ipynb").json()["content"]
    assert kept["cells"][1]["outputs"][0]["text"] == "sees 42\n"
    ok(ann.api.delete(f"{JOBS}/{job['id']}"))
    ok(ann.api.delete(f"projects/demo/workspaces/{row['id']}"))
