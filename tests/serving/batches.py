"""The program of batch predictions on a folder, as it is run."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.serving.server import python
from tests.support.portal import ROOT

PROGRAM = ["-m", "serving.programs.batch_predict"]


class Batch:
    """A folder with a model, an input and an output, and the program on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, python()[0]
        for name in ("v/in", "v/model", "out", "kept"):
            (folder / name).mkdir(parents=True)

    def model(self, body: str) -> None:
        """Have a model of one column whose ``predict`` is this."""
        (self.folder / "v/model/own.py").write_text(
            "import os, time, numpy as np\n"
            "class Own:\n"
            "    n_features_in_ = 1\n"
            "    def predict(self, rows):\n"
            f"        {body}\n"
            "        return rows[:, 0]\n"
        )
        make = "import joblib, own; joblib.dump(own.Own(), 'model.joblib')"
        said = [python()[0], "-c", make]
        subprocess.run(said, cwd=self.folder / "v/model", check=True)

    def write(self, count: int) -> None:
        lines = "".join(f"[{number}]\n" for number in range(count))
        (self.folder / "v/in/a.jsonl").write_text(lines)

    def begin(self, *more: str, limit: int = 0, **env: str) -> subprocess.Popen[str]:
        place = self.folder
        told = {"BERTH_VOLUMES": place / "v", "BERTH_OUTPUT": place / "out"}
        told |= {"BERTH_CHECKPOINTS": place / "kept", "BERTH_EVENTS": place / "events"}
        path = f"{ROOT}:{place / 'v/model'}"
        words = [*self.own(), "--input", "in", *more]
        return subprocess.Popen(
            [self.python, *PROGRAM, *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **{k: str(v) for k, v in told.items()}, **env},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))  # noqa: PLW1509 - no other thread is there
            if limit
            else None,
        )

    def own(self) -> list[str]:
        return ["--framework", "sklearn", "--model-dir", "model", "--name", "m"]

    def run(self, *more: str, **env: Any) -> tuple[int, str]:
        process = self.begin(*more, **env)
        _none, said = process.communicate(timeout=200)
        return process.returncode, said

    def killed_at(self, wanted: int, *more: str, **env: Any) -> None:
        """Begin it, and end it with SIGKILL once so many are predicted."""
        process, kept = self.begin(*more, **env), self.folder / "kept/batch-progress.json"
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            if kept.exists() and json.loads(kept.read_text())["predicted"] >= wanted:
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL

    def predictions(self) -> list[dict[str, Any]]:
        return lines_of(self.folder / "out/predictions-00000.jsonl")

    def errors(self) -> list[dict[str, Any]]:
        return lines_of(self.folder / "out/errors.jsonl")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def with_pyarrow(code: str, *words: Any) -> Any:
    """Run a piece in the model server's environment; return what it printed, as JSON."""
    said = [python()[0], "-c", code, *map(str, words)]
    done = subprocess.run(said, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout or "null")
