"""A model server that this machine has not: it is made, and what needs it waits meanwhile."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from common.clock import now
from common.making import Making, making_file, tell, wanted_file
from portal.server import duties, environments
from portal.server.processes import MODEL_SERVERS
from runtime.reasons import Reason
from serving.environments import SIZES_MIB, waits
from serving.models import Endpoint
from tests.serving.conftest import ENDPOINTS
from tests.serving.server import make_sample
from tests.serving.test_real_calls import until
from tests.support.portal import Portal
from tools import setup_steps
from tools.setup_shell import SetupError
from work import environments as environments_of_work
from work.environments import LOOK_S

_VERSION = """
from volumes.models import Volume
from serving.models import Model, ModelVersion
volume = Volume.objects.get(uid={uid!r})
model = Model.objects.create(project=volume.project, name="digits")
ModelVersion.objects.create(model=model, name="v1", framework="sklearn", source="volume",
    origin="volume:models/digits", volume=volume, folder="digits")
answer = True
"""


@pytest.fixture
def machine(tmp_path: Path, settings: Any) -> Path:
    settings.BERTH_LOCAL_DRIVER = "local"
    settings.BERTH_VAR = settings.BERTH_ENVIRONMENTS_DIR = tmp_path
    (tmp_path / "run").mkdir()
    return tmp_path


def test_the_manager_makes_those_that_model_servers_run_in() -> None:
    assert list(SIZES_MIB) == list(MODEL_SERVERS)
    assert all(SIZES_MIB.values())


@pytest.mark.parametrize(
    ("problem", "reason", "words"),
    [
        ("", Reason.ENVIRONMENT, "120 of about 650 MiB"),
        ("disk", Reason.ENVIRONMENT_MISSING, "takes 650 MiB"),
        ("network", Reason.ENVIRONMENT_MISSING, "does not reach the index"),
        ("failed", Reason.ENVIRONMENT_MISSING, "could not be installed"),
    ],
)
def test_who_waits_says_so_and_is_told_how_far_it_is(
    machine: Path, problem: str, reason: str, words: str
) -> None:
    wish = wanted_file(machine, "serving")
    assert waits("jupyterlab") is None
    first = waits("serving")
    assert first
    assert (first[0], wish.exists()) == (Reason.ENVIRONMENT, True)
    tell(making_file(machine, "serving"), Making(120, problem))
    found = waits("serving")
    assert found
    assert (found[0], words in found[1]) == (reason, True), found
    job: Any = SimpleNamespace(cluster_key="local", environment="serving")  # of a batch prediction
    assert environments_of_work.waits(job) == found
    job.cluster_key = "c"
    assert environments_of_work.waits(job) is None
    (machine / "serving").mkdir()
    assert waits("serving") is None


def test_a_plan_says_so_and_the_launch_begins_when_it_is_there(
    machine: Path,
    api: Any,
    alice: Any,
    version: Any,
    settle: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.BERTH_LOCAL_DRIVER = "fake"  # which needs none: asked as if it did
    monkeypatch.setattr("serving.environments.is_there", lambda name: (machine / name).exists())
    version()
    said = {"name": "digits", "model": "digits/v1"}
    told = api(alice, "POST", f"{ENDPOINTS}?plan=1", said)
    assert told.status_code == 200, told.content
    assert "makes the model server first: about 650 MiB" in told.content.decode()
    made = api(alice, "POST", ENDPOINTS, said)
    row = settle(Endpoint.objects.get(short_id=made.json()["id"]))
    assert (row.phase, row.reason) == ("pending", Reason.ENVIRONMENT)
    assert row.next_reconcile_at <= now() + timedelta(seconds=LOOK_S)
    assert not row.external_ref.get("devices")
    (machine / "serving").mkdir()
    assert settle(row).phase == "running"


def test_one_of_before_serves_on_and_is_made_anew_and_a_job_waits_for_the_new_one(
    machine: Path, db: None
) -> None:
    del db
    wish, folder = wanted_file(machine, "serving"), machine / "serving"
    folder.mkdir()

    def job(*args: str) -> Any:
        return SimpleNamespace(cluster_key="local", environment="serving", args=list(args))

    for before in (None, "of before"):
        if before:
            (folder / setup_steps.MADE_OF).write_text(before)
        assert waits("serving") is None  # an endpoint
        assert wish.exists()
        wish.unlink()
        found = environments_of_work.waits(job("--input", "data/in"))
        assert found
        assert found[0] == Reason.ENVIRONMENT
    past = time.time() - duties.LINGERS_S - 1
    os.utime(wish, (past, past))
    duties.gate_tick()
    assert wish.exists()  # an endpoint does not ask again: it is made all the same
    tell(making_file(machine, "serving"), Making(problem="network"))
    assert environments_of_work.waits(job("--input", "data/in")) is None
    for words in (("--format", "parquet"), ("--input", "data/rows.parquet")):
        found = environments_of_work.waits(job(*words))
        assert found
        assert found[0] == Reason.ENVIRONMENT_MISSING
    (folder / setup_steps.MADE_OF).write_text(setup_steps.serving_made_of("serving"))
    wish.unlink()
    assert environments_of_work.waits(job("--format", "parquet")) is None
    assert not wish.exists()


def test_what_a_model_server_is_made_of_is_written_into_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other files or another lock, another folder; the link leads to the new one."""
    site = "lib/python3.11/site-packages"

    def made(_what: str, folder: Path, *_more: object) -> Path:
        (folder / site).mkdir(parents=True)
        return folder

    monkeypatch.setenv("BERTH_ENVIRONMENTS_DIR", str(tmp_path))
    monkeypatch.setattr(setup_steps, "environment", made)
    monkeypatch.setattr(setup_steps, "run", lambda *_args, **_more: None)
    folder = setup_steps.serving_environment(Path("/usr/bin/python3"), Path("uv"))
    said = (tmp_path / "serving" / setup_steps.MADE_OF).read_text()
    assert said == setup_steps.serving_made_of("serving")
    assert (folder / site / "serving/programs/model_server.py").is_file()
    monkeypatch.setattr(setup_steps, "MODEL_SERVER", setup_steps.MODEL_SERVER[:1])
    assert setup_steps.serving_made_of("serving") != said
    other = setup_steps.serving_environment(Path("/usr/bin/python3"), Path("uv"))
    assert other != folder
    assert (tmp_path / "serving").resolve() == other


def test_a_wish_that_nobody_has_any_more_ends(machine: Path, db: None) -> None:
    del db
    wish = wanted_file(machine, "serving")
    waits("serving")
    duties.gate_tick()
    assert wish.exists()
    past = time.time() - duties.LINGERS_S - 1
    os.utime(wish, (past, past))
    duties.gate_tick()
    assert not wish.exists()


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("The disk is full. Free some space", "disk"),
        (
            "uv ended with code 2:\n    cause: Failed to fetch: http://me:secret@host/simple/",
            "network",
        ),
        ("uv ended with code 1:\n    Hash mismatch for numpy", "failed"),
    ],
)
def test_why_it_was_not_made_is_a_word_which_says_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, word: str
) -> None:
    def fails(*_args: object) -> None:
        raise SetupError(said)

    monkeypatch.setattr(environments.setup_steps, "serving_environment", fails)
    assert environments.make(tmp_path, "serving") == word


class Alone(Portal):
    """A portal of a machine that has no environment of a model server."""

    def __init__(self, **env: str) -> None:
        super().__init__(env)
        self.env["BERTH_ENVIRONMENTS_DIR"] = str(self.var / "environments")

    def endpoint(self, api: httpx.Client, folder: Path) -> str:
        """Launch one of a scikit-learn model; return where it is looked at."""
        said = {"name": "models", "size_mib": 1024}
        made = api.post("projects/demo/volumes", json=said)
        assert made.status_code < 300, made.text
        uid = made.json()["id"]
        files = self.var / "volumes" / uid
        until(files.is_dir)
        (files / "digits").mkdir()
        for path in folder.iterdir():
            (files / "digits" / path.name).write_bytes(path.read_bytes())
        self.shell(_VERSION.format(uid=uid))
        said = {"name": "digits", "model": "digits/v1", "cpu_milli": 500, "memory_mib": 512}
        plan = api.post("projects/demo/endpoints?plan=1", json=said)
        assert "makes the model server first: about 650 MiB" in plan.text
        made = api.post("projects/demo/endpoints", json=said)
        assert made.status_code == 202, made.text
        return f"projects/demo/endpoints/{made.json()['id']}"


@pytest.mark.real
@pytest.mark.timeout(300)
def test_without_a_network_an_endpoint_says_so_and_waits(tmp_path: Path) -> None:
    make_sample("sklearn", tmp_path / "digits")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    portal = Alone(**nowhere, UV_CACHE_DIR=str(tmp_path / "cache"))
    try:
        portal.start()
        with portal.api(portal.token("admin")) as api:
            at = portal.endpoint(api, tmp_path / "digits")

            def refused() -> Any:
                status = api.get(at).json()["status"]
                return status if status["reason"] == Reason.ENVIRONMENT_MISSING else None

            status = until(refused, 120)
            assert "does not reach the index" in status["message"], status
            assert status["phase"] == "pending"
            api.delete(at)
            until(lambda: api.get(at).status_code == 404)
    finally:
        portal.close()


@pytest.mark.real
@pytest.mark.long("who waits and is told: the tests above; the server: test_real_endpoints.py")
@pytest.mark.timeout(900)
def test_the_first_endpoint_of_a_machine_has_its_model_server_made(tmp_path: Path) -> None:
    told = make_sample("sklearn", tmp_path / "digits")
    portal = Alone()
    try:
        portal.start()
        with portal.api(portal.token("admin")) as api:
            at = portal.endpoint(api, tmp_path / "digits")
            seen = set()

            def ready() -> bool:
                status = api.get(at).json()["status"]
                assert status["state"] != "failed", status
                if status["reason"] == Reason.ENVIRONMENT:
                    seen.add(status["message"])
                return bool(status["state"] == "ready")

            until(ready, 600)
            assert any("of about 650 MiB" in words for words in seen), seen
            key = api.post(f"{at}/keys", json={"name": "of the test"}).json()["key"]
            url = f"http://127.0.0.1:{portal.port + 7}/e/demo/digits/v1/models/digits:predict"

            def called() -> httpx.Response | None:
                """A new key is known within a second."""
                answer = httpx.post(
                    url,
                    json={"instances": told["instances"]},
                    headers={"Authorization": f"Bearer {key}"},
                    timeout=60,
                )
                return answer if answer.status_code != 401 else None

            answer = until(called, 10)
            assert answer.json()["predictions"] == told["predictions"], answer.text
            wish = wanted_file(portal.var, "serving")
            until(lambda: not wish.exists(), 120)  # nobody waits, so its maker ends
            api.delete(at)
            until(lambda: api.get(at).status_code == 404)
    finally:
        portal.close()
