"""What of MLflow's answers is taken: addresses, flavours, signatures; who may ask whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import Invalid
from serving.mlflow import _framework_of, _signature_of, _url_of


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
