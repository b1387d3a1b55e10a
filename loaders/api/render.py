"""One shape of a load for every answer of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loaders import selectors
from loaders.choices import Task
from loaders.fields import TABLE
from loaders.states import state_of
from loaders.words import advice_of, message_of, percent_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from loaders.models import Load, LoadRun, Progress


def load_out(row: Load, who: Principal) -> dict[str, Any]:
    return {
        "id": row.uid,
        "name": row.name,
        "project": row.project.slug,
        "owner": row.owner.username,
        "generation": row.generation,
        "desired": row.desired,
        "spec": _spec_out(row, who),
        "status": _status_out(row),
        "run": row.launch,
        "dry_run": row.dry_run,
        "manifest": row.manifest,
        "next_run_at": row.next_run_at,
        "schedule_note": row.schedule_note,
        "created_at": row.created_at,
        "asked_at": row.asked_at,
        "started_at": row.started_at,
        "ended_at": row.stopped_at,
        "loaded_at": row.loaded_at,
    }


def _spec_out(row: Load, who: Principal) -> dict[str, Any]:
    told = TABLE.but("name", "cache_size_mib").read(row, private=selectors.sees_inside(who, row))
    return {
        "folder": "",
        "objects": None,
        **told,
        "kind": row.store_kind,
        "anonymous": row.anonymous,
        "volume": row.volume.uid,
        "volume_name": row.volume.name,
    }


def _status_out(row: Load) -> dict[str, Any]:
    queue: Mapping[str, Any] = row.external_ref.get("queue") or {}
    return {
        "state": state_of(row),
        "phase": row.phase,
        "reason": row.reason,
        "message": message_of(row),
        "advice": advice_of(row),
        "code": row.result_code,
        "position": queue.get("position"),
        "observed_generation": row.observed_generation,
        "task": row.task,
        "listed": row.listed,
        "percent": percent_of(row),
        **counts_out(row),
        "rate_bytes_s": row.rate_bytes_s,
        "eta_s": row.eta_s,
        "verified": row.verified,
        "reported_at": row.reported_at,
        "tries": row.tries,
        "retry_at": row.retry_at,
    }


def counts_out(row: Progress) -> dict[str, Any]:
    return {
        "files": {
            "found": row.files_found,
            "done": row.files_done,
            "unchanged": row.files_unchanged,
            "skipped": row.files_skipped,
            "failed": row.files_failed,
            "deleted": row.files_deleted,
        },
        "bytes": {"found": row.bytes_found, "done": row.bytes_done, "read": row.bytes_read},
    }


def run_out(run: LoadRun) -> dict[str, Any]:
    return {
        "run": run.launch,
        "task": run.task,
        "started_by": run.started_by.username if run.started_by else None,
        "scheduled": run.scheduled,
        "asked_at": run.asked_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "result": run.result,
        "code": run.code,
        "message": run.message,
        **counts_out(run),
        "verified": run.verified,
    }


def manifest_out(row: Load) -> dict[str, Any]:
    """Return where the manifest lies, and how the last check of it ended."""
    written = row.runs.filter(task__in=[Task.LOAD, Task.RETRY]).exclude(manifest="").first()
    checked = row.runs.filter(task=Task.VERIFY).exclude(result="").first()
    return {
        "volume": row.volume.uid,
        "path": written.manifest if written else row.manifest,
        "run": written.launch if written else None,
        "verified": written.verified if written else row.verified,
        "checked_at": checked.ended_at if checked else None,
        "checked_result": checked.result if checked else "",
    }


def public_fields(row: Load) -> dict[str, Any]:
    """Return a description as it is told: rows by their names, nothing secret."""
    told = TABLE.but("name").read(row, private=True)
    return {name: value for name, value in told.items() if name != "cache_size_mib" or value}


def plan_out(plan: Any) -> dict[str, Any]:
    return {
        "action": plan.action,
        "name": plan.name,
        "allowed": plan.allowed,
        "refusal": plan.refusal,
        "starts_now": plan.starts_now,
        "position": plan.place,
        "same": plan.same.uid if plan.same else None,
        "spec": public_fields(plan.row),
        "changes": [{"field": c.field, "from": c.before, "to": c.after} for c in plan.changes],
        "sentences": list(plan.sentences),
        "warnings": list(plan.warnings),
    }
