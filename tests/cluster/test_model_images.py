"""The images of model servers in pods: a model of each framework, and a server of people's own."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster import serving_images
from devcluster.kube import Kube
from tests.cluster.pods import STRICT, is_ready, pod
from tests.serving.server import make_sample
from tests.support.clustered import pinned

# Its images are built first, where this machine has none yet.
pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.timeout(600)]

FRAMEWORKS = ("sklearn", "xgboost", "lightgbm", "onnx")
PREDICTOR = 8085


def test_models_of_four_frameworks_and_a_server_of_ones_own_answer_from_pods(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    """Under the strictest rules for pods, with a file system that can't be written."""
    told, volumes, containers = {}, [], []
    image = pinned(serving_images.publish("serving"))
    for number, framework in enumerate(FRAMEWORKS):
        folder, port = tmp_path / framework, 8081 + number
        told[port] = make_sample(framework, folder)
        files = {p.name: base64.b64encode(p.read_bytes()).decode() for p in folder.iterdir()}
        meta = {"name": framework, "namespace": namespace}
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": files})
        volumes.append({"name": framework, "configMap": {"name": framework}})
        mount = {"name": framework, "mountPath": "/mnt/models", "readOnly": True}
        args = ["--framework", framework, "--model-dir", "/mnt/models", "--port", str(port)]
        containers.append(container(framework, image, port, args=args, volumeMounts=[mount]))
    own = pinned(serving_images.publish("predictor"))
    env = [{"name": "PORT", "value": str(PREDICTOR)}]
    containers.append(container("own", own, PREDICTOR, env=env))
    told[PREDICTOR] = {"instances": [[1, 2], [3.5]], "predictions": [3, 3.5]}
    kube.apply(pod(namespace, "models", image, containers=containers, volumes=volumes))

    def ready() -> Any:
        found = kube.get("v1", "Pod", "models", namespace)
        return found if is_ready(found) else None

    address = kube.until("a ready pod", ready)["status"]["podIP"]
    for port, its in told.items():
        url = f"http://{address}:{port}/v1/models/model:predict"
        answer = httpx.post(url, json={"instances": its["instances"]}, timeout=30)
        assert answer.status_code == 200, answer.text
        for said, wanted in zip(answer.json()["predictions"], its["predictions"], strict=True):
            if isinstance(wanted, dict):
                assert said["best"] == wanted["best"]
            else:
                assert said == pytest.approx(wanted, abs=1e-5)


def container(name: str, image: str, port: int, **more: Any) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/v2/health/ready", "port": port}, "periodSeconds": 1}
    locked = {**STRICT, "readOnlyRootFilesystem": True}
    made = {"name": name, "image": image, "securityContext": locked, "readinessProbe": probe}
    limits = {"cpu": "1", "memory": "512Mi"}
    return {**made, "resources": {"limits": limits, "requests": {"cpu": "50m"}}, **more}
