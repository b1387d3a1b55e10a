"""Tells the portal how a run goes, from a thread of its own; failing to never stops a copy."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dataplane.copy.plan import Plan
from dataplane.copy.problems import Stop, exit_of
from dataplane.copy.progress import Progress

ANSWER_S = 10.0
FINAL_S = 240.0  # the last report is worth waiting for; the pod's grace is longer when stopped
STOPPED_S = 4.0
LAST_WORDS = Path("/dev/termination-log")
LAST_WORDS_MAX = 4096
_SUCCESS = 2


class Reporter:
    """Sends a report every second and the final one at the end."""

    def __init__(
        self, plan: Plan, progress: Progress, token: str, stopping: threading.Event
    ) -> None:
        self._plan = plan
        self._stopping = stopping
        self._progress = progress
        self._token = token
        # Above whatever an earlier process of this launch sent: a Job may start a second pod.
        self._seq = int(time.time() * 1000)
        self._ended = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, order: Stop, manifest: str) -> None:
        """Send the last report; tried again for minutes when the portal does not answer."""
        self._ended.set()
        self._thread.join(ANSWER_S + 1)
        self._progress.phase = "ended"
        final = {
            "exit": exit_of(order.final),
            "code": str(order.final),
            "message": order.message,
            "manifest": manifest,
            "uploads": order.uploads,
        }
        last_words(final)
        if not self._plan.report_url:
            return
        until, pause = time.monotonic() + FINAL_S, 0.5
        while not self._send(final):
            if self._stopping.wait(pause):
                until = min(until, time.monotonic() + STOPPED_S)
                time.sleep(pause)
            if time.monotonic() > until:
                return
            pause = min(pause * 2, 15.0)

    def _run(self) -> None:
        while True:
            self._progress.mark()
            if self._plan.report_url:
                self._send(None)
            if self._ended.wait(self._plan.report_every):
                return

    def _send(self, final: dict[str, Any] | None) -> bool:
        self._seq += 1
        report = self._progress.report()
        report |= {"launch": self._plan.launch, "seq": self._seq, "final": final}
        body = json.dumps(report).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        try:
            path = self._connect()
            if self._connection is None:
                return False
            self._connection.request("POST", path, body, headers)
            answer = self._connection.getresponse()
            answer.read(65536)
            if answer.will_close:
                self._drop()
        except (OSError, http.client.HTTPException, ValueError):
            self._drop()
            return False
        # A refusal is final too: the portal knows of a newer launch, or of none.
        return answer.status // 100 == _SUCCESS or answer.status in {401, 403, 404, 409, 410}

    def _connect(self) -> str:
        parts = urlsplit(self._plan.report_url)
        if self._connection is None and parts.hostname:
            if parts.scheme == "https":
                context = ssl.create_default_context()
                if self._plan.outbound.ca_file:
                    context.load_verify_locations(self._plan.outbound.ca_file)
                self._connection = http.client.HTTPSConnection(
                    parts.hostname, parts.port, timeout=ANSWER_S, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(
                    parts.hostname, parts.port, timeout=ANSWER_S
                )
        return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def last_words(final: dict[str, Any], where: Path = LAST_WORDS) -> None:
    """Leave the outcome where a cluster looks for it, in case no report comes through."""
    said = {name: final[name] for name in ("code", "message", "uploads") if name in final}
    text = json.dumps(said)
    try:
        if where.is_file() and os.access(where, os.W_OK):
            where.write_text(text[:LAST_WORDS_MAX])
    except OSError:
        return
