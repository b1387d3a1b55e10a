"""The model server as a process, in the environment that is made for it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support import torch
from tests.support.locked_environments import locked_environment
from tests.support.ports import free_ports

SAMPLES = Path(__file__).parent / "samples.py"
FRAMEWORK_OF = {
    "sklearn_columns": "sklearn",
    "sklearn_texts": "sklearn",
    "xgboost_columns": "xgboost",
}
# A model that waits, as one with work to do: its instances say how long.
SLOW = """
import joblib, sys, time
class Slow:
    n_features_in_ = 1
    def __reduce__(self):
        return (eval, ("__import__('types').SimpleNamespace(n_features_in_=1, "
            "predict=lambda rows: (__import__('time').sleep(float(rows[0, 0])), rows[:, 0])[1])",))
joblib.dump(Slow(), sys.argv[1])
"""
PROGRAM = ["-m", "serving.programs.model_server"]
READY_WITHIN_S = 180.0  # a busy machine reads its libraries for a minute


@dataclass(frozen=True)
class Started:
    url: str
    process: subprocess.Popen[str]

    def post(self, path: str, **said: Any) -> httpx.Response:
        return httpx.post(self.url + path, timeout=60, **said)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def memory_mib(self) -> int:
        """The most that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) // 1024


def python(name: str = "serving") -> list[str | Path]:
    return [locked_environment(name) / "bin/python", "-I"]


def debian_torch() -> tuple[Path, dict[str, str]]:
    """Return an interpreter that has the server, and what it is told to find Debian's PyTorch."""
    unpacked, server = torch.unpacked(), locked_environment("model-server")
    site = next(server.glob("lib/python3.*/site-packages"))
    # The server's own packages first: Debian's are older than what it needs.
    places = (site, unpacked / "usr/lib/python3/dist-packages", Path(__file__).parents[2])
    return server / "bin/python", {
        **torch.told(unpacked),
        "PYTHONPATH": ":".join(map(str, places)),
    }


def make_slow(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made: list[str | Path] = [*python("serving-samples"), "-c", SLOW, folder / "model.joblib"]
    subprocess.run(made, check=True)
    return folder


def make_sample(
    kind: str,
    folder: Path,
    name: str = "serving-samples",
    command: Sequence[str | Path] = (),
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make a model; return instances and what its library predicts for them."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*(command or python(name)), SAMPLES, kind, folder],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(
    framework: str, folder: Path, *words: str, command: Sequence[str | Path] = (), **said: Any
) -> subprocess.CompletedProcess[str]:
    """Start the server where it is expected to end by itself."""
    asked = ["--framework", framework, "--model-dir", folder, *words]
    started = [*(command or python()), *PROGRAM, *asked]
    return subprocess.run(
        started, capture_output=True, text=True, timeout=READY_WITHIN_S, check=False, **said
    )


@contextmanager
def serve(
    framework: str,
    folder: Path,
    *words: str,
    command: Sequence[str | Path] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Started]:
    """A server that answers; it is ended afterwards."""
    port = free_ports(1)
    asked = ["--framework", framework, "--model-dir", folder, "--name", "sample"]
    asked += ["--host", "127.0.0.1", "--port", str(port), "--drain-seconds", "0", *words]
    process = subprocess.Popen(
        [*(command or python()), *PROGRAM, *asked],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    started = Started(f"http://127.0.0.1:{port}", process)
    try:
        until = time.monotonic() + READY_WITHIN_S
        while not _answers(started):
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise AssertionError(process.communicate()[1])
            time.sleep(0.02)
        yield started
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            assert process.stderr
            process.stderr.close()


def _answers(started: Started) -> bool:
    try:
        return started.get("/v2/health/ready").is_success
    except httpx.TransportError:
        return False
