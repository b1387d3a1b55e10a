"""Jobs on a cluster as people have them: replicas that meet, fail, are tried again and cancelled."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from devcluster.programs import go_environment
from tests.cluster.visitors import until
from tests.jobs.running import Jobs
from tests.support import torch
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.git_served import GitServed, git_served

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.real,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def served() -> Iterator[GitServed]:
    with tempfile.TemporaryDirectory() as folder, git_served(Path(folder)) as running:
        Path(folder).chmod(0o755)  # the portal is another user
        yield running


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], served: GitServed) -> Iterator[ClusteredPortal]:
    running = ClusteredPortal(devcluster, f"jb{secrets.token_hex(2)}-", env=served.settings)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def jobs(portal: ClusteredPortal, devcluster: dict[str, Any]) -> Jobs:
    tool = devcluster["images"]["tool"]["reference"]
    size = {"cpu_milli": 500, "memory_mib": 512}
    return Jobs(portal, owner="admin", cluster_key=KEY, image=tool, **size)


def owned(kube: Kube, found: dict[str, Any], version: str, kind: str) -> list[dict[str, Any]]:
    return list(kube.list(version, kind, labelSelector=f"berth.dev/uid={found['uid']}"))


def test_each_replica_is_told_its_number_and_says_how_it_ended(jobs: Jobs, kube: Kube) -> None:
    script = 'echo "$RANK of $WORLD_SIZE, $1"'
    one = jobs.make("ranks", replicas=3, command=["bash", "-c", script, "x"], args=["$(RANK)"])
    found = jobs.until(one, "succeeded")
    assert jobs.logs(found, 3) == [f"{n} of 3, $(RANK)\n" for n in range(3)]
    assert found["exit_code"] == 0
    told = [(r["index"], r["seen"], r["exit_code"], bool(r["node"])) for r in found["replicas"]]
    assert told == [(n, "exited", 0, True) for n in range(3)]
    (job,) = owned(kube, found, "batch/v1", "Job")
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == 3


def test_one_that_fails_is_tried_again_as_it_may_and_ends_the_others(jobs: Jobs) -> None:
    script = 'echo "rank $RANK"; [ "$RANK" = 1 ] && exit 7; exec tini sleep 600'
    one = jobs.make("fails", replicas=2, retries=1, command=["bash", "-c", script])
    found = jobs.until(one, "failed")
    assert (found["exit_code"], found["failed_replica"], found["reason"]) == (7, 1, "exit")
    assert found["steps"].count("restarted") == 1
    zero, other = found["replicas"]
    assert (zero["seen"], zero["reason"], other["exit_code"]) == ("exited", "stopped", 7)


def test_cancelled_no_pod_of_it_is_left_running(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make("long", replicas=2, command=["sleep", "3600"])
    running = jobs.until(one, "running")
    assert len(owned(kube, running, "v1", "Pod")) == 2
    jobs.stop(one)
    found = jobs.until(one, "cancelled")
    assert [r["seen"] for r in found["replicas"]] == ["exited"] * 2
    alive = [p for p in owned(kube, found, "v1", "Pod") if p["status"]["phase"] == "Running"]
    assert (alive, found["exit_code"]) == ([], None)


@pytest.mark.long("PyTorch over two pods: cluster/test_training.py")
def test_pytorch_trains_one_model_on_two_replicas_of_an_image(jobs: Jobs) -> None:
    """By the image's own command: the job says nothing but the image and how many."""
    one = jobs.make("ddp", replicas=2, image=torch.image(), memory_mib=1024)
    found = jobs.until(one, "succeeded", within_s=480)
    zero, other = (torch.trained(text) for text in jobs.logs(found, 2))
    assert (zero[:3], other[:3]) == ((0, 2, 3), (1, 2, 3))
    assert zero[3] == other[3]


TELLS = """
import json, os, time
with open(os.environ["BERTH_EVENTS"], "a", buffering=1) as told:
    for step in range(5):
        print("step", step, flush=True)
        print(json.dumps({"step_count": step, "step_start_time": time.time()}), file=told)
        time.sleep(0.1)
os._exit(3)
"""
_TOLD = """
from jobs.models import Told
rows = Told.objects.filter(job__short_id={short_id!r}, next_at__isnull=True)
answer = list(rows.values("launch", "state"))
"""


def test_g9_what_a_program_in_a_pod_tells_of_its_steps_is_read(
    portal: ClusteredPortal, jobs: Jobs
) -> None:
    """Of both attempts, each in a pod of its own: all of it, and nothing twice."""
    one = jobs.make("tells", command=["python3", "-c", TELLS], memory_mib=256, retries=1)
    found = jobs.until(one, "failed")
    assert "step 4" in jobs.logs(found, 1)[0]

    def told() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = portal.shell(_TOLD.format(short_id=one))
        return rows

    (row,) = until(told, 60)
    state = row["state"]
    assert (row["launch"], state["count"], state["unused"], len(state["starts"])) == (1, 8, 0, 2)


# Told to end it keeps why as a checkpoint, and half of another; it says what it begins with.
KEEPS = """
told() {
  cd "$BERTH_CHECKPOINTS" && mkdir .new half.tmp && cp "$BERTH_NOTICE_FILE" .new/notice
  mv .new at-1; exit 3
}
trap told TERM
echo "begins with $(cat "$BERTH_CHECKPOINT_LATEST/notice" 2>&1)"
sleep 3600 & wait
"""


def test_a7_g13_what_a_node_gives_up_is_told_and_goes_on_from_its_checkpoint(
    portal: ClusteredPortal, jobs: Jobs, kube: Kube, devcluster: dict[str, Any]
) -> None:
    said = {"name": "keeps", "command": ["bash", "-c", KEEPS], "checkpoints": "shared/runs"}
    said |= {"image": devcluster["images"]["tool"]["reference"], "cluster": KEY}
    with portal.api(portal.token("admin")) as api:
        one = ok(api.post("projects/demo/jobs", json={**said, "memory_mib": 256})).json()["id"]
    found = jobs.until(one, "running")
    assert "begins with cat: " in poll_log(jobs, found)
    (pod,) = owned(kube, found, "v1", "Pod")
    meta = {name: pod["metadata"][name] for name in ("name", "namespace")}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    kube.request("POST", path, json=eviction)
    until(lambda: '{"why": "ending", "until": "20' in poll_log(jobs, jobs.look(one)), 120)
    assert jobs.look(one)["exit_code"] is None
    jobs.stop(one)


def poll_log(jobs: Jobs, found: dict[str, Any]) -> str:
    until(lambda: jobs.logs(found, 1)[0], 60)
    return jobs.logs(found, 1)[0]


def test_code_of_a_repository_begins_in_a_pod_and_is_put_into_a_volume_for_the_next(
    portal: ClusteredPortal, jobs: Jobs, served: GitServed, devcluster: dict[str, Any]
) -> None:
    copies = "import os, shutil; shutil.copytree('.', os.environ['BERTH_VOLUMES'] + '/code/exp')"
    commit = served.make("trainer", **{"train.py": f"{copies}; print('first')"})
    size = {"cpu_milli": 250, "memory_mib": 256}
    image = devcluster["images"]["jupyterlab"]["reference"]
    said = {"cluster": KEY, "image": image, "command": ["python3", "train.py"], **size}
    with portal.api(portal.token("admin")) as api:
        wanted = {"name": "code", "size_mib": 1024, "cluster": KEY}
        made = ok(api.post("projects/demo/volumes", json=wanted)).json()
        volume = f"projects/demo/volumes/{made['id']}"
        until(lambda: ok(api.get(volume)).json()["phase"] == "running")
        body = {**said, "volumes": ["code"], "code": served.code("trainer"), "name": "of-git"}
        one = ok(api.post("projects/demo/jobs", json=body)).json()["id"]
        assert jobs.logs(jobs.until(one, "succeeded"), 1) == ["first\n"]
        (run,) = ok(api.get(f"projects/demo/jobs/{one}/runs")).json()["results"]
        assert run["commit"] == commit
        again = "import os; print(sorted(os.listdir()), os.environ['BERTH_CODE'] == os.getcwd())"
        body |= {
            "code": "volume:code/exp",
            "command": ["python3", "-c", again],
            "name": "of-volume",
        }
        one = ok(api.post("projects/demo/jobs", json=body)).json()["id"]
        assert jobs.logs(jobs.until(one, "succeeded"), 1) == ["['train.py'] True\n"]


# It needs neither Python nor a shell, and its image has neither.
GO = """
package main

import "os"

func main() {
	folder, _ := os.Getwd()
	text, _ := os.ReadFile("beside.txt")
	println(folder == os.Getenv("BERTH_CODE"), os.Getenv("BERTH_CODE_TOKEN") == "", string(text))
}
"""


def test_code_comes_to_an_image_that_has_no_python_and_no_shell(
    portal: ClusteredPortal, jobs: Jobs, served: GitServed, devcluster: dict[str, Any]
) -> None:
    served.make("golang", **{"hello.go": GO, "beside.txt": "it is here"})
    tree = served.tree("golang")
    words = ["go", "build", "-o", "hello", "hello.go"]
    subprocess.run(words, cwd=tree, env={**os.environ, **go_environment()}, check=True)
    served.commit("golang")
    said = {"image": devcluster["images"]["pause"]["reference"], "command": ["./hello"]}
    said |= {"cluster": KEY, "code": served.code("golang"), "cpu_milli": 250, "memory_mib": 256}
    shapes = {"none": 1, "pytorch": 2, "tensorflow": 2}  # Job, TrainJob, JobSet
    with portal.api(portal.token("admin")) as api:
        made = {
            ok(
                api.post(
                    "projects/demo/jobs",
                    json={**said, "name": f"go-{word}", "framework": word, "replicas": count},
                )
            ).json()["id"]: count
            for word, count in shapes.items()
        }
    for one, count in made.items():
        logs = jobs.logs(jobs.until(one, "succeeded"), count)
        assert logs == ["true true it is here\n"] * count


def test_c35_a_smoke_run_on_a_cluster_lets_a_good_program_go_on_and_stops_a_typo(
    portal: ClusteredPortal, jobs: Jobs, kube: Kube, served: GitServed, devcluster: dict[str, Any]
) -> None:
    looks = "import os; print('smoke' if os.environ.get('BERTH_SMOKE_RUN') else 'whole')"
    served.make("smoked", **{"good.py": looks, "typo.py": "print('begun'\n"})
    image = devcluster["images"]["jupyterlab"]["reference"]
    said = {"cluster": KEY, "image": image, "code": served.code("smoked"), "smoke": True}
    said |= {"cpu_milli": 250, "memory_mib": 256}
    with portal.api(portal.token("admin")) as api:
        good, typo = (
            ok(
                api.post("projects/demo/jobs", json={**said, "name": w, "command": ["python3", w]})
            ).json()["id"]
            for w in ("good.py", "typo.py")
        )
        found = jobs.until(good, "succeeded")
        assert jobs.logs(found, 1) == ["whole\n"]
        first = ok(api.get(f"projects/demo/jobs/{good}")).json()["smoke"]
        assert first["state"] == "succeeded", first
        failed = jobs.until(typo, "failed")
        assert failed["reason"] == "smoke-failed"
        smoke = ok(api.get(f"projects/demo/jobs/{typo}")).json()["smoke"]
        told = ok(api.get(f"projects/demo/jobs/{smoke['id']}")).json()["status"]["failure"]
    assert "typo.py" in told
    assert not owned(kube, failed, "batch/v1", "Job")
