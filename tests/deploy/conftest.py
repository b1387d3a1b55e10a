"""Images and one release of the chart, made once per session; only images outlive it."""

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.conftest import devcluster, kube  # noqa: F401 - the fixtures
from tests.deploy import chart, images
from tests.deploy.chart import PREFIX, Browser, Release, until

# Without these runc may not raise limits on some machines, and refuses to start anything.
ENGINE = """[containers]
default_ulimits = ["nofile=1024:1024","nproc=1024:1024"]
oom_score_adj = 0
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment in which podman runs containers here."""
    if reason := images.lacking():
        pytest.skip(f"images can't be built here: {reason}")
    file = tmp_path_factory.mktemp("engine") / "containers.conf"
    file.write_text(ENGINE)
    before = os.environ.get("CONTAINERS_CONF")
    os.environ["CONTAINERS_CONF"] = str(file)
    yield dict(os.environ)
    if before is None:
        del os.environ["CONTAINERS_CONF"]
    else:
        os.environ["CONTAINERS_CONF"] = before


@pytest.fixture(scope="session")
def built(engine: dict[str, str]) -> dict[str, str]:
    """The images of the Dockerfile as it is now; answers the environment for podman."""
    images.our_images()
    return engine


# --- a release on the development cluster ---------------------------------------------------------


@pytest.fixture(scope="session")
def release(
    built: dict[str, str],
    devcluster: dict[str, Any],  # noqa: F811
    kube: Kube,  # noqa: F811
    tmp_path_factory: Any,
) -> Iterator[Release]:
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")
    one = Release(devcluster, kube, tmp_path_factory.mktemp("release"))
    one.uninstall()
    one.wipe()
    lab = devcluster["images"]["jupyterlab"]["reference"]
    tags = chart.push(built, devcluster["registry"])
    try:
        one.install(chart.values(devcluster["registry"], tags, lab))
        until("web", lambda: one.ready("web") == 3)
        until("the rest", lambda: all(one.ready(name) for name in ("worker", "gate", "proxy")))
        yield one
    finally:
        one.uninstall()
        one.wipe()


@pytest.fixture(scope="session")
def operator(release: Release) -> Browser:
    browser = Browser(release.address("berth"))
    answer = browser.sign_in(release.secret("BERTH_ADMIN_PASSWORD"))
    assert answer.status_code == httpx.codes.FOUND, answer.text[:500]
    return browser


@pytest.fixture(scope="session")
def project(release: Release) -> str:
    def look() -> list[str]:
        return [name for name in release.namespaces() if name.startswith(f"{PREFIX}demo")]

    return str(until("a project", look, 300)[0])
