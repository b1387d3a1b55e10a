"""The environment of a workload: what the machine gives, what was asked for, what is ours."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Harmless facts of the machine that software inside needs too.
PASSED_ON = (
    "TZ",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "PIP_INDEX_URL",
)

# What a user may not say: who he is, where his folders are, which GPUs he sees, and what the
# dynamic loader or a shell would run before the program (hostile case C4).
_REFUSED = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "VIRTUAL_ENV",
        "JUPYTER_RUNTIME_DIR",
        "JUPYTER_PATH",
        "JUPYTER_CONFIG_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "BASH_ENV",
        "ENV",
        "GCONV_PATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "BERTH_WORKLOAD",
        "BERTH_KILLPOINT",
        "BERTH_VOLUMES",
    )
)
_REFUSED_PREFIXES = ("LD_", "DYLD_", "NVIDIA_")
_HERE = "127.0.0.1"
_ALLOWED = frozenset(("LD_LIBRARY_PATH",))


def is_refused(name: str) -> bool:
    if name in _ALLOWED:
        return False
    return name in _REFUSED or name.startswith(_REFUSED_PREFIXES) or "=" in name or not name


def asked_for(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Split what was asked for into what is granted and the names that are not."""
    granted = {name: value for name, value in env.items() if not is_refused(name)}
    return granted, sorted(set(env) - set(granted))


def passed_on(machine: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what every workload inherits; an address with a password in it is kept back."""
    return {
        name: machine[name] for name in PASSED_ON if name in machine and "@" not in machine[name]
    }


def gpu_environment(devices: Iterable[str]) -> dict[str, str]:
    """Show exactly these devices, or none."""
    names = ",".join(devices)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": names,
        "NVIDIA_VISIBLE_DEVICES": names or "void",
    }


def meeting(group: Mapping[str, Any] | None) -> dict[str, str]:
    """Tell one of a group its number, how many they are, and where they meet."""
    if not group:
        return {}
    return {
        "BERTH_HOSTS": ",".join([_HERE] * group["replicas"]),
        "BERTH_REPLICA": str(group["index"]),
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(group["port"]),
        "RANK": str(group["index"]),
        "WORLD_SIZE": str(group["replicas"]),
    }


def substitute(text: str, port: int | None) -> str:
    return text if port is None else text.replace("{port}", str(port))
