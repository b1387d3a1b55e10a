"""What is a load's own among its writes. Split by subject; this is the door."""

from loaders.services.create import load_create, load_ensure
from loaders.services.ending import load_cancel
from loaders.services.made import made_drop, made_start
from loaders.services.retries import retries_run
from loaders.services.runs import (
    failed_last,
    load_dry_run,
    load_resume,
    load_retry_failed,
    load_start,
    load_verify,
)
from loaders.services.schedules import schedules_run

__all__ = [
    "failed_last",
    "load_cancel",
    "load_create",
    "load_dry_run",
    "load_ensure",
    "load_resume",
    "load_retry_failed",
    "load_start",
    "load_verify",
    "made_drop",
    "made_start",
    "retries_run",
    "schedules_run",
]
