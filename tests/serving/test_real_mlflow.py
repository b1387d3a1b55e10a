"""Models of a real MLflow server: listed, registered by its own proxy of artifacts, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.jobs.test_real_outputs import berth
from tests.loaders.test_real_load import portal_open_to
from tests.support.mlflow import PASSWORD, PERSON, Mlflow, begun
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SERVER = {"kind": "mlflow", "name": "team", "username": PERSON}


@pytest.fixture(scope="module")
def mlflow() -> Iterator[Mlflow]:
    with begun() as server:
        yield server


@pytest.fixture(scope="module")
def portal(mlflow: Mlflow) -> Iterator[Portal]:
    with portal_open_to(mlflow.outbound()) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


def test_a_version_of_a_registry_comes_with_files_metrics_signature_and_run(
    portal: Portal, api: httpx.Client, mlflow: Mlflow
) -> None:
    logged = mlflow.log("Iris of Fisher", 0.97)
    mlflow.log("Iris of Fisher", 0.5)
    mlflow.alias("Iris of Fisher", "champion", "1")
    shelf = "projects/demo/credentials"
    made = api.post(shelf, json={**SERVER, "endpoint": mlflow.url, "password": PASSWORD})
    assert made.status_code == 201, made.text
    tested = api.post(f"{shelf}/{made.json()['id']}/test").json()
    assert (tested["ok"], "lists its models" in tested["message"]) == (True, True), tested

    listed = api.get("projects/demo/mlflow/models", params={"server": "team", "q": "fisher"}).json()
    (one,) = listed["models"]
    assert (one["name"], one["newest"]) == ("Iris of Fisher", 2)
    assert one["aliases"] == {"champion": "1"}
    asked = {"server": "team", "model": "Iris of Fisher"}
    versions = api.get("projects/demo/mlflow/versions", params=asked).json()["versions"]
    assert [(v["version"], bool(v["run"])) for v in versions] == [("2", True), ("1", True)]
    told = berth(portal, "model", "mlflow", "team", "Iris of Fisher").stdout
    assert [line.split()[0] for line in told.splitlines()[1:]] == ["2", "1"]

    words = ("model", "import", "team/Iris of Fisher/@champion", "-o", "json")
    done = berth(portal, *words)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    row = row[0] if isinstance(row, list) else row
    assert (row["model"], row["name"], row["framework"]) == ("iris-of-fisher", "v1", "sklearn")
    assert (row["source"], row["origin"]) == ("registry", "mlflow:team/Iris of Fisher/1")
    assert (row["metrics"], row["registry"]["run"]) == ({"accuracy": 0.97}, logged["run"])
    (taken,) = row["signature"]["inputs"]
    assert (taken["datatype"], taken["shape"]) == ("FP64", [-1, 4])
    there = portal.var / "volumes" / row["volume_id"] / row["folder"]
    assert {p.name for p in there.iterdir()} >= {"MLmodel", "model.pkl", "requirements.txt"}
    kept = next(mlflow.data.rglob("artifacts/**/model.pkl"))
    assert (there / "model.pkl").stat().st_size == kept.stat().st_size


def test_what_can_not_be_registered_is_said_with_what_would_do(
    portal: Portal, api: httpx.Client, mlflow: Mlflow
) -> None:
    mlflow.log("safe", 0.9, "skops")
    shelf, path = "projects/demo/credentials", "projects/demo/models/x/versions"
    for name, password in (("right", PASSWORD), ("wrong", "not-the-password")):
        said = {**SERVER, "name": name, "endpoint": mlflow.url, "password": password}
        made = api.post(shelf, json=said)
        assert made.status_code == 201, made.text
    tested = api.post(f"{shelf}/{made.json()['id']}/test").json()
    assert tested["ok"] is False, tested
    assert api.post("projects/demo/models", json={"name": "x"}).status_code == 201
    for origin, status, words in (
        ("mlflow:right/safe/1", 400, "cloudpickle"),
        ("mlflow:right/nothing/1", 404, "no such model"),
        ("mlflow:right/safe/9", 404, "no such model"),
        ("mlflow:right/safe/@none", 404, "no such model"),
        ("mlflow:wrong/safe/1", 409, "does not accept the credential"),
        ("mlflow:nobody/safe/1", 404, "credential"),
        ("mlflow:right/safe", 400, "SERVER/MODEL/VERSION"),
    ):
        answer = api.post(path, json={"origin": origin})
        assert answer.status_code == status, (origin, answer.text)
        assert words in answer.text, (origin, answer.text)
    assert api.get(path).json()["results"] == []
    refused = berth(portal, "model", "import", "right/safe/1")
    assert refused.returncode != 0
    assert api.get("projects/demo/models/safe").status_code == 404, "it was made for nothing"
