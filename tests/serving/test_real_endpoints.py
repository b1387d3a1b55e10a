"""The real thing on one machine: a model's files in a volume, served by processes of a portal."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.server import make_sample, python
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_S = 120.0
_VOLUME = """
from accounts.models import User
from accounts.principal import Principal
from projects.models import Project
from volumes.services import create
who = Principal(User.objects.get(username="admin"))
wanted = create.NewVolume("models", 1024)
row = create.volume_create(principal=who, project=Project.objects.get(slug="demo"), wanted=wanted)
answer = str(row.uid)
"""
_VERSIONS = """
from accounts.models import User
from projects.models import Project
from serving.models import Model, ModelVersion
from volumes.models import Volume
volume = Volume.objects.get(uid={uid!r})
model = Model.objects.create(project=volume.project, name="digits")
for name in ("v1", "v2"):
    ModelVersion.objects.create(model=model, name=name, framework="sklearn", source="volume",
        origin="volume:models/digits", volume=volume, folder="digits")
answer = True
"""
_ROW = """
from serving.models import Endpoint
row = Endpoint.objects.get(short_id={id!r})
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    python()  # the environment, before the portal looks
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def sample(portal: Portal, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A scikit-learn model in a volume of the project, with what it predicts."""
    made = tmp_path_factory.mktemp("sample") / "digits"
    told = make_sample("sklearn", made)
    uid = portal.shell(_VOLUME)
    folder = portal.var / "volumes" / uid
    _until(folder.is_dir)
    shutil.copytree(made, folder / "digits")
    for path in (folder / "digits", *(folder / "digits").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    portal.shell(_VERSIONS.format(uid=uid))
    return told


@pytest.fixture(scope="module")
def api(portal: Portal) -> Iterator[httpx.Client]:
    with portal.api(portal.token("admin")) as client:
        yield client


def _until(found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s:.0f} s")


def _answering(told: dict[str, Any]) -> list[str]:
    return [one["address"] for one in told["replica_states"] if one["address"]]


def _predict(portal: Portal, name: str, key: str, sample: dict[str, Any]) -> httpx.Response:
    """Ask through the gateway."""
    return httpx.post(
        f"http://127.0.0.1:{portal.port + 7}/e/demo/{name}/v1/models/digits:predict",
        json={"instances": sample["instances"]},
        headers={"Authorization": f"Bearer {key}"},
        timeout=120,
    )


def _listening(port: int) -> list[int]:
    """Return the model servers that were told this port, whatever else comes and goes meanwhile."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"--port\0{port}\0".encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


class Served:
    """An endpoint of the demonstration's project, looked at through the API."""

    def __init__(self, portal: Portal, api: httpx.Client, **said: Any) -> None:
        self.portal, self.api = portal, api
        size = {"cpu_milli": 500, "memory_mib": 1024}
        answer = api.post("projects/demo/endpoints", json={**size, **said})
        assert answer.status_code == 202, answer.text
        self.at = f"projects/demo/endpoints/{answer.json()['id']}"
        self.id = answer.json()["id"]

    def look(self) -> dict[str, Any]:
        return dict(self.api.get(self.at).json())

    def ready(self, replicas: int = 1) -> list[str]:
        """The addresses, once so many answer and no other is there."""

        def found() -> list[str] | None:
            told = self.look()
            state = told["status"]["state"]
            assert state != "failed", (told["status"], self.api.get(f"{self.at}/logs").text)
            addresses = _answering(told)
            whole = len(addresses) == len(told["replica_states"]) == replicas
            return addresses if state == "ready" and whole else None

        return list(_until(found))

    def state(self, *wanted: str) -> str:
        return str(_until(lambda: (now := self.look()["status"]["state"]) in wanted and now))

    def shell(self, code: str) -> Any:
        return self.portal.shell(_ROW.format(id=self.id) + code)

    def press(self, answering: int) -> None:
        """What a gateway says that it has in hand, for a while to come."""
        self.shell(
            "from datetime import timedelta; from common.clock import now\n"
            f"told = {{'answering': {answering}, 'seen_at': now() + timedelta(minutes=5)}}\n"
            "row.pressures.update_or_create(gateway='test', defaults=told); answer = 1"
        )

    def delete(self) -> None:
        self.api.delete(self.at)
        _until(lambda: self.api.get(self.at).status_code == 404)


def test_a_version_answers_by_both_protocols(portal, api, sample) -> None:
    served = Served(portal, api, name="digits", model="digits/v1")
    (address,) = served.ready()
    said = httpx.post(
        f"http://{address}/v1/models/digits:predict", json={"instances": sample["instances"]}
    )
    assert said.json()["predictions"] == sample["predictions"]
    told = httpx.get(f"http://{address}/v2/models/digits").json()
    tensor = {"name": told["inputs"][0]["name"], "datatype": told["inputs"][0]["datatype"]}
    rows = sample["instances"]
    tensor |= {"shape": [len(rows), len(rows[0])], "data": rows}
    answer = httpx.post(f"http://{address}/v2/models/digits/infer", json={"inputs": [tensor]})
    assert answer.json()["outputs"][0]["data"] == sample["predictions"]
    volume = Path(portal.var) / "volumes"
    before = sorted(path.name for path in volume.glob("*/digits/*"))
    assert before == ["model.joblib"]  # a server only reads
    served.delete()


def test_one_three_one_and_a_replica_that_dies_begins_anew(portal, api, sample) -> None:
    served = Served(
        portal, api, name="wide", model="digits/v1", max_replicas=3, concurrency=2, cpu_milli=200
    )
    first = served.ready()
    served.press(6)
    three = served.ready(3)
    assert set(first) < set(three)  # the one that was there goes on
    for address in three:
        answer = httpx.post(
            f"http://{address}/v1/models/digits:predict", json={"instances": sample["instances"]}
        )
        assert answer.json()["predictions"] == sample["predictions"]
    (pid,) = _listening(int(three[-1].rpartition(":")[2]))
    os.kill(pid, signal.SIGKILL)
    _until(lambda: three[-1] not in _answering(served.look()))
    assert len(served.ready(3)) == 3
    assert served.look()["launch"] == 1
    served.api.patch(served.at, json={"max_replicas": 1})
    assert len(served.ready(1)) == 1
    served.delete()


def test_another_number_is_refused_when_its_folder_is_gone_and_it_answers_on(
    portal, api, sample
) -> None:
    served = Served(portal, api, name="gone", model="digits/v1", max_replicas=3)
    served.ready()
    key = api.post(f"{served.at}/keys", json={"name": "shop"}).json()["key"]
    (folder,) = (portal.var / "volumes").glob("*/digits")
    known = "row.version.files, row.version.problem = {0!r}, {1!r}; row.version.save(); answer = 1"
    away = folder.rename(folder.with_name("away"))
    served.shell(known.format("failed", "There are no files in this folder."))
    try:
        refused = api.patch(served.at, json={"min_replicas": 2})
        assert (refused.status_code, refused.json()["code"]) == (409, "files-gone"), refused.text
        served.press(24)  # and what gateways have in hand starts none
        assert "digits/v1" in _until(lambda: served.look()["scaling_problem"])
        assert len(served.ready(1)) == 1
        assert _predict(portal, "gone", key, sample).json()["predictions"] == sample["predictions"]
    finally:
        away.rename(folder)
        served.shell(known.format("there", ""))
    assert len(served.ready(3)) == 3
    served.delete()


def test_it_sleeps_holds_nothing_and_a_request_with_a_key_wakes_it(portal, api, sample) -> None:
    served = Served(portal, api, name="sleepy", model="digits/v1", sleep_after_minutes=1)
    served.ready()
    key = api.post(f"{served.at}/keys", json={"name": "shop"}).json()
    served.shell(
        "from datetime import timedelta; from common.clock import now\n"
        "Endpoint.objects.filter(pk=row.pk).update(ready_at=now() - timedelta(hours=1)); answer = 1"
    )
    served.state("asleep")
    assert not _answering(served.look())
    stranger = _predict(portal, "sleepy", "bep_" + "x" * 32, sample)
    assert (stranger.status_code, served.look()["status"]["state"]) == (401, "asleep")
    said = _predict(portal, "sleepy", key["key"], sample)
    assert (said.status_code, said.json()["predictions"]) == (200, sample["predictions"])
    assert served.look()["launch"] == 2
    api.delete(f"{served.at}/keys/{key['id']}")
    _until(lambda: _predict(portal, "sleepy", key["key"], sample).status_code == 401, 30)
    served.delete()


def test_put_to_sleep_by_a_press_nobody_who_calls_is_refused(portal, api, sample) -> None:
    served = Served(portal, api, name="pressed", model="digits/v1")
    served.ready()
    key = api.post(f"{served.at}/keys", json={"name": "shop"}).json()["key"]
    _until(lambda: _predict(portal, "pressed", key, sample).status_code == 200)
    answers: list[int] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            answers.append(_predict(portal, "pressed", key, sample).status_code)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        assert api.post(f"{served.at}/sleep", json={}).status_code == 202
        _until(lambda: served.look()["launch"] == 2)  # the next request wakes it
        served.ready()
    finally:
        over.set()
        caller.join()
    assert set(answers) == {200}, answers
    served.delete()


def test_promoted_every_request_is_answered_and_nothing_of_it_is_lost(portal, api, sample) -> None:
    served = Served(portal, api, name="moving", model="digits/v1")
    served.ready()
    key = api.post(f"{served.at}/keys", json={"name": "shop"}).json()["key"]
    _until(lambda: _predict(portal, "moving", key, sample).status_code == 200)
    assert api.post(f"{served.at}/canary", json={"model": "digits/v2"}).status_code == 202
    _until(lambda: served.look()["canary"]["state"] == "ready")
    answers: list[tuple[int, str]] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            said = _predict(portal, "moving", key, sample)
            answers.append((said.status_code, said.headers.get("X-Berth-Version", said.text)))

    caller = threading.Thread(target=call)
    caller.start()
    try:
        assert api.post(f"{served.at}/canary/promote").status_code == 202
        _until(lambda: not (told := served.look())["promoting"] and not told["canary"])
    finally:
        over.set()
        caller.join()
    assert {status for status, _version in answers} == {200}, answers
    versions = [version for _status, version in answers]
    assert versions == sorted(versions), "it goes from one to the other once"
    assert {"v1", "v2"} == set(versions)
    told = served.look()
    assert (told["spec"]["model"], told["launch"]) == ("digits/v2", 2)
    served.delete()


def test_the_portal_begins_anew_and_its_endpoints_answer_by_the_same_process(
    portal, api, sample
) -> None:
    served = Served(portal, api, name="staying", model="digits/v1")
    before = served.ready()
    key = api.post(f"{served.at}/keys", json={"name": "shop"}).json()["key"]
    _until(lambda: _predict(portal, "staying", key, sample).status_code == 200)
    portal.down()
    portal.up()
    _until(lambda: _predict(portal, "staying", key, sample).status_code == 200)
    assert (served.ready(), served.look()["launch"]) == (before, 1)
    served.delete()


def test_d5_a_model_that_is_a_program_ends_alone_and_says_why(portal, api, sample) -> None:
    """A pickle that takes all memory is ended by its own limit; beside it others answer."""
    program = "held = []\nwhile True:\n    held.append(bytearray(2**26))"
    volume = next((Path(portal.var) / "volumes").glob("*/digits")).parent
    (volume / "greedy").mkdir()
    (volume / "greedy").chmod(0o755)
    (volume / "greedy/model.pkl").write_bytes(pickle.dumps(_Runs(program)))
    (volume / "greedy/model.pkl").chmod(0o644)
    said = {"name": "greedy", "origin": "volume:models/greedy", "framework": "sklearn"}
    assert api.post("projects/demo/models/digits/versions", json=said).status_code == 202
    beside = Served(portal, api, name="beside", model="digits/v1")
    (address,) = beside.ready()
    greedy = Served(portal, api, name="greedy", model="digits/greedy", memory_mib=512)
    greedy.state("failed")
    told = greedy.look()["status"]
    assert (told["reason"], "more memory" in told["advice"]) == ("oom", True), told
    answer = httpx.post(
        f"http://{address}/v1/models/digits:predict", json={"instances": sample["instances"]}
    )
    assert answer.json()["predictions"] == sample["predictions"]
    greedy.delete()
    beside.delete()


class _Runs:
    """Whose pickle runs ``code`` where it is opened."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)
