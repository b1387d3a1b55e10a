"""A fake machine, a project's volume, credentials, and the reports that a run would send."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client


@pytest.fixture(autouse=True)
def _fresh_machine(world: Any) -> None:
    """No test sees what another one's machine did."""


@pytest.fixture
def fake(world: Any) -> Any:
    return world.driver_for("local")


@pytest.fixture
def load(project: Any, shared: Any, principal: Any) -> Callable[..., Any]:
    """Make and start a load of a public bucket."""
    from loaders.choices import Task
    from loaders.services import load_create

    def make(user: Any, url: str = "s3://bucket/images", **wanted: Any) -> Any:
        options = {k: wanted.pop(k) for k in ("task", "nonce") if k in wanted}
        if options.get("task"):
            options["task"] = Task(options["task"])
        said = {"url": url, **wanted}
        return load_create(principal=principal(user), project=project, said=said, **options)

    return make


@pytest.fixture
def end(fake: Any, settle: Any) -> Callable[..., Any]:
    """Let the program of a load end with an exit code, and the engine see it."""

    from runtime.hints import hint

    def run(row: Any, code: int | None = 0, **how: Any) -> Any:
        fake.exit(str(row.uid), code=code, **how)
        hint(row)  # what the watch does
        return settle(row)

    return run


def body_of(row: Any, seq: int = 1, **parts: Any) -> dict[str, Any]:
    """Return a report as the copying program makes it."""
    return {
        "launch": row.launch,
        "seq": seq,
        "phase": "copying",
        "files": {"found": 4, "done": 2, "unchanged": 1, "skipped": 0, "failed": 0, "deleted": 0},
        "bytes": {"found": 4000, "done": 2000, "read": 2100},
        "rate_bytes_s": 1000,
        "eta_s": 2,
        "listed": True,
        "concurrency": 8,
        "errors": [],
        "verified": {"crc32c": 2, "md5": 0, "sha256": 0, "length": 0},
        "final": None,
        **parts,
    }


@pytest.fixture
def report(settings: Any) -> Callable[..., Any]:
    """Send a report as the run itself would; answer the response."""
    from loaders.runtime_spec import report_token

    def send(row: Any, seq: int = 1, *, token: str | None = None, **parts: Any) -> Any:
        body = parts.pop("body", None)
        body = body_of(row, seq, **parts) if body is None else body
        text = body if isinstance(body, str) else json.dumps(body)
        known = report_token(row.uid, row.launch) if token is None else token
        return Client().post(
            f"/hub/api/berth/loads/{row.uid}/report",
            text,
            content_type="application/json",
            headers={"Authorization": f"Bearer {known}"},
            SERVER_PORT=str(settings.BERTH_INTERNAL_PORT),
        )

    return send
