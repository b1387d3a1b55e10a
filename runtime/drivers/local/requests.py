"""What goes over the supervisor's socket: one JSON object per line, both ways, or a refusal.

Shared by the supervisor and its client. Of a request every field that is relied on has its type.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from runtime.drivers import mounts
from runtime.drivers.mounts import is_plain
from runtime.protocol import InvalidSpec

LINE_LIMIT = 8 * 1024 * 1024  # a request; answers may be longer
HEARTBEAT_S = 10.0


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise TypeError("a message is one JSON object")
    return message


class Refused(Exception):  # noqa: N818 - it is an answer, carried over the wire by its kind
    """A request that can't be done; ``kind`` becomes the driver's exception."""

    def __init__(
        self, kind: str, message: str, *, reason: str = "", retry_in: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind, self.reason, self.retry_in = kind, reason, retry_in

    def answer(self) -> dict[str, Any]:
        return {
            "error": self.kind,
            "message": str(self),
            "reason": self.reason,
            "retry_in": self.retry_in,
        }


Facts = dict[str, Any]
_REPLICAS = 256  # each is a process with a parent
_ATTEMPTS, _BACKOFF_S = 100, 3600.0


@dataclass(frozen=True)
class Secrets:
    """What only the workload may read; never in a record, never on a disk."""

    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    placed: list[str] = field(default_factory=list)  # files that hold the path of their folder


def checked_name(name: str, what: str) -> str:
    """Return a name that is safe as one part of a path."""
    if not is_plain(name):
        raise Refused("invalid-spec", f"{what} {name[:40]!r} is not a plain name")
    return name


def parse_spec(raw: Any) -> Facts:
    try:
        return {
            "uid": _uid(str(raw["uid"])),
            "kind": str(raw["kind"]),
            "name": str(raw["name"]),
            "launch": int(raw["launch"]),
            "project": str(raw["project"]),
            "owner": str(raw["owner"]),
            "environment": str(raw["environment"]),
            "packages_of": str(raw.get("packages_of", "")),
            "command": _texts(raw["command"]),
            "verbatim": bool(raw.get("verbatim")),  # a portal before this one never says so
            "env": _pairs(raw["env"]),
            "resources": {k: int(raw["resources"][k]) for k in ("cpu_milli", "memory_mib", "pids")},
            "devices": _texts(raw["devices"]),
            "mounts": _mounts(raw["mounts"], str(raw["owner"])),
            "port": int(raw["port"]) if raw["port"] else None,
            "probe": _probe(raw["probe"]) if raw["probe"] else None,
            "stop_grace_s": float(raw["stop_grace_s"]),
            "checkpoints": _below(str(raw.get("checkpoints", ""))),
            "checkpoints_since": int(raw.get("checkpoints_since", 0)),
            "tells": bool(raw.get("tells")),
            "output": _below(str(raw.get("output", ""))),
            "installation": str(raw.get("installation", "")),  # a portal before this one says none
            "group": _group(raw["group"]) if raw.get("group") else None,
            "retry": _retry(raw["retry"]) if raw.get("retry") else None,
            "serves": _serves(raw["serves"]) if raw.get("serves") is not None else None,
        }
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Refused("invalid-spec", f"the spec can't be read: {problem!r}") from None


def parse_secrets(raw: Any) -> Secrets:
    """Nothing of a secret may stand in the answer."""
    try:
        files = mounts.checked(raw["files"])
        # a portal before this one names none
        return Secrets(_pairs(raw["env"]), files, _texts(raw.get("placed", ())))
    except InvalidSpec as problem:
        raise Refused("invalid-spec", str(problem), reason=problem.reason) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refused("invalid-spec", "the secrets can't be read") from None


def _below(path: str) -> str:
    """Return a path that leads nowhere else, whatever it is put behind."""
    if path and not all(part and part not in {".", ".."} for part in path.split("/")):
        raise ValueError("a folder in a volume is no plain path")
    return path


def _uid(text: str) -> str:
    if "." in checked_name(text, "uid"):
        raise ValueError("a uid has no dot: behind it stands the number of a group's part")
    return text


def _group(raw: Any) -> Facts:
    replicas = int(raw["replicas"])
    if not 1 <= replicas <= _REPLICAS:
        raise ValueError(f"a group has 1 to {_REPLICAS} replicas")
    role = str(raw["role"])
    roles = [str(one) for one in raw.get("roles") or [role] * replicas]
    if len(roles) != replicas:
        raise ValueError("each replica of a group has one role")
    kept = ("cpu_milli", "memory_mib", "pids", "gpus")
    sizes = [{name: int(one[name]) for name in kept} for one in raw.get("sizes") or ()]
    if sizes and len(sizes) != replicas:
        raise ValueError("each replica of a group has one size")
    told = {"role": role, "replicas": replicas, "roles": roles, "sizes": sizes}
    return {**told, "framework": str(raw.get("framework", ""))}


def _serves(raw: Any) -> int:
    if not 0 <= int(raw) <= _REPLICAS:
        raise ValueError(f"what serves has {_REPLICAS} replicas at most")
    return int(raw)


def _retry(raw: Any) -> Facts:
    attempts, backoff_s = int(raw["attempts"]), float(raw["backoff_s"])
    if not (1 <= attempts <= _ATTEMPTS and 0 <= backoff_s <= _BACKOFF_S):
        raise ValueError("too many attempts, or too long between two")
    codes = {name: [int(code) for code in raw[name]] for name in ("on", "never")}
    return {"attempts": attempts, "backoff_s": backoff_s, **codes}


def _pairs(raw: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in raw.items()}


def _texts(values: Any) -> list[str]:
    texts = [str(value) for value in values]
    if any("\0" in text for text in texts):
        raise ValueError("NUL in a word")
    return texts


def _mounts(raw: Any, owner: str) -> list[Facts]:
    mounts = [_mount(mount) for mount in raw]
    if any(mount["role"] == "data" and mount["owner"] not in ("", owner) for mount in mounts):
        raise ValueError("a volume of another person")
    names = [mount["name"] for mount in mounts if mount["role"] == "data"]
    if len(set(names)) != len(names):
        raise ValueError("two volumes have one name")
    if len(mounts) - len(names) > 1:
        raise ValueError("there is one home")
    return mounts


def _mount(raw: Any) -> Facts:
    role, read_only = raw["role"], raw["read_only"]
    if role not in ("home", "data") or not isinstance(read_only, bool):
        raise ValueError("a volume is mounted as a home or as data, to be read or written")
    if role == "home" and read_only:
        raise ValueError("a home is mounted to be written")
    return {
        "volume_uid": checked_name(str(raw["volume_uid"]), "volume"),
        "role": role,
        "name": checked_name(str(raw["name"]), "volume name") if role == "data" else "",
        "owner": str(raw["owner"]),
        "read_only": read_only,
    }


def _probe(raw: Any) -> Facts:
    path = str(raw["path"])
    if path and (not path.startswith("/") or any(c <= " " for c in path)):
        raise ValueError("a probe's path starts with / and has no space")
    return {"path": path, "status": int(raw["status"])}
