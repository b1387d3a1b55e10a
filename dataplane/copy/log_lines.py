"""The lines of a run's log that tell what it is, how far it is, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from dataplane.copy.engine import size_text
from dataplane.copy.http1 import now
from dataplane.copy.log import KEY
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Stop, shown
from dataplane.copy.progress import Progress
from dataplane.copy.sinks import cores, lanes_most

# How often how far it is is told: often at first, seldom in a run of days.
_EVERY = ((120.0, 10.0), (3600.0, 60.0), (float("inf"), 600.0))
_SECRETS = ("private_key", "private_key_id", "client_secret", "refresh_token")
_TASKS = {"dry-run": "dry run", "verify": "check", "abandon": "giving up what is half done"}


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
