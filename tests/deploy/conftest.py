"""Images, made once per session, and one release of the chart; only images outlive it.

The release goes when the tests here are done: its processes would take from all that come after.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.conftest import devcluster, kube  # noqa: F401 - the fixtures
from tests.cluster.traefik import INSTANCE, Traefik, gateway_api
from tests.deploy import chart, images
from tests.deploy.chart import DOMAIN, HOST, NAMESPACE, PREFIX, Browser, Release, until

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


@pytest.fixture(scope="package")
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
        until(
            "the rest",
            lambda: all(one.ready(name) for name in ("worker", "gate", "gateway", "proxy")),
        )
        yield one
    finally:
        one.uninstall()
        one.wipe()


@pytest.fixture(scope="package")
def operator(release: Release) -> Browser:
    browser = Browser(release.address("berth"))
    answer = browser.sign_in(release.secret("BERTH_ADMIN_PASSWORD"))
    assert answer.status_code == httpx.codes.FOUND, answer.text[:500]
    return browser


@pytest.fixture(scope="package")
def project(release: Release) -> str:
    def look() -> list[str]:
        return [name for name in release.namespaces() if name.startswith(f"{PREFIX}demo")]

    return str(until("a project", look, 300)[0])


@pytest.fixture(scope="package")
def gateway(
    release: Release,
    devcluster: dict[str, Any],  # noqa: F811
    kube: Kube,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Traefik]:
    """The same release behind a real Gateway from now on, in the way docs/deploy.md says."""
    edge, folder = f"test-{secrets.token_hex(4)}", tmp_path_factory.mktemp("gateway")
    with gateway_api(kube), ExitStack() as stack:
        traefik = Traefik(kube, devcluster, edge, folder, DOMAIN, HOST)
        stack.callback(kube.delete, "v1", "Namespace", edge)
        stack.callback(traefik.remove)
        stack.callback(release.uninstall)  # its routes go while their kind is still known
        stack.callback(traefik.stop)
        traefik.prepare()
        # TLS was ended before it (tests.deploy.front), and said so in a header
        traefik.start(["--entrypoints.web.forwardedHeaders.insecure=true"])
        labelled = release.kubectl("label", "namespace", NAMESPACE, f"{INSTANCE}=portal")
        assert labelled.returncode == 0, labelled.stderr
        own = [f"{NAMESPACE}/{name}" for name in ("proxy", "worker", "gate", "gateway")]
        cluster = release.chosen["cluster"]
        options = {**cluster["options"], "proxy_peers": [*own, f"{devcluster['host']}/32"]}
        release.upgrade(
            settings={"BERTH_ROUTER": "gateway"},
            gatewayApi={"enabled": True, "parentRefs": [{"name": "public", "namespace": edge}]},
            cluster={**cluster, "options": options},
        )
        yield traefik
