"""What is told about a workload: the fields of ``runtime.protocol.Observation``."""

from typing import Any

from runtime.drivers.local import environ, listeners
from runtime.drivers.local.workload import Workload
from runtime.protocol import Seen


def observation(workload: Workload) -> dict[str, Any]:
    reason, message = workload.notice
    ended = workload.seen == Seen.EXITED
    if ended:
        reason, message = workload.end.reason, workload.end.message
    ready = workload.seen == Seen.READY and workload.port
    return {
        "uid": workload.uid,
        "seen": str(workload.seen),
        "launch": workload.launch,
        "version": workload.version,
        "kind": workload.spec.get("kind", ""),
        "address": f"{listeners.LOOPBACK}:{workload.port}" if ready else "",
        "exit_code": workload.end.code if ended else None,
        "reason": reason,
        "message": message,
        "started_at": workload.times.get("started"),
        "ready_at": workload.times.get("ready"),
        "ended_at": workload.end.at if ended else None,
        "detail": _detail(workload),
        "installation": workload.spec.get("installation", ""),
    }


def _detail(workload: Workload) -> dict[str, Any]:
    spec = workload.spec
    _, ignored = environ.asked_for(spec.get("env", {}))
    return {
        "pid": workload.child[0] if workload.child and workload.is_alive else None,
        "devices": spec.get("devices", []),
        "project": spec.get("project", ""),
        "owner": spec.get("owner", ""),
        "ignored_env": ignored,
    }
