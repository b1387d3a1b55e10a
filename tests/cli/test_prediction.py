"""``berth ai-platform models|versions|predict``: typed as for AI Platform Prediction."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
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


class _Answering(BaseHTTPRequestHandler):
    """Stands where the gateway is; tells what it was asked."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = [self.path, self.headers["Authorization"], len(body["instances"])]
        said = json.dumps({"predictions": asked}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_words: object) -> None:
        """Says nothing."""


def test_c24_predictions_are_asked_of_the_gateway_with_ones_own_token(
    berth, me, data, settings, tmp_path: Path
) -> None:
    file = tmp_path / "instances.json"
    file.write_text("[1, 2]\n[3, 4]\n")
    berth("ai-platform", "models", "create", "mnist", **me)
    assert berth(*CREATE, "--framework", "onnx", "--origin", "volume:data/m", **me).exit_code == 0
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings.BERTH_GATEWAY_URL = f"http://127.0.0.1:{server.server_port}"
        words = ("--model", "mnist", "--version", "v1", "--json-instances", str(file))
        done = berth("ai-platform", "predict", *words, **me)
        server.shutdown()
    assert done.exit_code == 0, (done.output, done.exception)
    path = "/e/vision/mnist/v1/models/mnist:predict"
    assert read(done) == {"predictions": [path, f"Bearer {me['token']}", 2]}
