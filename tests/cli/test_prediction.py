"""``berth ai-platform models|versions|predict``: typed as for AI Platform Prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import read

pytestmark = pytest.mark.django_db(transaction=True)

CREATE = ("ai-platform", "versions", "create", "v1", "--model", "mnist")


@pytest.fixture
def me(token_of: Any, alice: Any, project: Any, world: Any) -> dict[str, str]:
    del project
    world.driver_for("local")
    return {"token": token_of(alice)}


def test_c24_a_model_and_a_version_are_created_listed_and_told(berth, me) -> None:
    done = berth("ai-platform", "models", "create", "mnist", **me)
    assert yaml.safe_load(done.stdout)["name"] == "mnist"
    origin = ("--framework", "tensorflow", "--origin", "gs://lake/mnist/1")
    made = berth(*CREATE, *origin, "--runtime-version", "2.11", **me)
    assert made.exit_code == 0, (made.output, made.exception)
    told = yaml.safe_load(made.stdout)
    assert (told["name"], told["deploymentUri"], told["state"], told["endpoint"]) == (
        "mnist/v1",
        "gs://lake/mnist/1",
        "CREATING",
        "mnist",
    )
    table = berth("ai-platform", "versions", "list", "--model", "mnist", **me).stdout.split()
    assert table[-4:] == ["v1", "gs://lake/mnist/1", "CREATING", "yes"]
    one = berth("ai-platform", "models", "describe", "mnist", "--format", "json", **me)
    assert read(one)["defaultVersion"]["framework"] == "TENSORFLOW"
    assert berth("ai-platform", "models", "delete", "mnist", **me).exit_code == 5  # it is served


def test_c24_a_plan_names_what_is_not_supported_and_creates_nothing(berth, me) -> None:
    berth("ai-platform", "models", "create", "mnist", **me)
    done = berth(*CREATE, "--origin", "gs://a/b", "--framework", "caffe", "--plan", **me)
    assert done.exit_code == 5
    assert "REFUSED" in done.stdout
    listed = berth("ai-platform", "versions", "list", "--model", "mnist", "-o", "json", **me)
    assert read(listed) == []


@pytest.mark.parametrize(
    ("text", "option", "code", "said"),
    [
        ("[1, 2]\n[3", "--json-instances", 2, "line 2 is no JSON"),
        ("[1]", "--json-request", 2, "is no JSON object"),
        ("[1, 2]", "--json-instances", 5, "is served by no endpoint"),
    ],
)
def test_what_can_not_be_predicted_is_said(
    berth, me, data, tmp_path: Path, text: str, option: str, code: int, said: str
) -> None:
    file = tmp_path / "instances.json"
    file.write_text(text)
    berth("model", "create", "mnist", **me)
    add = ("model", "version", "add", "mnist", "--from", "volume:data/m", "--framework", "onnx")
    assert berth(*add, "--no-wait", **me).exit_code == 0
    done = berth("ai-platform", "predict", "--model", "mnist", option, str(file), **me)
    assert (done.exit_code, said in str(done.exception)) == (code, True), done.exception


@pytest.fixture
def data(project: Any, alice: Any) -> Any:
    from volumes.models import Volume

    named = {"name": "data", "kind": "data", "cluster_key": "local"}
    return Volume.objects.create(project=project, created_by=alice, **named)


def test_json_instances_are_one_a_line(tmp_path: Path) -> None:
    from berth_cli.prediction import _request

    file = tmp_path / "in.json"
    file.write_text('{"a": 1}\n\n[2, 3]\n"x"\n')
    assert _request("json_instances", str(file)) == {"instances": [{"a": 1}, [2, 3], "x"]}
    assert _request("text_instances", str(file))["instances"][2] == '"x"'
    file.write_text(json.dumps({"instances": [1], "signature_name": "s"}))
    assert _request("json_request", str(file))["signature_name"] == "s"
