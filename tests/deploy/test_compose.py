"""The compose file brought up as it is: every process healthy, sign-in works, down leaves nothing."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from serving.gateway.control import FINISHES_WITHIN_S
from tests.deploy.images import PROXY, SERVER, podman
from tests.support.portal import ROOT

FILE = ROOT / "docker-compose.yml"
NAME = "berth-test"
WITHIN_S = 300
URL = "http://localhost:8000"


def compose(env: dict[str, str], folder: Path, *words: str) -> str:
    """podman-compose reads the same file as docker compose."""
    done = subprocess.run(
        [sys.executable, "-m", "podman_compose", "-p", NAME, *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def brought_up(env: dict[str, str], folder: Path) -> None:
    """Try again where Podman could not make a network: seen once, beside other tests' pods whose
    interfaces came and went. podman-compose keeps Podman's reason for itself.
    """
    for last in (False, False, True):
        try:
            compose(env, folder, "up", "-d", "--no-build")
        except AssertionError as error:
            if last or "podman network create" not in str(error):
                raise
            compose(env, folder, "down", "-v")
        else:
            return


@pytest.fixture(scope="module")
def running(built: dict[str, str], tmp_path_factory: Any) -> Iterator[tuple[Any, ...]]:
    pytest.importorskip("podman_compose", reason="podman-compose is not installed")
    folder = tmp_path_factory.mktemp("compose")
    shutil.copy(FILE, folder / FILE.name)
    secrets = podman(built, "run", "--rm", SERVER, "secrets")
    images = f"BERTH_SERVER_IMAGE={SERVER}\nBERTH_PROXY_IMAGE={PROXY}\n"
    (folder / ".env").write_text((ROOT / "deploy/env.example").read_text() + secrets + images)
    try:
        brought_up(built, folder)
        answers(f"{URL}/readyz")
        yield built, folder, dict(line.split("=", 1) for line in secrets.splitlines())
    finally:
        compose(built, folder, "down", "-v")


def answers(url: str, **more: Any) -> httpx.Response:
    end = time.monotonic() + WITHIN_S
    last: Any = None
    while time.monotonic() < end:
        with suppress(httpx.HTTPError):
            last = httpx.get(url, trust_env=False, timeout=60, **more)
            if last.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return last
        time.sleep(0.5)
    raise AssertionError(f"{url} does not answer: {last and last.text}")


def container(service: str) -> str:
    return f"{NAME}_{service}_1"


@pytest.mark.deploy
@pytest.mark.timeout(1800)
def test_every_process_says_that_it_is_well(running: Any) -> None:
    env, _folder, _secrets = running
    assert checks_of(("database", "broker", "proxy")) == ["ok", "ok", "ok"]
    file = yaml.safe_load(FILE.read_text())
    for service, told in file["services"].items():
        if "healthcheck" not in told:
            continue
        kind, *words = told["healthcheck"]["test"]
        words = ["sh", "-c", words[0].replace("$$", "$")] if kind == "CMD-SHELL" else words
        eventually(env, container(service), words)
    state = podman(
        env, "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", container("migrate")
    )
    assert state.split() == ["exited", "0"]


def checks_of(names: tuple[str, ...]) -> list[str]:
    """What the portal says of its parts, as soon as all are well: they start side by side."""
    end = time.monotonic() + WITHIN_S
    while True:
        checks = answers(f"{URL}/readyz").json()["checks"]
        said = [checks[name] for name in names]
        if set(said) == {"ok"} or time.monotonic() > end:
            return said
        time.sleep(0.5)


def eventually(env: dict[str, str], name: str, words: list[str]) -> None:
    end = time.monotonic() + WITHIN_S
    while True:
        done = subprocess.run(
            ["podman", "exec", name, *words], env=env, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        if time.monotonic() > end:
            log = podman(env, "logs", "--tail", "20", name, check=False)
            raise AssertionError(f"{name}: {done.stdout}{done.stderr}\n{log}")
        time.sleep(1)


@pytest.mark.deploy
@pytest.mark.timeout(1800)
def test_the_administrator_signs_in_with_the_generated_password(running: Any) -> None:
    _env, _folder, secrets = running
    with httpx.Client(base_url=URL, trust_env=False, timeout=90) as browser:
        browser.get("/accounts/login/")
        sent = browser.post(
            "/accounts/login/",
            data={
                "login": "admin",
                "password": secrets["BERTH_ADMIN_PASSWORD"],
                "csrfmiddlewaretoken": browser.cookies["berth_csrf"],
            },
        )
        assert sent.status_code == httpx.codes.FOUND, sent.text[:500]
        home = browser.get("/", follow_redirects=True)
        assert home.status_code == httpx.codes.OK
        sheet = re.search(r'href="(/static/[^"]+\.css)"', home.text)
        assert sheet is not None
        styles = browser.get(sheet.group(1), headers={"Accept-Encoding": "gzip"})
        assert (styles.status_code, styles.headers.get("content-encoding")) == (200, "gzip")


@pytest.mark.deploy
@pytest.mark.timeout(1800)
def test_a_host_without_a_workspace_gets_the_portals_page_through_the_proxy(running: Any) -> None:
    host = {"Host": "nobody.nb.localhost:8001"}
    assert answers("http://localhost:8001/", headers=host).status_code == 424


@pytest.mark.deploy
@pytest.mark.timeout(1800)
def test_the_notebook_proxy_finds_neither_database_nor_redis(running: Any) -> None:
    env = running[0]
    script = "for n in web db redis; do getent hosts $n > /dev/null && echo $n; done; true"
    assert podman(env, "exec", container("proxy"), "sh", "-c", script).split() == ["web"]


@pytest.mark.deploy
@pytest.mark.timeout(1800)
def test_only_worker_and_gate_are_given_the_key_to_clusters(running: Any) -> None:
    env, _folder, secrets = running
    having = {
        service
        for service in ("web", "worker", "gate", "gateway", "proxy")
        if secrets["BERTH_CLUSTER_PRIVATE_KEY"]
        in podman(env, "inspect", "--format", "{{.Config.Env}}", container(service))
    }
    assert having == {"worker", "gate"}


# --- without containers ----------------------------------------------------------------------------


def test_the_gateway_has_time_to_end_its_streams_and_is_asked_where_it_listens() -> None:
    told = yaml.safe_load(FILE.read_text())["services"]["gateway"]
    assert int(told["stop_grace_period"].removesuffix("s")) > FINISHES_WITHIN_S
    (published,) = told["ports"]
    assert published.endswith(f":{told['environment']['BERTH_HEALTH_PORT']}")
    assert set(told["networks"]) == {"front", "data"}  # callers and pods; what it knows


def test_as_the_guide_says_callers_come_by_tls_to_the_port_that_their_address_names() -> None:
    guide = (ROOT / "docs/deploy.md").read_text().partition("\n## Compose\n")[2]
    guide, _, _helm = guide.partition("\n## Helm\n")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (told,) = [yaml.safe_load(block)["services"]["gateway"] for block in blocks]
    (address,) = [
        httpx.URL(one) for one in re.findall(r"`BERTH_GATEWAY_URL=(https:[^`…]+)`", guide)
    ]
    own = yaml.safe_load(FILE.read_text())["services"]["gateway"]["environment"]
    assert told["ports"] == [f"{address.port or 443}:{own['BERTH_HEALTH_PORT']}"]
    (mounted,) = [Path(one.split(":")[1]) for one in told["volumes"]]
    files = {Path(told["environment"][name]).parent for name in ("BERTH_TLS_CERT", "BERTH_TLS_KEY")}
    assert files == {mounted}  # a folder: a file by itself would stay the one before


# Settings that a container has no use for: addresses inside it, one machine, tests.
ELSEWHERE = {
    *("VAR", "BIND", "PORT", "PROXY_PORT", "INTERNAL_PORT", "PROXY_API_PORT", "INTERNAL_BIND"),
    *("SUPERVISOR_SOCKET", "WORKLOADS_DIR", "VOLUMES_DIR", "ENVIRONMENTS_DIR", "LOCAL_CLUSTER"),
    *("LOCAL_DRIVER", "CPU_OVERCOMMIT", "MEMORY_OVERCOMMIT", "TEST_DATABASE_URL", "STATIC_DIR"),
    *("QUEUE_PASSING_MINUTES", "RECLAIM_GRACE_SECONDS", "SIMULATED_GPUS", "DEMO"),
    *("NOTEBOOK_ROUTING", "NOTEBOOK_PATH_HOST", "ROUTER", "TLS_CERT", "TLS_KEY"),
    *("GATE_PORT", "SSH_PORT", "GATE_INTERNAL_PORT", "GATE_INTERNAL_BIND", "SSH_HOST_KEY_FILE"),
    *("IN_CLUSTER", "IN_CLUSTER_NAME", "IN_CLUSTER_OPTIONS", "DRAIN_SECONDS"),
    *("OUTBOUND_CA_FILE", "IMAGE_SIGN_INS_FILE", "GATEWAY", "GATEWAY_CLUSTER", "GATEWAY_PROXY"),
    "GATEWAY_PORT",
}


def test_every_setting_reaches_the_containers_or_is_of_no_use_there() -> None:
    file = yaml.safe_load(FILE.read_text())
    given = {
        name.removeprefix("BERTH_")
        for service in file["services"].values()
        for name in service.get("environment", {})
        if name.startswith("BERTH_")
    }
    documented = set(
        re.findall(
            r"^\| `BERTH_([A-Z_]+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE
        )
    )
    assert documented - given == ELSEWHERE & documented
    assert given <= documented
