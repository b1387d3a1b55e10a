"""What is told of a workload; a group of processes on this machine; and another attempt.

A part of a group has a record, a parent, a space, control groups and a log of its own, under the
whole's uid with its number behind a dot. What is told about the whole follows from its parts.
The secrets of a start are kept in memory while attempts are left. A supervisor that starts anew
has them no more: what it finds ended stays so.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from dataplane import checkpoints
from runtime import training
from runtime.drivers.local import environ, listeners, serving
from runtime.drivers.local.requests import Facts, Refused, Secrets
from runtime.drivers.local.users import SystemUser
from runtime.drivers.local.workload import Workload
from runtime.protocol import Seen
from runtime.spec import RetryPolicy


def observation_of_one(workload: Workload) -> dict[str, Any]:
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
        **({"checkpoint": True} if _can_go_on(workload) else {}),
    }


def _can_go_on(workload: Workload) -> bool:
    """Whether what ended unseen left a complete checkpoint in the folder that is its own."""
    if workload.seen != Seen.EXITED or workload.end.reason not in _UNSEEN:
        return False
    folder = workload.machine.spaces / whole_of(workload.uid) / "checkpoints"
    try:
        return bool(checkpoints.newest(str(folder), workload.spec.get("checkpoints_since", 0)))
    except OSError:
        return False


_FAR = (Seen.MISSING, Seen.STOPPING, Seen.CREATED, Seen.STARTING, Seen.READY, Seen.EXITED)
_STOPPED = "stopped"
_UNSEEN = ("vanished", "unknown")  # it ended with its machine, or with all processes


def whole_of(uid: str) -> str:
    """Return the uid that the portal knows, of a part or of what has none."""
    return uid.partition(".")[0]


def parts_of(spec: Facts, choose_ports: Callable[[int], list[int]]) -> list[Facts]:
    """Return what is started: one spec for each replica, with its size and its GPUs."""
    if spec.get("serves") is not None:
        return serving.parts_of(spec)
    group = spec["group"]
    if group is None:
        return [spec]
    count = group["replicas"]
    alike = {**spec["resources"], "gpus": len(spec["devices"]) // count}
    sizes = group.get("sizes") or [alike] * count
    ends = list(accumulate((one["gpus"] for one in sizes), initial=0))
    roles = group.get("roles") or [group["role"]] * count
    # TensorFlow's replicas all listen, others meet at the first one.
    ports = choose_ports(count if group.get("framework") == training.TENSORFLOW else 1)
    told = {**group, "port": ports[0], "ports": ports}
    return [
        {
            **spec,
            "uid": f"{spec['uid']}.{number}",
            "group": {**told, "index": number, "role": roles[number]},
            "resources": {k: v for k, v in sizes[number].items() if k in spec["resources"]},
            "devices": spec["devices"][ends[number] : ends[number + 1]],
        }
        for number in range(count)
    ]


def is_whole(parts: Sequence[Workload]) -> bool:
    """Whether it is one process, and no group."""
    return len(parts) == 1 and number_of(parts[0].spec) is None


def number_of(spec: Facts) -> int | None:
    """Return which of several it is, None where it is alone."""
    told = spec.get("group") or spec.get("serve")
    return int(told["index"]) if told else None


def first_failed(parts: Sequence[Workload]) -> Workload | None:
    """Return the part that ended badly before all others; those that were stopped did not."""
    failed = [
        part
        for part in parts
        if part.seen == Seen.EXITED and part.end.reason != _STOPPED and part.end.code != 0
    ]
    return min(failed, key=lambda part: part.end.at or 0.0, default=None)


def idle_servers(parts: Sequence[Workload]) -> list[Workload]:
    """Return servers and evaluator that nobody needs any more: all others have ended well."""
    servers = [p for p in parts if (p.spec.get("group") or {}).get("role") in training.BESIDE]
    others = [part for part in parts if part not in servers]
    over = [p.seen == Seen.EXITED and p.end.code == 0 and p.end.reason != _STOPPED for p in others]
    return servers if servers and all(over) else []


def observation(parts: Sequence[Workload]) -> dict[str, Any]:
    """Return what is told about the whole: it is as far as the part that is least far."""
    told = [observation_of_one(part) for part in parts]
    if parts[0].spec.get("serve"):
        return serving.observation(parts, told)
    group = parts[0].spec["group"]
    failed = first_failed(parts)
    ended = all(part.seen == Seen.EXITED for part in parts)
    idle = idle_servers(parts) if ended else []
    asked = [one for part, one in zip(parts, told, strict=True) if part not in idle]
    source = told[parts.index(failed)] if failed else _least(asked)
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
        "replicas": [
            _replica(number, part.spec["group"]["role"], one)
            for number, (part, one) in enumerate(zip(parts, told, strict=True))
        ],
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


_LONGEST_S = 360.0
_NOT_YET_S = 0.2  # the parent of the attempt before goes in a moment


@dataclass
class Retry:
    """The attempts that one launch has left."""

    policy: RetryPolicy
    specs: list[Facts]
    user: SystemUser
    secrets: Secrets
    made: int = 1
    timer: asyncio.TimerHandle | None = None
    find: Callable[[str], Workload | None] = field(default=lambda _uid: None)

    @classmethod
    def of(
        cls,
        specs: list[Facts],
        user: SystemUser,
        secrets: Secrets,
        find: Callable[[str], Workload | None],
    ) -> "Retry | None":
        """None: it is run once."""
        told = specs[0].get("retry")
        if not told or told["attempts"] <= 1:
            return None
        policy = RetryPolicy(
            told["attempts"], told["backoff_s"], tuple(told["on"]), tuple(told["never"])
        )
        return cls(policy, specs, user, secrets, find=find)

    def is_due(self, parts: Sequence[Workload]) -> bool:
        """Whether what these are is not the end: all is over, and badly, and it is tried again."""
        if any(part.seen != Seen.EXITED for part in parts):
            return False
        failed = first_failed(parts)
        if failed is None or self.made >= self.policy.attempts:
            return False
        return failed.end.code is None or not self.policy.is_final(failed.end.code)

    def goes_on(self, parts: Sequence[Workload]) -> bool:
        """Set the clock for the next attempt where one is due. False: all is over."""
        if self.timer is None and self.is_due(parts):
            pause = min(self.policy.backoff_s * 2 ** (self.made - 1), _LONGEST_S)
            self.timer = asyncio.get_running_loop().call_later(pause, self._again)
        return self.timer is not None or any(part.seen != Seen.EXITED for part in parts)

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _again(self) -> None:
        try:
            for spec in self.specs:
                found = self.find(spec["uid"])
                if found is not None and not found.is_alive:
                    found.create(spec, self.user, self.secrets)
        except (Refused, OSError):
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(_NOT_YET_S, self._again)
            return
        self.timer = None
        self.made += 1
