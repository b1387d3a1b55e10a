"""Performance tests with a baseline and one that became slower, for the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.clock import now
from perftests.models import PerfTest

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project


def make(project: Project, owner: User) -> list[PerfTest]:
    """Make a baseline, one that is slower on the same nodes, a scaling test, and one that runs."""

    def one(**columns: Any) -> PerfTest:
        values = {
            "project": project,
            "owner": owner,
            "test": "all-reduce",
            "replicas": 2,
            "gpus": 8,
            "max_mib": 512,
            "cluster_key": "kube-1",
            "flavor": "h100-80",
            "nodes": ["gpu-11", "gpu-12"],
            "spread": {"unit": ["su-1"], "rack": ["r1", "r2"]},
            "backend": "nccl",
            "state": "succeeded",
            "ended_at": now(),
            **columns,
        }
        return PerfTest.objects.create(**values)

    def table(most: float) -> list[dict[str, float]]:
        found = []
        for n in range(8):
            size, busbw = 32768 * 4**n, most / (1 + 3 ** (4 - n))
            algbw = busbw / 1.875
            told = {"size": size, "time_us": size / algbw / 1e3, "algbw": algbw, "busbw": busbw}
            found.append({**told, "wrong": 0.0})
        return found

    steps = [
        {"replicas": n, "ranks": n * 8, "step_ms": 41 + n, "steps_per_s": n * 8e3 / (41 + n)}
        for n in (1, 2, 4, 8)
    ]
    for n in range(46):
        one(name=f"all-reduce-2x8-{n:05x}", lines=table(352 + n % 9), created_at=now())
    one(
        name="reduce-scatter-4x8-2c91d",
        test="reduce-scatter",
        replicas=4,
        state="failed",
        message="Its job ended with exit code 1: NCCL WARN Cuda failure 'out of memory'",
    )
    return [
        one(name="all-reduce-2x8-c2f04", lines=table(372), is_baseline=True),
        one(name="all-reduce-2x8-91b7e", lines=table(327), variables={"NCCL_ALGO": "Ring"}),
        one(name="scaling-8x8-0a77c", test="scaling", replicas=8, lines=steps),
        one(
            name="all-gather-2xcpu-55d0e",
            test="all-gather",
            gpus=0,
            flavor="",
            backend="",
            nodes=[],
            spread={},
            cluster_key="",
            state="running",
            ended_at=None,
        ),
    ]


ACTS = {
    "perftest-new-wrong": (("type", "#id_replicas", "1"), ("press", ".card-footer .btn-primary"))
}


def pages(project: Project, rows: list[PerfTest]) -> list[tuple[str, str, str]]:
    here = f"/projects/{project.slug}/perftests/"
    return [
        ("alice", "perftests", here),
        ("alice", "perftests-none", "/projects/speech/perftests/"),
        ("alice", "perftest-new", f"{here}new"),
        ("alice", "perftest-new-wrong", f"{here}new"),
        ("alice", "perftest-slower", rows[1].get_absolute_url()),
        ("alice", "perftest-scaling", rows[2].get_absolute_url()),
        ("alice", "perftest-running", rows[3].get_absolute_url()),
    ]
