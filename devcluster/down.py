"""Takes the cluster down, and proves that nothing of it is left."""

import contextlib
import json
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devcluster import groups, network_rules
from devcluster.layout import BRIDGE, Layout, has_bridge, volumes
from devcluster.node import NAMESPACES, SETTINGS
from devcluster.processes import Processes
from devcluster.provisioner import MARKER
from tools.setup_shell import SetupError, run, say, step, works

# What needs the API server, the API server, what it needs; containerd ends the containers.
LAST = (("kube-apiserver",), ("etcd", "registry"))
# All of it is thrown away: nobody needs a graceful end, only an end.
PATIENCE_S = {"kueue": 3, "katib-database": 1, "kube-apiserver": 1, "etcd": 1, "kubelet": 5}
NAMESPACE_TRIES = 25
CONFIG = "/config/containerd.toml"  # of each cluster, in its own folder


def down(layout: Layout) -> list[str]:
    """What is left; empty when all is gone."""
    if os.geteuid() != 0:
        raise SetupError("The cluster is root's, so only root takes it down.")
    if other := of_another(layout):
        raise SetupError(
            f"The cluster of another checkout runs on this machine ({other}), with the same bridge"
            " and rules: take it down from there."
        )
    begun = time.monotonic()
    namespaces = network_namespaces(layout)
    with step("Ending the cluster's programs"):
        stop_programs(layout)
    with step("Ending containers"):
        stop_containers(layout)
    with step("Removing mounts, network and files"):
        unmount(layout.base)
        for name in namespaces:
            remove_namespace(Path(name))
        if NAMESPACES.exists() and not any(NAMESPACES.iterdir()):
            works(["umount", NAMESPACES])
        network_rules.remove(known_tables(layout))
        works(["ip", "link", "delete", BRIDGE])
        restore_settings(layout)
        groups.remove(layout)
        remove_files(layout)
    left = leftovers(layout)
    if left:
        say("Left behind:\n" + "\n".join(f"  {line}" for line in left))
    else:
        say(f"The cluster is gone, and nothing of it is left ({time.monotonic() - begun:.1f} s).")
    return left


def of_another(layout: Layout) -> str:
    """Return the folder of a cluster that runs and is not this one; '' where there is none."""
    configs = {word for _, words in commands() for word in words if word.endswith(CONFIG)}
    folders = {word.removesuffix(CONFIG) for word in configs} - {str(layout.base)}
    return min(folders, default="")


# --- Processes ------------------------------------------------------------------------------------


def stop_programs(layout: Layout) -> None:
    processes = Processes(layout)
    later = {"containerd", *(name for names in LAST for name in names)}
    first = tuple(name for name in processes.records if name not in later)
    for names in (first, *LAST):
        with ThreadPoolExecutor(len(names) or 1) as pool:
            for stopped in [pool.submit(stop, processes, name) for name in names]:
                stopped.result()


def stop(processes: Processes, name: str) -> None:
    processes.stop(name, PATIENCE_S.get(name, 5))


def stop_containers(layout: Layout) -> None:
    """Containers are their shims' children: killed by the shim, or with it."""
    processes = Processes(layout)
    shims = [pid for pid, words in commands() if is_shim(words, layout)]
    for pid in (*(child for shim in shims for child in descendants(shim)), *shims):
        kill(pid)
    deadline = time.monotonic() + 10
    while any(is_shim(words, layout) for _, words in commands()) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes.stop("containerd", 10)


def commands() -> list[tuple[int, list[str]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            found.append((int(entry.name), words))
    return found


def is_shim(words: list[str], layout: Layout) -> bool:
    return "containerd-shim" in words[0] and str(layout.socket) in words


def descendants(pid: int) -> list[int]:
    """Youngest first, so that nobody is born again while the parent still lives."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [*descendants(child), child]
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# --- Mounts and files -----------------------------------------------------------------------------


def mounts(under: Path) -> list[str]:
    """Innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    inside = [p for p in places if p == str(under) or p.startswith(f"{under}/")]
    return sorted(inside, key=len, reverse=True)


def unmount(under: Path) -> None:
    for place in mounts(under):
        if not works(["umount", place]):
            works(["umount", "-l", place])


def network_namespaces(layout: Layout) -> list[str]:
    """Those of our pods, as their containers' files name them."""
    found = set()
    for path in (layout.base / "containerd/state").glob("*/*/*/config.json"):
        try:
            spaces = json.loads(path.read_text())["linux"]["namespaces"]
        except (OSError, ValueError, KeyError):
            continue
        found |= {s["path"] for s in spaces if s["type"] == "network" and "path" in s}
    return sorted(name for name in found if "netns/cni-" in name)


def remove_namespace(path: Path) -> None:
    """A pod that was ending may hold it for a moment, and be mounted there more than once."""
    for left in reversed(range(NAMESPACE_TRIES)):
        works(["umount", "-l", path])
        try:
            path.unlink(missing_ok=True)
        except OSError:
            if not left:
                raise
            time.sleep(0.2)
        else:
            return


def known_tables(layout: Layout) -> set[str] | None:
    """Those of nftables that were there before the cluster."""
    found = before(layout).get("tables")
    return None if found is None else set(found)


def before(layout: Layout) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((layout.base / "kernel.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def restore_settings(layout: Layout) -> None:
    for name, value in before(layout).get("settings", {}).items():
        if name in SETTINGS and (place := Path("/proc/sys") / name).exists():
            place.write_text(value)


def remove_files(layout: Layout) -> None:
    for link in Path("/var/log/containers").glob("*.log"):
        if str(layout.base) in str(link.readlink()):
            link.unlink()
    for kept in Path("/var/lib/cni/results").glob("berth-*"):
        kept.unlink()
    folders = ("/etc/kueue/metrics/certs", "/etc/kueue/metrics", "/etc/kueue", "/visibility")
    for folder in (*folders, "/var/log/containers", "/var/lib/cni/results", "/var/lib/cni"):
        try:
            Path(folder).rmdir()
        except OSError:
            continue  # not ours, or somebody else uses it
    if (volumes() / MARKER).exists():
        shutil.rmtree(volumes(), ignore_errors=True)
    if not mounts(layout.base):
        # Tens of thousands of files of images: much faster than from here.
        run(["rm", "-rf", "--one-file-system", layout.base])


# --- Proof ----------------------------------------------------------------------------------------


def leftovers(layout: Layout) -> list[str]:
    base = str(layout.base)
    found = [
        f"process {pid}: {' '.join(words)[:120]}"
        for pid, words in commands()
        if pid != os.getpid() and any(base + "/" in word for word in words)
    ]
    found += [f"mount: {place}" for place in mounts(layout.base)]
    if has_bridge():
        found.append(f"network device: {BRIDGE}")
    found += network_rules.left()
    found += [f"control group: {path}" for path in groups.left(layout)]
    found += [f"files: {path}" for path in (layout.base, volumes() / MARKER) if path.exists()]
    return found
