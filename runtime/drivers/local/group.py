"""A group on this machine: so many processes of one workload, each held as a workload of its own.

A part has a record, a parent, a space, control groups and a log of its own, under the whole's uid
with its number behind a dot. What is told about the whole follows from its parts.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from runtime.drivers.local import observing
from runtime.drivers.local.workload import Facts, Workload
from runtime.protocol import Seen

_FAR = (Seen.MISSING, Seen.STOPPING, Seen.CREATED, Seen.STARTING, Seen.READY, Seen.EXITED)
_STOPPED = "stopped"


def whole_of(uid: str) -> str:
    """Return the uid that the portal knows, of a part or of what has none."""
    return uid.partition(".")[0]


def parts_of(spec: Facts, choose_port: Callable[[], int | None]) -> list[Facts]:
    """Return what is started: one spec for each replica, with its share of the GPUs."""
    group = spec["group"]
    if group is None:
        return [spec]
    count = group["replicas"]
    share = len(spec["devices"]) // count
    told = {**group, "port": choose_port()}
    return [
        {
            **spec,
            "uid": f"{spec['uid']}.{number}",
            "group": {**told, "index": number},
            "devices": spec["devices"][number * share : (number + 1) * share],
        }
        for number in range(count)
    ]


def is_whole(parts: Sequence[Workload]) -> bool:
    """Whether it is one process, and no group."""
    return len(parts) == 1 and not parts[0].spec.get("group")


def first_failed(parts: Sequence[Workload]) -> Workload | None:
    """Return the part that ended badly before all others; those that were stopped did not."""
    failed = [
        part
        for part in parts
        if part.seen == Seen.EXITED and part.end.reason != _STOPPED and part.end.code != 0
    ]
    return min(failed, key=lambda part: part.end.at or 0.0, default=None)


def observation(parts: Sequence[Workload]) -> dict[str, Any]:
    """Return what is told about the whole: it is as far as the part that is least far."""
    group = parts[0].spec["group"]
    told = [observing.observation(part) for part in parts]
    failed = first_failed(parts)
    ended = all(part.seen == Seen.EXITED for part in parts)
    source = told[parts.index(failed)] if failed else _least(told)
    found = {
        **source,
        "uid": whole_of(parts[0].uid),
        "version": max(one["version"] for one in told),
        "address": told[0]["address"] if source["seen"] == Seen.READY else "",
        "started_at": min(filter(None, (one["started_at"] for one in told)), default=None),
        "detail": {
            **told[0]["detail"],
            "devices": [device for one in told for device in one["detail"]["devices"]],
        },
        "replicas": [_replica(number, group["role"], one) for number, one in enumerate(told)],
    }
    if len(parts) < group["replicas"]:
        found["seen"] = str(Seen.MISSING)  # the making of the others was cut short
    elif failed and not ended:
        found |= {"seen": str(Seen.STOPPING), "exit_code": None, "ended_at": None}
    return found


def tried_again(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of one that ended badly and is run again in a while."""
    code = found["exit_code"]
    return {
        **found,
        "seen": str(Seen.STARTING),
        "exit_code": None,
        "ended_at": None,
        "reason": "tried-again",
        "message": f"exit code {code}" if code is not None else found["message"],
    }


def _least(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = min(told, key=lambda one: _FAR.index(one["seen"]))
    if found["seen"] == Seen.EXITED:
        return max(told, key=lambda one: (one["reason"] == _STOPPED, one["ended_at"] or 0.0))
    return found


def _replica(number: int, role: str, one: dict[str, Any]) -> dict[str, Any]:
    kept = ("seen", "exit_code", "reason", "started_at", "ended_at")
    return {"index": number, "role": role, "node": os.uname().nodename} | {
        name: one[name] for name in kept
    }
