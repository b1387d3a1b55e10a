"""E7 and E8 against the real API server, through a wire that can be cut."""

import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.drivers.kubernetes import kubeconfig, watch
from runtime.protocol import Seen
from runtime.spec import Placement
from tests.drivers.kubernetes.harness import ground_of
from tests.drivers.kubernetes.test_on_a_cluster import KWOK, removed, told
from tests.drivers.kubernetes.test_watch import Follower
from tests.support.cluster_state import cluster_state

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long("half a minute of silence; the same over a stub: test_watch.py"),
]

NOTICED_WITHIN_S = 30
SIMULATED = Placement(node_labels={"type": "kwok"}, tolerations=(KWOK,))


class Wire:
    """Carries bytes to a server. A connection of an earlier ``life`` stays open and is silent."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.life = 0
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"https://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(
                    target=self._carry, args=(one, other, self.life), daemon=True
                ).start()

    def _carry(self, source: socket.socket, target: socket.socket, life: int) -> None:
        while True:
            try:
                data = source.recv(65536)
                if life != self.life and data:
                    continue  # it is lost, and nobody is told
                if not data:
                    break
                target.sendall(data)
            except OSError:
                break
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)  # or the other thread's reading keeps it open
            except OSError:
                continue

    def cut(self) -> None:
        """Close every connection; new ones are taken."""
        while self._open:
            try:
                self._open.pop().shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._server.close()
        self.cut()


@pytest.fixture
def wire() -> Iterator[Wire]:
    access = kubeconfig.parse(Path(cluster_state()["kubeconfig"]).read_text())
    parts = urllib.parse.urlsplit(access.server)
    made = Wire(str(parts.hostname), int(parts.port or 443))
    yield made
    made.close()


def test_e8_a_silent_wire_is_given_up_before_half_a_minute_is_over():
    assert watch.TURN_S + watch.SLACK_S < NOTICED_WITHIN_S


def test_e8_a_wire_that_is_dead_but_open_is_noticed_within_half_a_minute(wire):
    took: list[float] = []
    while len(took) < 3 and in_time(took) < 2:  # the machine may be busy
        took.append(noticed_within(wire))
    assert in_time(took) >= 2, took


def in_time(took: list[float]) -> int:
    return sum(seconds < NOTICED_WITHIN_S for seconds in took)


def noticed_within(wire: Wire) -> float:
    """How long a watch goes on that nobody speaks to any more; a new one each time."""
    ground = ground_of(through=wire.address)
    follower = Follower(ground.driver)
    try:
        spec = ground.spec(placement=SIMULATED, probe=None)
        wire.life += 1
        begun = time.monotonic()
        ground.kube.apply(_bare(ground, spec))  # by another way
        lists = _lists(ground)
        told(follower, spec.uid, lambda o: o.seen == Seen.READY)
        took = time.monotonic() - begun
        assert (_lists(ground), follower.error) == (lists, None)
        removed(ground, spec.uid)
        return took
    finally:
        follower._over.set()
        ground.close()


def test_e7_connections_that_break_are_made_anew_without_a_list(wire):
    ground = ground_of(through=wire.address)
    follower = Follower(ground.driver)
    try:
        lists = _lists(ground)
        for _ in range(3):
            wire.cut()
            time.sleep(0.3)
        spec = ground.spec(placement=SIMULATED, probe=None)
        ground.driver.ensure(spec)
        told(follower, spec.uid, lambda o: o.seen == Seen.READY)
        assert (_lists(ground), follower.error) == (lists, None)
        removed(ground, spec.uid)
        told(follower, spec.uid, lambda o: o.seen == Seen.MISSING)
    finally:
        follower._over.set()
        ground.close()


def _bare(ground, spec):
    from runtime.drivers.kubernetes.builders import workload
    from tests.drivers.kubernetes.pieces import built

    secret = workload.secrets(spec, ground.driver.options, {})[0]
    ground.kube.apply(secret)
    return built(spec, ground.driver.options)


def _lists(ground) -> int:
    return ground.driver._watch.lists()
