"""What is told of a run: lines of its log, and reports to the portal.

Reports go from a thread of their own; failing to send one never stops a copy.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

from dataplane.copy.engine import size_text
from dataplane.copy.http1 import now
from dataplane.copy.lanes import cores, lanes_most
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Stop, exit_of, shown
from dataplane.copy.progress import KEY, Progress

# How often how far it is is told: often at first, seldom in a run of days.
_EVERY = ((120.0, 10.0), (3600.0, 60.0), (float("inf"), 600.0))
_SECRETS = ("private_key", "private_key_id", "client_secret", "refresh_token")
_TASKS = {
    "dry-run": "dry run",
    "verify": "check",
    "abandon": "giving up what is half done",
    "clear": "removing here what was copied",
}
ANSWER_S = 10.0
FINAL_S = 240.0  # the last report is worth waiting for; the pod's grace is longer when stopped
STOPPED_S = 4.0
LAST_WORDS = Path("/dev/termination-log")
LAST_WORDS_MAX = 4096
_SUCCESS = 2


def opening(plan: Plan) -> Iterator[str]:
    """Yield what is going to be done; nothing in it is secret."""
    store, task = plan.store, _TASKS.get(plan.mode, plan.mode)
    there = f"{store.kind} bucket {shown(store.bucket, KEY)}, below “{shown(store.prefix, KEY)}”"
    if store.objects is not None:
        there += f", {len(store.objects):,} named objects"
    here = f"folder “{shown(plan.folder, KEY)}” of the volume"
    way = (there, here) if plan.direction == "in" else (here, there)
    yield f"run {plan.launch}: {task}, from {way[0]} to {way[1]}"
    host = _host(store.endpoint) or "its provider's own address"
    yield f"the store is at {host}, asked {'as nobody' if store.anonymous else 'by a credential'}"
    if plan.retry_failed_only:
        yield "only what failed before is tried"
    if plan.include or plan.exclude:
        yield f"{len(plan.include)} patterns include, {len(plan.exclude)} exclude"
    limit = f"{size_text(plan.bandwidth)}/s at most" if plan.bandwidth else "no limit of bandwidth"
    yield f"{cores():.2g} cores, up to {lanes_most()} lanes for large objects, {limit}"


def secrets_of(plan: Plan) -> Iterator[str]:
    """Yield what no line may hold."""
    store = plan.store
    yield from (store.secret_key, store.session_token, store.token)
    account = store.service_account or {}
    yield from (str(account.get(name) or "") for name in _SECRETS)


def ending(progress: Progress, order: Stop) -> Iterator[str]:
    p = progress
    yield (
        f"found {p.found:,}, copied {p.done:,}, unchanged {p.unchanged:,}, skipped {p.skipped:,}, "
        f"failed {p.failed:,}, deleted {p.deleted:,}; {size_text(p.bytes_read)} went over the wire"
    )
    if p.verified:
        ways = ", ".join(f"{way} {count:,}" for way, count in sorted(p.verified.items()))
        yield f"checked by: {ways}"
    yield f"{order.final}: {order.message}"


class Watch:
    """Looks at a run once a second and finds what has become worth a line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._begun = self._told = now()
        self._phase = progress.phase
        self._listed = False

    def lines(self) -> Iterator[str]:
        progress, at = self._progress, now()
        if progress.phase not in {self._phase, "ended"}:
            self._phase = progress.phase
            yield f"now {progress.phase}"
        if progress.listed and not self._listed:
            self._listed = True
            size = size_text(progress.bytes_found)
            yield f"the listing is complete: {progress.found:,} files, {size}"
        age = at - self._begun
        every = next(seconds for until, seconds in _EVERY if age < until)
        if at - self._told >= every:
            self._told = at
            yield self._how_far()

    def _how_far(self) -> str:
        p = self._progress
        done, left_out = p.done + p.unchanged, p.failed + p.skipped
        rate = size_text(int(p.rates()[0]))
        return (
            f"{done:,} of {p.found:,} files, {size_text(p.bytes_done)} of "
            f"{size_text(p.bytes_found)}, {rate}/s, {p.concurrency} at once, {left_out:,} left out"
        )


def _host(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else ""


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
        self._pool: PoolManager | None = None
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
            "files": order.files,
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
        url, body = self._plan.report_url, json.dumps(report).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        try:
            if self._pool is None:
                context = ssl.create_default_context() if url.startswith("https:") else None
                if context is not None and self._plan.outbound.ca_file:
                    context.load_verify_locations(self._plan.outbound.ca_file)
                self._pool = PoolManager(timeout=ANSWER_S, retries=False, ssl_context=context)
            answer = self._pool.request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
            answer.read(65536)
        except (OSError, HTTPError, ValueError):
            return False
        # A refusal is final too: the portal knows of a newer launch, or of none.
        return answer.status // 100 == _SUCCESS or answer.status in {401, 403, 404, 409, 410}


def last_words(final: dict[str, Any], where: Path = LAST_WORDS) -> None:
    """Leave the outcome where a cluster looks for it, in case no report comes through."""
    said = {name: final[name] for name in ("code", "message", "uploads") if name in final}
    text = json.dumps(said)
    try:
        if where.is_file() and os.access(where, os.W_OK):
            where.write_text(text[:LAST_WORDS_MAX])
    except OSError:
        return
