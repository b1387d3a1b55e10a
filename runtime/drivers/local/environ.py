"""The environment of a workload: its variables, and its Python as a thin layer on a read-only one.

The Jupyter server runs from the base, which users can't break; kernels and terminals run from
the upper, where ``pip install`` lands. Only a description is made here: the files are written
by the workload's own user after privileges are dropped, so no link planted in a user's folder
can lead root anywhere. No subprocess, a dozen small files.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime import lab_extension, training

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
        "BERTH_NOTICE_FILE",
        "BERTH_EVENTS",
        "BERTH_CHECKPOINTS",
        "BERTH_CHECKPOINT_LATEST",
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
    count, number = group["replicas"], group["index"]
    told: dict[str, str] = {}
    if group.get("framework") == training.PYTORCH:
        # all of its devices are one process's, as everywhere; torchrun counts them itself
        told = training.torch_environment(count, _HERE, group["port"], 1)
        told["PET_NODE_RANK"] = str(number)
    elif group.get("framework") == training.TENSORFLOW:
        roles = group["roles"]
        places = [f"{_HERE}:{port}" for port in group["ports"]]
        its = training.grouped(roles)
        index = roles[:number].count(roles[number])
        told["TF_CONFIG"] = training.tf_config(its, places, roles[number], index)
    return {
        **told,
        "BERTH_ROLE": group["role"],
        "BERTH_HOSTS": ",".join([_HERE] * group["replicas"]),
        "BERTH_REPLICA": str(group["index"]),
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(group["port"]),
        "RANK": str(group["index"]),
        "WORLD_SIZE": str(group["replicas"]),
    }


def substitute(text: str, port: int | None) -> str:
    return text if port is None else text.replace("{port}", str(port))


_PIP = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import re
import sys
from pip._internal.cli.main import main
if __name__ == "__main__":
    sys.argv[0] = re.sub(r"(-script\\.pyw|\\.exe)?$", "", sys.argv[0])
    sys.exit(main())
"""

_RC = """[ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
[ -r "$HOME/.bashrc" ] && . "$HOME/.bashrc"
export VIRTUAL_ENV="{env}"
export PATH="{env}/bin:{base}/bin:$PATH"
"""


@dataclass
class Furniture:
    """What the workload's user makes before its first step."""

    folders: list[str] = field(default_factory=list)
    files: list[tuple[str, str | bytes, int]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)


def python_layer(space: Path, base: Path, under: Path | None = None) -> Furniture:
    """Describe the layer under ``space`` on top of the environment ``base``.

    ``under``: the layer of another workload between the two, with what was installed there.
    """
    base = base.resolve()  # an upgrade moves the name; what runs keeps what it started with
    env, jupyter = space / "env", space / "jupyter"
    python = (base / "bin/python").resolve()
    site = next(iter(sorted(base.glob("lib/python3.*/site-packages"))), None)
    version = site.parent.name if site else "python3"
    mine = env / "lib" / version / "site-packages"
    between = under / "lib" / version / "site-packages" if under else None
    kernel = jupyter / "kernels/python3"
    config = jupyter / "config"
    made = Furniture(folders=[str(env / "bin"), str(mine), str(kernel), str(config)])
    made.files = [
        (str(env / "pyvenv.cfg"), _pyvenv(python, version), 0o644),
        (str(mine / "_berth_base.pth"), _paths(site, between), 0o644),
        *((str(env / "bin" / name), _PIP.format(python=env / "bin/python"), 0o755)
          for name in ("pip", "pip3")),
        (str(kernel / "kernel.json"), _kernel(env), 0o644),
        (str(config / "jupyter_server_config.json"), _server_config(config), 0o644),
        (str(config / "bashrc"), _RC.format(env=env, base=base), 0o644),
    ]  # fmt: skip
    made.links = [(str(env / "bin" / name), str(python)) for name in ("python", "python3", version)]
    made.files += [  # copies: Jupyter's server gives out nothing that a link leads to
        (str(kernel / logo.name), logo.read_bytes(), 0o644)
        for logo in sorted((base / "share/jupyter/kernels/python3").glob("logo-*"))
    ]
    lab = jupyter / "labextensions" / lab_extension.NAME
    made.folders += [str(lab / folder) for folder in lab_extension.FOLDERS]
    made.files += [(str(lab / name), text, 0o644) for name, text in lab_extension.files().items()]
    made.path = [str(env / "bin"), *([str(under / "bin")] if under else []), str(base / "bin")]
    made.env = {
        "VIRTUAL_ENV": str(env),
        "JUPYTER_PATH": f"{jupyter}{os.pathsep}{env}/share/jupyter",
        "JUPYTER_CONFIG_PATH": str(config),
        "JUPYTER_RUNTIME_DIR": str(space / "runtime"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return made


def _paths(site: Path | None, between: Path | None) -> str:
    """Return the lines of a ``.pth``; those that lie in ``between`` are read, too."""
    lines = [f"import site; site.addsitedir({str(between)!r})"] if between else []
    return "".join(f"{line}\n" for line in (*lines, *([site] if site else [])))


def _pyvenv(python: Path, version: str) -> str:
    number = version.removeprefix("python")
    return f"home = {python.parent}\ninclude-system-site-packages = false\nversion = {number}\n"


def _kernel(env: Path) -> str:
    return json.dumps(
        {
            "argv": [
                f"{env}/bin/python",
                "-Xfrozen_modules=off",
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
            ],
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "metadata": {"debugger": True},
        }
    )


def _server_config(config: Path) -> str:
    # A login shell would have /etc/profile put the system's Python first again.
    shell = ["/bin/bash", "--rcfile", str(config / "bashrc"), "-i"]
    return json.dumps(
        {
            "ServerApp": {"terminado_settings": {"shell_command": shell}},
            # The server's own environment is read-only: an extension manager that offers to
            # install would fail, and it costs the start 80 ms.
            "LabApp": {"extension_manager": "readonly"},
        }
    )
