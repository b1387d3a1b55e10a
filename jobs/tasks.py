"""Thin Celery entry points of jobs: they carry an id, look at the row, and end."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from celery import shared_task

from common.tasks import CommittedTask

log = structlog.get_logger(__name__)


@shared_task(base=CommittedTask, name="jobs.fetch_code")
def fetch_code(*args: Any, **_kwargs: Any) -> None:
    """Fetch the code of a job; what is not understood is left to the next look at the job."""
    from jobs.fetching import code_fetch

    try:
        uid = UUID(args[0])
    except (IndexError, TypeError, ValueError, AttributeError):
        log.warning("task.payload_ignored", task="jobs.fetch_code")
        return
    code_fetch(uid)
