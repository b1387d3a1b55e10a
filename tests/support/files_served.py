"""The file browser's server as a real process, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-this-test"
PERSON = {"X-Berth-Person": "p1"}


class Served:
    """One server of one volume."""

    def __init__(self, base: Path, *words: str) -> None:
        self.root = base / "data"
        self.root.mkdir(exist_ok=True)
        self.port = free_port()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dataplane.files", "--root", "data"),
                *("--port", str(self.port), *words),
            ],
            cwd=ROOT,
            env={
                "BERTH_FILES_TOKEN": TOKEN,
                "BERTH_VOLUMES": str(base),
                "PATH": os.environ["PATH"],
            },
        )
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {TOKEN}", **PERSON},
            timeout=60,
            trust_env=False,
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if self.http.get("/livez").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        pytest.fail("it never answered")

    def post(self, act: str, **said: Any) -> httpx.Response:
        return self.http.post(f"/{act}", json=said)

    def lines(self, answer: httpx.Response) -> list[dict[str, Any]]:
        return [json.loads(line) for line in answer.text.splitlines()]

    def names(self, path: str = "", **query: Any) -> list[str]:
        said = self.http.get("/list", params={"path": path, **query}).json()
        return [entry["name"] for entry in said["entries"]]

    def cpu_s(self) -> float:
        """Return what it has computed: unlike the time that passed, no work of others is in it."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> int:
        self.http.close()
        self.process.terminate()
        return self.process.wait(60)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")
