"""E1, E4, E6: kill -9 of each process of a portal while its endpoints change and are called."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.serving.server import python
from tests.support.migrated import postgres_database
from tests.support.portal import Portal, parts
from tools.provision_tests import Services, postgres_user, wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.timeout(1500),
]

SETTINGS = "portal.settings.dev"
WITHIN_S = 120.0
EVERY_S = 0.1  # each endpoint is called so often
VICTIMS = ("worker", "web", "redis", "gateway", "haproxy", "postgres", "supervisor")
# A model whose answer says which version gave it, and whom: x → 10 x + its number. It writes down
# each x that it was asked, so that a request that was answered twice is seen.
MODEL = """
import joblib, sys
number, seen, file = sys.argv[1:]
class Model:
    def __reduce__(self):
        code = (f"lambda rows: (open({seen!r}, 'a').write(''.join("
            f"'%d {number} ' % x for x in rows[:, 0])), 10 * rows[:, 0] + {number})[1]")
        return eval, (f"__import__('types').SimpleNamespace(n_features_in_=1, predict={code})",)
joblib.dump(Model(), file)
"""
VOLUME = """
from accounts.models import User
from accounts.principal import Principal
from projects.models import Project
from volumes.services import create
who = Principal(User.objects.get(username="admin"))
wanted = create.NewVolume("models", 1024)
row = create.volume_create(principal=who, project=Project.objects.get(slug="demo"), wanted=wanted)
answer = str(row.uid)
"""
VERSIONS = """
from serving.models import Model, ModelVersion
from volumes.models import Volume
volume = Volume.objects.get(uid={uid!r})
for name in ("first", "second"):
    model = Model.objects.create(project=volume.project, name=name)
    for version in ("v1", "v2"):
        ModelVersion.objects.create(model=model, name=version, framework="sklearn", source="volume",
            origin="volume:models", volume=volume, folder=f"{{name}}-{{version}}")
answer = True
"""
COUNTED = """
from django.db.models import Sum
from serving.models import Calls
answer = Calls.objects.aggregate(n=Sum("requests"))["n"]
"""
NUMBERS = {("first", "v1"): 1, ("first", "v2"): 2, ("second", "v1"): 3, ("second", "v2"): 4}


@dataclass
class Answer:
    """What came of one request."""

    name: str
    x: int
    sent: float
    ended: float = 0.0
    status: int = 0  # 0: the answer broke, or none came
    version: str = ""
    text: str = ""

    @property
    def is_right(self) -> bool:
        said = 10 * self.x + NUMBERS.get((self.name, self.version), 0)
        return self.status == 200 and json.loads(self.text)["predictions"] == [said]


@dataclass
class Caller:
    """Asks each endpoint so often, whatever becomes of the requests before."""

    port: int
    keys: dict[str, str]
    answers: list[Answer] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        due, x = time.monotonic(), 0
        with ThreadPoolExecutor(400) as pool:
            while not self.over.wait(max(0.0, due - time.monotonic())):
                due += EVERY_S
                for name in self.keys:
                    x += 1
                    pool.submit(lambda name=name, x=x: self.answers.append(self.ask(name, x)))

    def ask(self, name: str, x: int) -> Answer:
        told = Answer(name, x, time.monotonic())
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=180)
        try:
            line.request(
                "POST",
                f"/e/demo/{name}/v1/models/{name}:predict",
                json.dumps({"instances": [[x]]}),
                {"Authorization": f"Bearer {self.keys[name]}", "Content-Type": "application/json"},
            )
            answer = line.getresponse()
            told.text = answer.read().decode()
            told.status = answer.status
            told.version = answer.getheader("X-Berth-Version", "")
        except (OSError, http.client.HTTPException) as error:
            told.text = repr(error)
        finally:
            line.close()
            told.ended = time.monotonic()
        return told


class World:
    """A portal on PostgreSQL and Redis of its own, with two endpoints that are called."""

    def __init__(self, services: Services, portal: Portal, seen: Path) -> None:
        self.services, self.portal, self.seen = services, portal, seen
        self.postgres, self.redis = services.processes
        self.api = portal.api(portal.token("admin"))
        self.kills: list[tuple[str, float]] = []
        self._models()
        self.at = {name: self._endpoint(name) for name in ("first", "second")}
        for name in self.at:
            self.until(lambda name=name: is_well(self.look(name)))
        self.slept: list[tuple[str, float, float]] = []
        keys = {name: self._key(at) for name, at in self.at.items()}
        self.caller = Caller(portal.port + 7, keys)

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Somebody calls both all the time, from when the gateway knows the keys."""
        for name in self.at:
            self.until(lambda name=name: self.caller.ask(name, -1).is_right)
        calling = threading.Thread(target=self.caller.run)
        calling.start()
        try:
            yield
        finally:
            self.caller.over.set()
            calling.join()

    def _models(self) -> None:
        uid = self.portal.shell(VOLUME)
        volume = self.portal.var / "volumes" / uid
        self.until(volume.is_dir)
        for (name, version), number in NUMBERS.items():
            folder = volume / f"{name}-{version}"
            folder.mkdir()
            file = folder / "model.joblib"
            made = [*python("serving-samples"), "-c", MODEL, str(number), str(self.seen), file]
            subprocess.run(made, check=True)
            folder.chmod(0o755)
            file.chmod(0o644)
        self.portal.shell(VERSIONS.format(uid=uid))

    def _endpoint(self, name: str) -> str:
        said = {"name": name, "model": f"{name}/v1", "cpu_milli": 200, "memory_mib": 1024}
        answer = self.api.post("projects/demo/endpoints", json={**said, "max_replicas": 2})
        assert answer.status_code == 202, answer.text
        return f"projects/demo/endpoints/{answer.json()['id']}"

    def _key(self, at: str) -> str:
        return str(self.api.post(f"{at}/keys", json={"name": "shop"}).json()["key"])

    def look(self, name: str) -> dict[str, Any]:
        """What the API tells, once it answers again."""

        def asked() -> dict[str, Any] | None:
            try:
                answer = self.api.get(self.at[name])
            except httpx.TransportError:
                return None
            return dict(answer.json()) if answer.status_code == 200 else None

        return dict(self.until(asked))

    def until(self, found: Callable[[], Any], what: str = "") -> Any:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if answer := found():
                return answer
            time.sleep(0.1)
        raise AssertionError(f"{what} not within {WITHIN_S:.0f} s\n{self.portal.tail(30)}")

    def kill(self, victim: str) -> None:
        """kill -9; the manager starts its own again, the two servers are started here."""
        self.kills.append((victim, time.monotonic()))
        if victim == "redis":
            self.redis.kill()
            self.redis.wait()
            self.redis = self._again(self.redis)
        elif victim == "postgres":
            self.postgres.send_signal(signal.SIGQUIT)  # its sessions end where they are
            self.postgres.wait()
            self.postgres = self._again(self.postgres, postgres_user())
        else:
            os.kill(self.until(lambda: parts(self.portal, victim))[-1], signal.SIGKILL)

    def _again(self, ended: subprocess.Popen[bytes], user: Any = None) -> subprocess.Popen[bytes]:
        time.sleep(1.0)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        log = self.services.folder / "again.log"
        with log.open("ab") as out:
            begun = subprocess.Popen(ended.args, stdout=out, stderr=out, cwd="/", **who)  # type: ignore[arg-type]
        self.services.processes[self.services.processes.index(ended)] = begun
        words = [str(word) for word in ended.args]  # type: ignore[union-attr]
        port = (
            next(word.removeprefix("port=") for word in words if word.startswith("port="))
            if user
            else words[2]
        )
        wait_for(int(port), begun, log)
        return begun


def is_well(told: dict[str, Any]) -> bool:
    """It answers, by as many as are wanted and no other."""
    states = [one["state"] for one in told["replica_states"] or []]
    return told["status"]["state"] == "ready" and states == ["ready"] * told["replicas"]


@dataclass(frozen=True)
class Act:
    """A press, when it was taken, and when all that follows of it is done."""

    method: str
    path: str
    said: dict[str, Any]
    begun: Callable[[dict[str, Any]], bool]
    done: Callable[[dict[str, Any]], bool]
    launches: int  # that follow from it


def _serves(version: str) -> Callable[[dict[str, Any]], bool]:
    def look(told: dict[str, Any]) -> bool:
        is_alone = told["canary"] is None and not told["promoting"] and not told["rolls_back"]
        return is_alone and str(told["spec"]["model"]).endswith(version)

    return look


def _replicas(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda told: told["spec"]["min_replicas"] == number == told["replicas"]


def acts(name: str) -> dict[str, Act]:
    """What is done to an endpoint, one after the other; then it is as before."""
    changes = lambda told: told["promoting"] or told["rolls_back"]  # noqa: E731
    return {
        "canary": Act(
            "POST",
            "/canary",
            {"model": f"{name}/v2"},
            lambda told: told["canary"] is not None,
            lambda told: (told["canary"] or {}).get("state") == "ready",
            0,
        ),
        "promote": Act(
            "POST",
            "/canary/promote",
            {},
            lambda told: changes(told) or _serves("v2")(told),
            _serves("v2"),
            1,
        ),
        "roll-back": Act(
            "POST",
            "/roll-back",
            {},
            lambda told: changes(told) or told["canary"] or _serves("v1")(told),
            _serves("v1"),
            1,
        ),
        "sleep": Act(
            "POST",
            "/sleep",
            {},
            lambda told: told["status"]["state"] != "ready",
            lambda told: True,
            1,  # the next request wakes it
        ),
        "grow": Act("PATCH", "", {"min_replicas": 2}, _replicas(2), _replicas(2), 0),
        "shrink": Act(
            "PATCH", "", {"min_replicas": 1}, lambda told: told["spec"]["min_replicas"] == 1,
            _replicas(1), 0,
        ),
    }  # fmt: skip


ACTS = tuple(acts(""))


@pytest.fixture
def world() -> Iterator[World]:
    python()
    services = Services()
    services.folder.chmod(0o755)
    record = Path(tempfile.mkdtemp(prefix="berth-kills-"))
    record.chmod(0o777)
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("BERTH_TEST_POSTGRES", services.postgres(services.folder / "postgres"))
            redis = services.redis(services.folder / "redis")
            # Its connection does not outlive the server's end; all goes with the folder.
            with suppress(psycopg.OperationalError), postgres_database(SETTINGS) as url:
                portal = Portal({"BERTH_DATABASE_URL": url, "BERTH_REDIS_URL": redis})
                try:
                    yield World(services, portal.start(), record / "seen")
                finally:
                    portal.close()
        finally:
            services.stop()


def play(world: World, name: str, what: str) -> None:
    """Press as a person does: who gets no answer looks, and presses again where nothing was done."""
    act, before, began = acts(name)[what], world.look(name), time.monotonic()
    at = world.at[name] + act.path

    def pressed() -> bool:
        try:
            answer = world.api.request(act.method, at, json=act.said)
        except httpx.TransportError:
            pass  # it died in the middle
        else:
            if answer.status_code < 400:
                return True
            assert answer.status_code >= 500 or answer.status_code == 409, answer.text
        now = world.look(name)
        return act.begun(now) or now["launch"] > before["launch"]

    def is_done() -> bool:
        now = world.look(name)
        return now["launch"] == before["launch"] + act.launches and act.done(now) and is_well(now)

    world.until(pressed, f"{what} of {name}: a press")
    try:
        world.until(is_done, f"{what} of {name}: its end")
    finally:
        if what == "sleep":
            world.slept.append((name, began, time.monotonic()))


def round_of(world: World, first: str, second: str, victim: str, after_s: float) -> None:
    """Both at once, and a kill in the middle; all is well afterwards."""
    with ThreadPoolExecutor(3) as pool:
        began = [
            pool.submit(play, world, "first", first),
            pool.submit(play, world, "second", second),
        ]
        time.sleep(after_s)
        began.append(pool.submit(world.kill, victim))
        for one in began:
            one.result()


def judge(world: World) -> None:
    """No answer was wrong, nothing was done twice, and what was refused or broke was so by a kill
    or by a sleep that took longer than there is room to wait.
    """
    answers = list(world.caller.answers)
    assert [one for one in answers if one.status == 200 and not one.is_right] == []
    times = Counter(int(x) for x in world.seen.read_text().split()[::2])
    assert {x: n for x, n in times.items() if n > 1 and x > 0} == {}, "sent again"
    assert {one.x for one in answers if one.status == 200} <= times.keys()
    odd = [one for one in answers if one.status != 200 and not _is_explained(world, one)]
    assert odd == [], world.kills


def _is_explained(world: World, one: Answer) -> bool:
    if one.status == 0:
        broke = [at for victim, at in world.kills if victim == "haproxy"]
        return any(one.sent <= at + 1.0 and at <= one.ended for at in broke)
    is_full = one.status == 503 and json.loads(one.text)["code"] == "no-replica"
    return is_full and any(
        begin <= one.ended and one.sent <= end
        for name, begin, end in world.slept
        if name == one.name
    )


def count(world: World, *, lost: int) -> None:
    """What was asked is counted once, but for so much; broken answers may be counted or not."""
    asked = len(world.caller.answers) + len(world.at)
    broken = sum(one.status == 0 for one in world.caller.answers)

    def counted() -> bool:
        return int(world.portal.shell(COUNTED)) >= asked - broken - lost

    world.until(counted, "counting")
    assert int(world.portal.shell(COUNTED)) <= asked


@pytest.mark.long("each kill point: serving/test_e1_kill_points.py")
def test_e1_kills_in_the_middle_lose_no_request_and_all_comes_to_its_end(world: World) -> None:
    with world.calls():
        round_of(world, "canary", "sleep", "worker", 0.3)
        round_of(world, "promote", "grow", "haproxy", 3.0)
    judge(world)
    count(world, lost=0)


@pytest.mark.long(
    "20 minutes: each process in each act; two of them are killed in serving/test_real_kills.py, steps in serving/test_e1_kill_points.py"
)
@pytest.mark.parametrize("seed", [26])
def test_e1_e4_e6_each_process_is_killed_in_each_act(world: World, seed: int) -> None:
    """21 turns of 7 victims meet the 6 acts of both endpoints once each: one is 3 acts ahead."""
    chance = random.Random(seed)
    victims = chance.sample(VICTIMS, len(VICTIMS))
    with world.calls():
        for turn in range(21):
            names = ACTS[turn % 6], ACTS[(turn + 3) % 6]
            round_of(world, *names, victims[turn % 7], chance.uniform(0.0, 4.0))
            judge(world)
    # A gateway that is killed takes with it what it counted since it last wrote.
    count(world, lost=3 * 400)
