"""Which tests may run side by side in one run, and in which order.

``make test`` runs several workers.  What drives the cluster is one lane, so that no two tests
change it at once, but for those that only use it as people do (BESIDE, or marked ``beside``): they
take no GPU and look at namespaces of their own, so they go on while the first lane waits for its
pods. The two take about as long as each other: what comes last decides when the run ends.  What builds and
runs images is another; what starts servers, browsers and workspaces of its own keeps together by
folder, everything else by file.  A lane stays on one worker, in the order written.

The cluster and the stores are built while the other lanes go on: a test that needs them waits here,
before its own clock starts, for as much of them as it needs (``tools/suite_cluster.py`` says what is
there). One marked ``pods`` needs no simulated node, no queue and no metrics: it is among the first.
"""

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tools.suite_cluster import COMING, ENDED, PODS, STORES_BUILT, WHOLE

MACHINE = ("real", "browser", "root", "postgres", "redis", "gpu")
BESIDE = ("browser", "deploy")
LONG = ("browser", "server", "hubapi", "dataplane", "drivers", "runtime")  # minutes each
STORES = {"start_store", "store"}  # fixtures that begin with a real store
ORDER = (COMING, PODS, STORES_BUILT, WHOLE, ENDED)
PATIENCE_S = 75 * 60
POLL_S = 1.0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Long lanes come first: what is handed out last decides when the run ends.

    Files come last, and stay in Django's order: tests that empty tables come after those that
    expect rows.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(lane(item)))
    yield
    items.sort(key=rank)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A scheduler that does not see the lanes would hand out tests one by one, and say nothing."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            assert item.nodeid.endswith(f"@{lane(item)}"), f"{item.nodeid} is in no lane"


def lane(item: pytest.Item) -> str:
    folder = item.nodeid.split("/")[1]
    if item.get_closest_marker("cluster"):
        is_beside = folder in BESIDE or item.get_closest_marker("beside")
        return "cluster-beside" if is_beside else "cluster"
    if item.get_closest_marker("deploy"):
        return "deploy"
    return folder if has_any(item, MACHINE) else item.nodeid.partition("::")[0]


def rank(item: pytest.Item) -> int:
    """Charts come last in their lane: deployments build their images meanwhile."""
    if item.get_closest_marker("cluster"):
        if item.get_closest_marker("deploy"):
            return 3
        return 1 if item.get_closest_marker("pods") else 2
    if item.get_closest_marker("deploy"):
        return 0
    if not has_any(item, MACHINE):
        return 5 + len(LONG)
    name = lane(item)
    return 4 + (LONG.index(name) if name in LONG else len(LONG))


def has_any(item: pytest.Item, marks: tuple[str, ...]) -> bool:
    return any(item.get_closest_marker(mark) for mark in marks)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    wait_for(needed(item))
    return (yield)


def needed(item: pytest.Item) -> str:
    """What must be there before the test begins."""
    if item.get_closest_marker("cluster") and not item.get_closest_marker("pods"):
        return WHOLE
    if has_any(item, (*MACHINE, "cluster")) and STORES & set(getattr(item, "fixturenames", ())):
        return STORES_BUILT
    return PODS if item.get_closest_marker("cluster") else COMING


def wait_for(what: str) -> None:
    """Until it is there, or known not to come; ``cluster_state`` then says which."""
    word = os.environ.get("BERTH_TEST_CLUSTER_WORD")
    deadline = time.monotonic() + PATIENCE_S
    while word and time.monotonic() < deadline:
        if ORDER.index(Path(word).read_text().strip()) >= ORDER.index(what):
            return
        time.sleep(POLL_S)
