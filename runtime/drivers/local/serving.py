"""What serves on this machine: so many processes, each at its own port, that all do the same.

How many are wanted stands in the record of the first one, which stays when none is. A part that
ended by itself is begun anew when the portal asks for that number again: only it has the secrets.
"""

import os
from collections.abc import Sequence
from typing import Any

from runtime.drivers.local.requests import Facts
from runtime.drivers.local.workload import Workload
from runtime.protocol import Seen

_FAR = (Seen.MISSING, Seen.STOPPING, Seen.CREATED, Seen.STARTING, Seen.EXITED)


def parts_of(spec: Facts) -> list[Facts]:
    """Return what is started: one spec for each replica, with its share of the GPUs."""
    count = spec["serves"]
    share = len(spec["devices"]) // count if count else 0
    return [
        {
            **spec,
            "uid": f"{spec['uid']}.{number}",
            "serve": {"index": number, "wanted": count},
            "devices": spec["devices"][number * share : (number + 1) * share],
        }
        for number in range(count)
    ]


def note(first: Workload, **told: Any) -> None:
    """Keep how many are wanted, or that it was stopped."""
    first.spec["serve"] = {**first.spec["serve"], **told}
    if (kept := first.record.read("spec")) is not None:
        first.record.write("spec", {**kept, "serve": first.spec["serve"]})
    first.become(first.seen)


def is_stopped(parts: Sequence[Workload]) -> bool:
    return bool(parts[0].spec["serve"].get("stopped"))


def is_made(parts: Sequence[Workload]) -> bool:
    """Whether all that this launch wants were made, whatever became of them; or it was stopped."""
    if not parts or not parts[0].spec.get("serve"):
        return False
    made = [part for part in wanted_of(parts) if part.seen != Seen.MISSING]
    return is_stopped(parts) or len(made) == parts[0].spec["serve"]["wanted"]


def wanted_of(parts: Sequence[Workload]) -> list[Workload]:
    """Return those that are to answer; the others end."""
    wanted = parts[0].spec["serve"]["wanted"]
    return [part for part in parts if part.spec["serve"]["index"] < wanted]


def observation(parts: Sequence[Workload], told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is told about the whole: READY as soon as one is, and where none is wanted."""
    wanted, count = wanted_of(parts), parts[0].spec["serve"]["wanted"]
    own = [one for part, one in zip(parts, told, strict=True) if part in wanted]
    alive = any(part.is_alive for part in parts)
    if is_stopped(parts):
        source, seen = told[0], Seen.STOPPING if alive else Seen.EXITED
    elif not count:
        source, seen = {**told[0], "exit_code": None, "ended_at": None, "reason": ""}, Seen.READY
    elif len(own) < count:
        source, seen = told[0], Seen.MISSING  # the making of the others was cut short
    else:
        ready = [one for one in own if one["seen"] == Seen.READY]
        source = ready[0] if ready else min(own, key=lambda one: _FAR.index(one["seen"]))
        seen = Seen(source["seen"])
    answers = [one["address"] for one in own if one["address"] and seen == Seen.READY]
    return {
        **source,
        "uid": parts[0].uid.partition(".")[0],
        "seen": str(seen),
        "version": max(one["version"] for one in told),
        "address": answers[0] if answers else "",
        "detail": {
            **told[0]["detail"],
            "devices": [d for one in own for d in one["detail"]["devices"]],
        },
        "replicas": [_replica(part, one) for part, one in zip(wanted, own, strict=True)],
    }


def _replica(part: Workload, one: dict[str, Any]) -> dict[str, Any]:
    kept = ("seen", "exit_code", "reason", "started_at", "ended_at", "address")
    found = {name: one[name] for name in kept}
    return {"index": part.spec["serve"]["index"], "node": os.uname().nodename, **found}
