"""What of MLflow's answers is taken: addresses, flavours, signatures; who may ask whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from threading import Thread
from typing import Any, ClassVar

import pytest

from common.errors import Conflict, Invalid
from common.outbound import Bounds, Client
from dataplane.addresses import Opening, Policy
from serving.choices import Source
from serving.mlflow import _framework_of, _Server, _signature_of, _url_of
from serving.services.sources import Origin
from serving.services.versions import version_create


@pytest.mark.parametrize(
    ("at", "url"),
    [
        ("mlflow-artifacts:/1/models/m-1/artifacts", "mlflow-artifacts:///1/models/m-1/artifacts/"),
        ("mlflow-artifacts://evil.example/1/m", "mlflow-artifacts:///1/m/"),
        ("s3://bucket/mlruns/1/m", "s3://bucket/mlruns/1/m/"),
        ("gs://bucket/m/", "gs://bucket/m/"),
    ],
)
def test_files_come_by_the_server_that_was_asked_or_from_a_bucket(at: str, url: str) -> None:
    assert _url_of(at) == url


@pytest.mark.parametrize("at", ["/srv/mlruns/1", "file:///etc", "dbfs:/m", "s3://bucket", "", "x"])
def test_files_that_no_load_reaches_are_refused_with_what_would_do(at: str) -> None:
    with pytest.raises(Invalid) as refused:
        _url_of(at)
    assert "--serve-artifacts" in refused.value.message


def test_a_flavour_becomes_a_framework() -> None:
    python = {"python_function": {"loader_module": "mlflow.lightgbm"}}
    assert _framework_of({"flavors": {**python, "lightgbm": {}}}) == "lightgbm"
    assert _framework_of({"flavors": {"transformers": {}}}) == "huggingface"
    assert _framework_of({}) == _framework_of({"flavors": ["odd"]}) == ""
    with pytest.raises(Invalid) as refused:
        _framework_of({"flavors": python})
    assert "image of your own" in refused.value.message


def test_a_signature_becomes_tensors_and_a_table_of_one_type_one_tensor() -> None:
    tensor = [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, 4]}}]
    columns = [{"type": "double", "name": "width"}, {"type": "double", "name": "height"}]
    mixed = [*columns, {"type": "string", "name": "colour"}]
    said = {"signature": {"inputs": json.dumps(columns), "outputs": json.dumps(tensor)}}
    assert _signature_of(said) == {
        "inputs": [
            {
                "name": "input",
                "datatype": "FP64",
                "shape": [-1, 2],
                "parameters": {"columns": ["width", "height"]},
            }
        ],
        "outputs": [{"name": "output", "datatype": "FP64", "shape": [-1, 4]}],
    }
    found = _signature_of({"signature": {"inputs": json.dumps(mixed)}})["inputs"]
    assert [(one["name"], one["datatype"]) for one in found] == [
        ("width", "FP64"),
        ("height", "FP64"),
        ("colour", "BYTES"),
    ]
    for odd in ("[", "7", None, ["x"], "[[[[", "[1]", '{"a":1}'):
        assert _signature_of({"signature": {"inputs": odd}}) == {}


class Guarded(BaseHTTPRequestHandler):
    """A tracking server that lets a credential see the registry, and of runs as much as it says."""

    refused: ClassVar[dict[str, int]] = {}
    metrics: ClassVar[list[Any]] = []

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/2.0/mlflow/")
        code = self.refused.get(path, 200)
        said: dict[str, Any] = {
            "model-versions/get": {"model_version": {"version": "3", "run_id": "r1"}},
            "model-versions/get-download-uri": {"artifact_uri": "s3://bucket/m"},
            "runs/get": {"run": {"data": {"metrics": self.metrics}}},
        }
        body = said[path] if code == 200 else {"error_code": "PERMISSION_DENIED"}
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def asked() -> Iterator[Callable[..., Any]]:
    server = HTTPServer(("127.0.0.1", 0), Guarded)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    policy = Policy(openings=(Opening(ip_network("127.0.0.1/32"), server.server_port),))

    def ask(refused: dict[str, int], metrics: list[Any]) -> Any:
        Guarded.refused, Guarded.metrics = refused, metrics
        with Client(policy, Bounds(seconds=10)) as client:
            at = f"http://127.0.0.1:{server.server_port}"
            return _Server(client, at, {}).version("digits", "3")

    yield ask
    server.shutdown()
    server.server_close()


def test_metrics_that_may_not_be_seen_or_are_no_numbers_of_ours_hinder_nothing(asked: Any) -> None:
    metrics = [{"key": "accuracy", "value": 0.97}, {"key": "loss", "value": 10**400}]
    metrics += [{"key": "nan", "value": float("nan")}, {"key": "text", "value": "1"}]
    assert asked({}, metrics)["metrics"] == {"accuracy": 0.97}
    assert asked({"runs/get": 403}, metrics)["metrics"] == {}
    with pytest.raises(Conflict) as refused:
        asked({"runs/get": 401}, metrics)
    assert refused.value.code == "mlflow-refuses"
    for path, code, told in (
        ("model-versions/get", 401, "mlflow-refuses"),
        ("model-versions/get", 403, "mlflow-forbids"),
        ("model-versions/get-download-uri", 403, "mlflow-forbids"),
    ):
        with pytest.raises(Conflict) as refused:
            asked({path: code}, metrics)
        assert refused.value.code == told


@pytest.mark.parametrize(
    ("number", "name"), [("3", "v3"), ("7" * 12, "v1"), ("٣", "v1"), ("1/../2", "v1"), ("", "v1")]
)
@pytest.mark.django_db
def test_only_a_number_of_the_registry_names_a_version(
    model: Any, alice: Any, principal: Any, credential: Any, data: Any, number: str, name: str
) -> None:
    credential("lake")
    del data
    said = {"origin": "mlflow:team/digits/latest", "credential": "lake"}
    found = Origin(Source.REGISTRY, url="s3://lake/m/", registry={"version": number, "url": ""})
    row = version_create(principal=principal(alice), model=model, said=said, found=found)
    assert row.name == name


@pytest.mark.django_db
def test_a1_another_projects_server_is_not_asked(
    api: Any, alice: Any, bob: Any, vera: Any, charlie: Any, project: Any
) -> None:
    """A viewer and a stranger ask nobody; a name that is none of the project's is not there."""
    del project, bob
    path = "/api/v1/projects/vision/mlflow/models?server=team"
    assert api(alice, "GET", path).status_code == 404
    assert api(vera, "GET", path).status_code == 403
    assert api(charlie, "GET", path).status_code == 404
    inner = {"kind": "mlflow", "name": "team", "endpoint": "https://169.254.169.254"}
    stored = api(alice, "POST", "/api/v1/projects/vision/credentials", inner)
    assert (stored.status_code, list(stored.json()["fields"])) == (400, ["endpoint"])


@pytest.mark.django_db
def test_without_a_server_nothing_is_asked_and_the_page_says_how_to_get_one(
    api: Any, alice: Any, as_user: Any, project: Any
) -> None:
    del project
    base = "/api/v1/projects/vision/mlflow"
    assert api(alice, "GET", f"{base}/models").json() == {"models": [], "token": ""}
    assert api(alice, "GET", f"{base}/versions").json() == {"versions": [], "token": ""}
    page = as_user(alice).get("/projects/vision/models/mlflow")
    assert page.status_code == 200
    assert "No MLflow server yet" in page.content.decode()
    assert "?kind=mlflow" in page.content.decode()
