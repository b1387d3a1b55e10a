"""``python3 -m dataplane.copy`` as a driver runs it: a plan, folders of volumes, a listener."""

from __future__ import annotations

import functools
import json
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.support.dataplane import dataplane_environment
from tests.support.portal import ROOT

VOLUME = "data"
WITHIN_S = 240.0


@functools.cache
def dataplane_python() -> Path:
    """The interpreter that copies on one machine, with the packages that are there and no more."""
    return dataplane_environment() / "bin" / "python"


class Reports:
    """Where a copy tells how far it is; each report is kept, the newest last."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self.seen: list[dict[str, Any]] = []
        self.watchers: list[Callable[[dict[str, Any]], None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                good = self.headers.get("Authorization") == f"Bearer {outer.token}"
                if good:
                    report = json.loads(body)
                    outer.seen.append(report)
                    for watch in outer.watchers:
                        watch(report)
                self.send_response(204 if good else 403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/report"

    @property
    def last(self) -> dict[str, Any]:
        return self.seen[-1]


@dataclass
class Done:
    """How a copy ended."""

    code: int
    reports: list[dict[str, Any]]
    output: str

    @property
    def final(self) -> dict[str, Any]:
        """The last report's end; what it printed, when there is none."""
        found = self.reports[-1]["final"] if self.reports else None
        if found is None:
            raise AssertionError(f"no final report, exit {self.code}:\n{self.output[-3000:]}")
        return dict(found)

    @property
    def files(self) -> dict[str, int]:
        return dict(self.reports[-1]["files"])

    @property
    def errors(self) -> dict[str, str]:
        """What went wrong: key -> code."""
        return {error["key"]: error["code"] for error in self.reports[-1]["errors"]}


@dataclass
class Copying:
    """One load: its uid stays, so a second ``run`` goes on where the first ended."""

    base: Path  # volumes lie below it
    store: Mapping[str, Any]
    outbound: Mapping[str, Any]
    folder: str = "loaded"
    direction: str = "in"
    mode: str = "copy"
    others: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    uid: str = field(default_factory=lambda: secrets.token_hex(8))
    launch: int = 0

    @property
    def volume(self) -> Path:
        return self.base / VOLUME

    @property
    def target(self) -> Path:
        return self.volume / self.folder if self.folder else self.volume

    @property
    def state(self) -> Path:
        return self.volume / ".berth" / "loads" / self.uid

    def plan(self, reports: Reports | None = None) -> dict[str, Any]:
        return {
            "version": 1,
            "uid": self.uid,
            "launch": self.launch,
            "direction": self.direction,
            "mode": self.mode,
            "store": dict(self.store),
            "volume": {"name": VOLUME, "folder": self.folder},
            "include": [],
            "exclude": [],
            "delete_extra": False,
            "bandwidth_bytes_s": None,
            "concurrency": 0,
            "retry_failed_only": False,
            "space_bytes": None,
            "outbound": dict(self.outbound),
            "report": {"url": reports.url, "every_s": 0.2} if reports else None,
            **self.others,
        }

    def command(self, reports: Reports | None = None) -> list[str]:
        self.launch += 1
        self.volume.mkdir(parents=True, exist_ok=True)
        plan = self.base / f"plan-{self.uid}.json"
        plan.write_text(json.dumps(self.plan(reports)))
        return [str(dataplane_python()), "-m", "dataplane.copy", str(plan)]

    def environment(self, reports: Reports | None = None) -> dict[str, str]:
        """Nothing of this process's own, as a driver gives it."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.base),
            "BERTH_VOLUMES": str(self.base),
            "BERTH_REPORT_TOKEN": reports.token if reports else "",
            "PYTHONPATH": str(ROOT),  # the code as it is now
            **self.env,
        }

    def start(self, reports: Reports | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(reports),
            cwd=self.base,
            env=self.environment(reports),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self,
        *,
        kill_when: Callable[[dict[str, Any]], bool] | None = None,
        sig: int = signal.SIGKILL,
    ) -> Done:
        """To its end, or to the first report for which ``kill_when`` is true."""
        with Reports() as reports:
            child, sent = self.start(reports), []

            def watch(report: dict[str, Any]) -> None:
                if kill_when and not sent and kill_when(report) and child.poll() is None:
                    sent.append(sig)
                    child.send_signal(sig)

            reports.watchers.append(watch)
            try:
                output, _ = child.communicate(timeout=WITHIN_S)
            finally:
                if child.poll() is None:
                    child.kill()
                    child.communicate()
            return Done(child.returncode, reports.seen, output or "")

    def manifest(self) -> list[dict[str, Any]]:
        lines = (self.state / "manifest.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".berth" not in path.parts
    }


def codes(progress: Any) -> dict[str, str]:
    return {error["key"]: error["code"] for error in progress.errors}
