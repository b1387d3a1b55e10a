"""A request as it came over the socket, with every field of the type we rely on, or refused."""

from typing import Any

from runtime.drivers import secret_files
from runtime.drivers.local.json_lines import Refused
from runtime.drivers.local.launcher import Secrets, checked_name
from runtime.drivers.local.workload import Facts
from runtime.protocol import InvalidSpec

_REPLICAS = 256  # each is a process with a parent
_ATTEMPTS, _BACKOFF_S = 100, 3600.0


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
            "command": _texts(raw["command"]),
            "verbatim": bool(raw.get("verbatim")),  # a portal before this one never says so
            "env": _pairs(raw["env"]),
            "resources": {k: int(raw["resources"][k]) for k in ("cpu_milli", "memory_mib", "pids")},
            "devices": _texts(raw["devices"]),
            "mounts": _mounts(raw["mounts"], str(raw["owner"])),
            "port": int(raw["port"]) if raw["port"] else None,
            "probe": _probe(raw["probe"]) if raw["probe"] else None,
            "stop_grace_s": float(raw["stop_grace_s"]),
            "installation": str(raw.get("installation", "")),  # a portal before this one says none
            "group": _group(raw["group"]) if raw.get("group") else None,
            "retry": _retry(raw["retry"]) if raw.get("retry") else None,
        }
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Refused("invalid-spec", f"the spec can't be read: {problem!r}") from None


def parse_secrets(raw: Any) -> Secrets:
    """Nothing of a secret may stand in the answer."""
    try:
        files = secret_files.checked(raw["files"])
        # a portal before this one names none
        return Secrets(_pairs(raw["env"]), files, _texts(raw.get("placed", ())))
    except InvalidSpec as problem:
        raise Refused("invalid-spec", str(problem), reason=problem.reason) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refused("invalid-spec", "the secrets can't be read") from None


def _uid(text: str) -> str:
    if "." in checked_name(text, "uid"):
        raise ValueError("a uid has no dot: behind it stands the number of a group's part")
    return text


def _group(raw: Any) -> Facts:
    replicas = int(raw["replicas"])
    if not 1 <= replicas <= _REPLICAS:
        raise ValueError(f"a group has 1 to {_REPLICAS} replicas")
    return {"role": str(raw["role"]), "replicas": replicas}


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
    if not path.startswith("/") or any(c <= " " for c in path):
        raise ValueError("a probe's path starts with / and has no space")
    return {"path": path, "status": int(raw["status"])}
