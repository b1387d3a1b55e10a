"""The chart on the development cluster: the whole portal runs inside, and holds its fences."""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from runtime.routers.gateway import API
from tests.cluster.traefik import Traefik
from tests.deploy import chart
from tests.deploy.chart import DOMAIN, HOST, NAMESPACE, PREFIX, Browser, Release, until
from tests.deploy.front import Visitor
from tests.deploy.launching import SIZE, WORKSPACES, Launches, launch
from tests.deploy.load import Load, say

pytestmark = [pytest.mark.deploy, pytest.mark.cluster, pytest.mark.timeout(1800)]


def test_the_api_server_takes_every_object_of_the_chart(
    release: Release,
    devcluster: dict[str, Any],
) -> None:
    """Schema-checked by the server, unknown fields refused; an ingress included."""
    more = ("--set", "ingress.enabled=true", "--set", "secret.existing=mine")
    file = release.folder / "values.yaml"
    words = ("template", "dry", chart.CHART, "-n", NAMESPACE, "-f", file, *more)
    made = chart.run_helm(devcluster, *words, "--kube-version", devcluster["version"])
    assert made.returncode == 0, made.stderr
    (release.folder / "made.yaml").write_text(made.stdout)
    done = release.kubectl(
        *("apply", "--dry-run=server", "--validate=strict"),
        *("-f", str(release.folder / "made.yaml")),
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr


def test_the_portal_inside_answers_and_finds_everything_well(
    release: Release, operator: Browser
) -> None:
    assert operator.ask("GET", "/").status_code == httpx.codes.OK
    found = until("ready", lambda: all_well(operator))
    assert found["checks"]["proxy"] == found["checks"]["machines"] == "ok"


def all_well(browser: Browser) -> Any:
    answer = browser.ask("GET", "/readyz").json()
    return answer if answer["status"] == "ok" else None


def test_the_cluster_it_runs_in_is_there_without_a_pasted_credential(
    release: Release, operator: Browser
) -> None:
    row = until("reachable", lambda: reachable(operator))
    assert row["key"] == "here"
    pasted = operator.ask("POST", "/api/v1/clusters/here/kubeconfig", json={"kubeconfig": "x"})
    assert pasted.status_code >= httpx.codes.BAD_REQUEST


def reachable(browser: Browser) -> Any:
    rows = browser.ask("GET", "/api/v1/clusters").json()
    return next((r for r in rows if r["reachable"]), None)


def test_it_makes_a_projects_namespace_by_its_own_identity(
    release: Release, operator: Browser
) -> None:
    """The namespace is whole: its last object is the note of all that belongs there."""

    def whole() -> Any:
        return [
            row["metadata"]["name"]
            for row in release.kube.list("v1", "Namespace")
            if row["metadata"]["name"].startswith(PREFIX)
            and "berth.dev/bundle" in row["metadata"].get("annotations", {})
        ]

    (name,) = until("a place", whole)
    bound = release.kube.list("rbac.authorization.k8s.io/v1", "RoleBinding", name)
    assert "berth-projects" in {row["roleRef"]["name"] for row in bound}
    assert release.kube.list("networking.k8s.io/v1", "NetworkPolicy", name)


def test_the_self_check_of_its_own_cluster_is_green(release: Release, operator: Browser) -> None:
    path = "/api/v1/clusters/here/checks"
    before = {row["name"]: row["at"] for row in operator.ask("GET", path).json()}
    wanted = ("rights", "restraint", "network")

    def fresh() -> Any:
        """Answers come one by one: those of before say nothing about now."""
        rows = operator.ask("GET", path).json()
        known = all(row["at"] not in {None, before[row["name"]]} for row in rows)
        return rows if known else None

    def asked() -> Any:
        """Where asking itself fails, the answer of before stands: it is asked again."""
        assert operator.ask("POST", path).status_code < httpx.codes.BAD_REQUEST
        with suppress(AssertionError):
            return until("fresh answers", fresh, 240)
        return None

    rows = until("answers", asked)
    states = {row["name"]: row["state"] for row in rows}
    assert "red" not in states.values(), rows
    assert {states[name] for name in wanted} == {"green"}, rows


def test_a_notebook_runs_there_and_people_are_led_to_sign_in_by_the_proxy(
    release: Release,
    operator: Browser,
    devcluster: dict[str, Any],
) -> None:
    row = launch(operator, kind="notebook", image=devcluster["images"]["jupyterlab"]["reference"])
    url = httpx.URL(row["status"]["url"])
    assert url.host.endswith(f".{DOMAIN}")
    assert url.scheme == "https"
    place = url.raw_path.decode()
    while place.startswith("/"):  # its own pages first, then the portal's
        answer = httpx.get(
            f"http://{release.address('berth-proxy')}{place}",
            headers={"Host": url.host, "Accept": "text/html", "Sec-Fetch-Mode": "navigate"},
            trust_env=False,
            timeout=90,
        )
        assert answer.status_code == httpx.codes.FOUND, answer.text[:300]
        place = answer.headers["location"]
    assert place.startswith(f"https://{HOST}/hub/api/oauth2/authorize")
    stopped = operator.ask("POST", f"{WORKSPACES}/{row['id']}/stop")
    assert stopped.status_code < httpx.codes.BAD_REQUEST, stopped.text


# --- Network ---------------------------------------------------------------------------------------

DIAL = (
    "const [h,p]=process.argv.slice(1);"
    "const s=require('net').connect(+p,h);s.setTimeout(10000);"
    "s.on('connect',()=>{console.log('open');process.exit()});"
    "for(const e of ['error','timeout'])s.on(e,()=>{console.log('shut');process.exit()})"
)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("berth-internal", "open"),
        ("berth-postgresql", "shut"),
        ("berth-redis", "shut"),
        ("berth-gate-internal", "shut"),
        ("kubernetes.default", "shut"),
    ],
)
def test_the_notebook_proxy_reaches_the_internal_listener_and_nothing_else(
    release: Release, service: str, expected: str
) -> None:
    name, _, space = service.partition(".")
    found = release.kube.get("v1", "Service", name, space or NAMESPACE)
    assert found is not None
    spec = found["spec"]
    where = (spec["clusterIP"], str(spec["ports"][0]["port"]))

    def dialled() -> str:
        words = ("exec", "berth-proxy-0", "--", "node", "-e", DIAL, *where)
        return release.kubectl(*words).stdout.strip()

    until(f"{service} is {expected}", lambda: dialled() == expected, 120)


# --- Three replicas ----------------------------------------------------------------------------------


def kill(pod: dict[str, Any]) -> int:
    """SIGKILL to every process of a pod on this machine, as the kernel does it; how many."""
    uid = pod["metadata"]["uid"]
    count = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            inside = (entry / "cgroup").read_text()
            if uid in inside and b"portal.server" in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                count += 1
    return count


def restarts_of(pod: dict[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))


def restarts(release: Release, pod: dict[str, Any]) -> int:
    now = release.kube.get("v1", "Pod", pod["metadata"]["name"], NAMESPACE)
    assert now is not None
    return restarts_of(now)


def test_a_killed_replica_costs_no_request_that_is_tried_again(
    release: Release, record_property: Any
) -> None:
    with Load(release.address("berth")) as load:
        time.sleep(3)
        victim = release.pods("web")[0]
        assert kill(victim) > 0, "the node is this machine"
        # a busy node is late to see it, and calls the dead one ready meanwhile
        until("seen", lambda: restarts(release, victim) > restarts_of(victim))
        time.sleep(5)
        until("started again", lambda: release.ready("web") == 3)
        release.kube.delete(
            "v1",
            "Pod",
            release.pods("web")[1]["metadata"]["name"],
            NAMESPACE,
            gracePeriodSeconds="0",
        )
        time.sleep(5)
        until("replaced", lambda: release.ready("web") == 3)
    say("killed", load)
    record_property("requests", load.sent)
    record_property("failed_once", load.failed)
    assert load.sent > 100
    assert load.lost == 0, load.why


def test_no_launch_is_lost_or_doubled_while_replicas_are_killed(
    release: Release, operator: Browser, devcluster: dict[str, Any], record_property: Any
) -> None:
    """With a key each is asked for until it is answered; every one is there once, and runs."""
    program = {"image": devcluster["images"]["tool"]["reference"], "command": ["sleep", "600"]}
    body = {**SIZE, "kind": "container", "cpu_milli": 100, "memory_mib": 256, **program}

    def sign_in() -> Browser:
        browser = Browser(release.address("berth"))
        assert browser.sign_in(release.secret("BERTH_ADMIN_PASSWORD")).is_redirect
        return browser

    with Launches(WORKSPACES, body, sign_in, most=10) as launches:
        victims = []
        for number in (0, 1):
            until("some", lambda least=3 * number + 2: launches.answered() >= least)
            victims.append(release.pods("web")[number])
            assert kill(victims[-1]) > 0, "the node is this machine"
        until("the last ones", lambda: launches.answered() == launches.most)
    # who asks below does not ask twice, and a busy node calls the dead ones ready for a while
    for victim in victims:
        until("seen", lambda one=victim: restarts(release, one) > restarts_of(one))
    until("started again", lambda: release.ready("web") == 3)
    record_property("tried_again", launches.tried_again)
    rows = operator.ask("GET", f"{WORKSPACES}?limit=100").json()["results"]
    found = Counter(row["name"] for row in rows if row["name"].startswith(launches.word))
    assert found == Counter(list(launches.made))
    assert len(set(launches.made.values())) == len(launches.made) == launches.most
    for uid in launches.made.values():
        until("running", lambda u=uid: phase_of(operator, u) == "running", 300)
    for uid in launches.made.values():
        deleted = operator.ask("DELETE", f"{WORKSPACES}/{uid}")
        assert deleted.status_code < httpx.codes.BAD_REQUEST, deleted.text
    until("replicas", lambda: release.ready("web") == 3)


def phase_of(browser: Browser, uid: str) -> str:
    now = browser.ask("GET", f"{WORKSPACES}/{uid}").json()["status"]
    assert now["phase"] != "failed", now
    return str(now["phase"])


def test_a_rolling_restart_costs_no_request_at_all(release: Release, record_property: Any) -> None:
    with Load(release.address("berth"), threads=2) as load:
        time.sleep(1)
        done = release.kubectl("rollout", "restart", "deployment/berth-web")
        assert done.returncode == 0, done.stderr
        done = release.kubectl("rollout", "status", "deployment/berth-web", "--timeout=480s")
        assert done.returncode == 0, done.stdout + done.stderr
        until("the old ones have drained", lambda: not release.pods("web", ending=True))
    say("restarted", load)
    record_property("failed_once", load.failed)
    assert (load.failed, load.lost) == (0, 0), load.why


# --- The same release behind a Gateway ---------------------------------------------------------------


def test_by_a_gateway_somebody_signs_in_and_runs_code_in_a_notebook(
    release: Release, gateway: Traefik, devcluster: dict[str, Any]
) -> None:
    visitor = Visitor(gateway.port)
    signed_in = visitor.sign_in(release.secret("BERTH_ADMIN_PASSWORD"))
    assert signed_in.status_code == httpx.codes.FOUND, signed_in.text[:500]
    image = devcluster["images"]["jupyterlab"]["reference"]
    row = launch(visitor, kind="notebook", image=image, name=f"edge-{uuid4().hex[:4]}")
    url = row["status"]["url"]
    stranger = Visitor(gateway.port)
    # until then the Gateway itself says that there is nothing
    until("its route", lambda: stranger.open(url).url.host == HOST, 180)
    assert "login" in stranger.open(url).url.path
    assert visitor.open(url).status_code == httpx.codes.OK
    assert visitor.run(url, "40+2") == "42"  # a WebSocket: by the notebook proxy
    places = {one["metadata"]["namespace"] for one in routes_of(release, row)}
    assert len(places) == 2
    assert NAMESPACE in places
    deleted = visitor.ask("DELETE", f"{WORKSPACES}/{row['id']}")
    assert deleted.status_code < httpx.codes.BAD_REQUEST, deleted.text
    until("no route of it", lambda: not routes_of(release, row), 180)


def routes_of(release: Release, row: dict[str, Any]) -> list[dict[str, Any]]:
    return release.kube.list(API, "HTTPRoute", labelSelector=f"berth.dev/uid={row['uid']}")


# --- Removal (last) ------------------------------------------------------------------------------------


def test_a18_removal_leaves_projects_homes_and_the_secret_and_takes_the_rest(
    release: Release, operator: Browser, project: str, devcluster: dict[str, Any]
) -> None:
    program = "echo here > ~/kept.txt; exec sleep 600"
    row = launch(
        operator,
        kind="container",
        name=f"kept-{uuid4().hex[:4]}",
        image=devcluster["images"]["tool"]["reference"],
        command=["sh", "-c", program],
        cpu_milli=100,
        memory_mib=256,
    )
    home = home_of(release, row)
    file = Path(home["spec"]["hostPath"]["path"]) / "kept.txt"  # the node is this machine
    until("its file", file.exists, 60)

    release.uninstall()
    assert project in release.namespaces()
    assert release.kube.get("v1", "Secret", "berth-secrets", NAMESPACE) is not None
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        assert release.kube.get("rbac.authorization.k8s.io/v1", kind, "berth") is None
    for kind in ("Deployment", "StatefulSet"):
        assert not release.kube.list("apps/v1", kind, NAMESPACE)

    left = home_of(release, row)
    assert left["metadata"]["uid"] == home["metadata"]["uid"]
    assert left["status"]["phase"] == "Bound"
    claimed = left["spec"]["claimRef"]
    claim = release.kube.get("v1", "PersistentVolumeClaim", claimed["name"], claimed["namespace"])
    assert claim is not None
    for one in (left, claim):
        assert "deletionTimestamp" not in one["metadata"]
    assert file.read_text() == "here\n"


def home_of(release: Release, row: dict[str, Any]) -> dict[str, Any]:
    chosen = f"berth.dev/uid={row['home']}"
    (volume,) = release.kube.list("v1", "PersistentVolume", labelSelector=chosen)
    return dict(volume)
