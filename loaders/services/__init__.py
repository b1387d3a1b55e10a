"""Every write to loads. Split by subject; this is the door."""

from loaders.services.base import is_own, may_change, may_end
from loaders.services.clock import loads_enforce
from loaders.services.create import load_create, load_ensure
from loaders.services.edit import load_edit
from loaders.services.ending import (
    load_cancel,
    load_delete,
    load_pause,
    loads_request_delete,
    loads_stop_for,
)
from loaders.services.manifest import (
    load_apply,
    manifest_of,
    manifest_parse,
    manifest_plan,
    manifest_wrap,
)
from loaders.services.plan import Plan, load_plan, public_fields
from loaders.services.resolve import spec_of
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
from loaders.spec import Spec, Wanted

__all__ = [
    "Plan",
    "Spec",
    "Wanted",
    "failed_last",
    "is_own",
    "load_apply",
    "load_cancel",
    "load_create",
    "load_delete",
    "load_dry_run",
    "load_edit",
    "load_ensure",
    "load_pause",
    "load_plan",
    "load_resume",
    "load_retry_failed",
    "load_start",
    "load_verify",
    "loads_enforce",
    "loads_request_delete",
    "loads_stop_for",
    "manifest_of",
    "manifest_parse",
    "manifest_plan",
    "manifest_wrap",
    "may_change",
    "may_end",
    "public_fields",
    "retries_run",
    "schedules_run",
    "spec_of",
]
