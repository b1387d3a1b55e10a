"""A real MLflow tracking server with sign-in on loopback, which hands artifacts on itself.

with Mlflow() as server:
    server.log("iris", accuracy=0.97)
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.locked_environments import MissingError, locked_environment
from tests.support.store_programs import Process
from tests.support.stores import Store

PERSON, PASSWORD = "admin", "admin-of-tests-1"
# Its jobs want packages that nothing here needs; nobody is told that it is used.
QUIET = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
WITHIN_S = 120.0
# Logs one model and registers it; says what it predicts for its first rows.
LOG = """
import json, sys
import mlflow, numpy as np
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

name, accuracy, way = sys.argv[1:]
rows = np.random.default_rng(26).normal(size=(60, 4))
made = LogisticRegression().fit(rows, (rows[:, 0] > 0).astype(int))
with mlflow.start_run() as run:
    info = mlflow.sklearn.log_model(
        made, name="model", signature=infer_signature(rows, made.predict(rows)),
        registered_model_name=name, pip_requirements=["scikit-learn"], serialization_format=way,
    )
    mlflow.log_metric("accuracy", float(accuracy), model_id=info.model_id)
print(json.dumps({"run": run.info.run_id, "version": info.registered_model_version,
                  "instances": rows[:3].tolist(), "predictions": made.predict(rows[:3]).tolist()}))
"""


@cache
def environment() -> Path:
    return locked_environment("mlflow") / "bin"


class Mlflow(Store):
    kind = "mlflow"

    def __init__(self, *, signs_in: bool = True, **others: Any) -> None:
        super().__init__(**others)
        self.bin, self.signs_in = environment(), signs_in

    def start(self) -> None:
        command = (
            *(self.bin / "mlflow", "server", "--serve-artifacts"),
            *(("--app-name", "basic-auth") if self.signs_in else ()),
            *("--backend-store-uri", f"sqlite:///{self.data}/mlflow.db", "--workers", "1"),
            *("--artifacts-destination", self.data / "artifacts"),
            *("--host", self.host, "--port", str(self.port)),
        )
        env = {**QUIET, "MLFLOW_AUTH_ADMIN_PASSWORD": PASSWORD}
        env |= {"MLFLOW_FLASK_SERVER_SECRET_KEY": "of-tests", "PATH": f"{self.bin}:/usr/bin:/bin"}
        process = Process(command, self.folder, self.port, env, self.host, within_s=WITHIN_S)
        self._processes.append(process)

    def log(self, name: str, accuracy: float, way: str = "cloudpickle") -> dict[str, Any]:
        """Log a model of scikit-learn as a person does, and register it."""
        env = {**QUIET, "PATH": os.environ["PATH"], "HOME": str(self.folder)}
        env |= {"MLFLOW_TRACKING_URI": self.url, "MLFLOW_TRACKING_USERNAME": PERSON}
        env |= {"MLFLOW_TRACKING_PASSWORD": PASSWORD}
        command = [str(self.bin / "python"), "-c", LOG, name, str(accuracy), way]
        done = subprocess.run(
            command,
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found

    def alias(self, model: str, alias: str, version: str) -> None:
        import httpx

        answer = httpx.post(
            f"{self.url}/api/2.0/mlflow/registered-models/alias",
            json={"name": model, "alias": alias, "version": version},
            auth=(PERSON, PASSWORD),
        )
        assert answer.status_code == 200, answer.text


def begun(*, signs_in: bool = True) -> Mlflow:
    """One that can run here, not yet started; else the test is skipped with the reason."""
    try:
        environment()
    except MissingError as why:
        pytest.skip(f"no MLflow: {why}")
    return Mlflow(signs_in=signs_in)
