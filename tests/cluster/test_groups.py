"""Two groups in one project's namespace: the pods of each meet, and reach nobody of the other."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from devcluster.kube import Kube
from runtime.capabilities.tenants import TenantSpec
from runtime.protocol import Observation, Seen
from runtime.spec import PodGroup, Resources, WorkloadSpec
from tests.cluster import dials
from tests.cluster.tenants import World, when_there, world
from tests.drivers.kubernetes.harness import wait_for

# A way that is open once is open: nothing here is tried a second time.
pytestmark = [
    pytest.mark.pods,
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.flaky(reruns=0),
]
LATE_S = 240.0
PORT = 7000
# Listens, says who it is, tries what it is told to (and all of its own group), and goes on.
SCRIPT = f"""
import json, os, socket, sys, threading, time
def listen():
    heard = socket.create_server(("", {PORT}))
    while True:
        heard.accept()[0].close()
threading.Thread(target=listen, daemon=True).start()
told = {{name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}}
told["host"] = socket.gethostname()
print("told=" + json.dumps(told), flush=True)
wanted = {{f"{{host}}:{PORT}": True for host in os.environ["BERTH_HOSTS"].split(",")}}
wanted.update(dict.fromkeys(sys.argv[1:], False))
{dials.HELD}{dials.REACHES}
with ThreadPoolExecutor(len(wanted)) as pool:
    look = lambda: dict(zip(wanted, pool.map(reaches, wanted)))
    found = held(look, wanted, time.monotonic() + {dials.PATIENCE_S})
print("reached=" + json.dumps(found), flush=True)
time.sleep(3600)
"""


@dataclass
class Scene:
    here: World
    tenant: TenantSpec

    def group(self, *closed: str, replicas: int = 2, **more: Any) -> WorkloadSpec:
        uid = secrets.token_hex(16)
        defaults: dict[str, Any] = {
            "uid": uid,
            "kind": "job",
            "name": f"g{uid[:8]}",
            "launch": 1,
            "generation": 1,
            "project": self.tenant.project,
            "owner": "o" * 8,
            "environment": "",
            "command": ("python3", "-c", SCRIPT, *closed),
            "resources": Resources(cpu_milli=500, memory_mib=64),
            "stop_grace_s": 1.0,
            "namespace": self.tenant.namespace,
            "image": self.here.state["images"]["tool"]["reference"],
            "once": True,
            "groups": (PodGroup("worker", replicas),),
        }
        spec = WorkloadSpec(**{**defaults, **more})
        when_there(lambda: self.here.driver.ensure(spec))
        return spec

    def seen(self, spec: WorkloadSpec) -> Observation:
        return self.here.driver.observe([spec.uid])[spec.uid]

    def until(self, spec: WorkloadSpec, wanted: Seen) -> Observation:
        def look() -> Observation | None:
            found = self.seen(spec)
            return found if found.seen == wanted else None

        return wait_for(look, seconds=LATE_S, every=0.3)

    def told(self, spec: WorkloadSpec, word: str) -> list[dict[str, Any]]:
        """What each replica wrote behind ``word``."""

        def said(number: int) -> str:
            text = self.here.driver.read_log(spec.uid, replica=number)[0].decode()
            return next((x for x in text.splitlines() if x.startswith(f"{word}=")), "")

        lines = [
            wait_for(lambda n=number: said(n), seconds=LATE_S, every=0.5)
            for number in range(spec.replicas)
        ]
        return [json.loads(line.partition("=")[2]) for line in lines]

    def addresses(self, spec: WorkloadSpec) -> list[str]:
        mine = f"berth.dev/uid={spec.uid}"
        pods = self.here.kube.list("v1", "Pod", self.tenant.namespace, labelSelector=mine)
        return [f"{pod['status']['podIP']}:{PORT}" for pod in pods]


@pytest.fixture(scope="module")
def scene(devcluster: dict[str, Any], kube: Kube) -> Iterator[Scene]:
    here = world(devcluster, kube, cpu_overcommit=50)
    try:
        yield Scene(here, here.ensure(here.tenant("groups")))
    finally:
        here.close()


def test_l2_a_group_meets_and_reaches_nobody_of_another_group(scene: Scene) -> None:
    first = scene.group()
    scene.until(first, Seen.READY)
    others = scene.addresses(first)
    assert len(others) == 2
    second = scene.group(*others)
    found = scene.until(second, Seen.READY)
    assert [(r.index, r.seen, bool(r.node)) for r in found.replicas] == [
        (0, Seen.READY, True),
        (1, Seen.READY, True),
    ]
    for spec, closed in ((first, []), (second, others)):
        name = f"ws-{spec.name}"
        hosts = [f"{name}-{n}.{name}" for n in range(2)]
        told = scene.told(spec, "told")
        assert [(t["RANK"], t["WORLD_SIZE"], t["host"]) for t in told] == [
            (str(n), "2", f"{name}-{n}") for n in range(2)
        ]
        assert {(t["MASTER_ADDR"], t["MASTER_PORT"]) for t in told} == {(hosts[0], "29500")}
        wanted = {f"{host}:{PORT}": True for host in hosts} | dict.fromkeys(closed, False)
        assert scene.told(spec, "reached") == [wanted, wanted]
    place = scene.here.driver._tenants.look(scene.tenant.uid).detail
    assert (place["drift"], place["foreign"]) == ([], [])


def test_one_that_fails_takes_the_others_down_and_nothing_is_left(scene: Scene) -> None:
    script = 'if [ "$RANK" = 1 ]; then sleep 2; exit 3; fi; sleep 3600'
    spec = scene.group(replicas=3, command=("bash", "-c", script))
    found = scene.until(spec, Seen.EXITED)
    assert (found.exit_code, found.replicas[1].exit_code) == (3, 3)
    driver, kube = scene.here.driver, scene.here.kube
    when_there(lambda: driver.stop(spec.uid, grace_s=1))
    assert (scene.seen(spec).seen, scene.seen(spec).exit_code) == (Seen.EXITED, 3)
    when_there(lambda: driver.remove(spec.uid))
    name, namespace = f"ws-{spec.name}", scene.tenant.namespace
    for version, kind in (
        ("batch/v1", "Job"),
        ("v1", "Service"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("v1", "Secret"),
    ):
        assert kube.get(version, kind, name, namespace) is None
    again = replace(spec, launch=2, groups=(PodGroup(),), command=("true",))
    when_there(lambda: driver.ensure(again))
    assert scene.until(again, Seen.EXITED).exit_code == 0
    when_there(lambda: driver.remove(spec.uid))
