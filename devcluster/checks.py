"""What this machine lacks for a cluster, one sentence each; and Debian's part of it."""

import os
import platform
import shutil
import socket
from pathlib import Path

from devcluster import images
from devcluster.layout import HOST, PORTS, Layout, cache, has_bridge
from devcluster.processes import Processes
from devcluster.programs import unbuilt
from tools.setup_debian import install_debian
from tools.setup_shell import SetupError

# Debian's package for each program or folder that must be there.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "ipset": "ipset",
    "nft": "nftables",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
}
CNI = "containernetworking-plugins"
SPACE_WARM_MIB, SPACE_COLD_MIB = 4_000, 25_000


def lacking_packages() -> list[str]:
    from devcluster.node import CNI_PLUGINS

    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    wanted = [package for name, package in PACKAGES.items() if not shutil.which(name, path=path)]
    if not any((Path(folder) / "bridge").exists() for folder in CNI_PLUGINS):
        wanted.append(CNI)
    if images.need_debian() and not shutil.which("debootstrap", path=path):
        wanted.append("debootstrap")
    return wanted


def installable() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def lacks() -> list[str]:
    """Why no cluster can be had here; empty when it can (without changing anything)."""
    if platform.system() != "Linux":
        return ["The cluster needs Linux: containers and its network are the kernel's."]
    found = []
    if platform.machine() not in ("x86_64", "amd64"):
        found.append("The cluster's images are made for x86_64, and this machine is another kind.")
    if os.geteuid() != 0:
        found.append("The cluster needs root: it makes containers, mounts and a network.")
    elif not capable():
        found.append("This root may not mount or change the network (a container without rights?).")
    if unbuilt() and not has_go():
        found.append("There is no Go (1.26 or newer), which builds the cluster's programs.")
    packages = lacking_packages()
    if packages and not installable():
        names = ", ".join(packages)
        found.append(f"Not here, and only root on Debian or Ubuntu gets it from here: {names}.")
    found += lacks_space()
    return found


def has_go() -> bool:
    return bool(shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin"))


def capable() -> bool:
    """CAP_NET_ADMIN and CAP_SYS_ADMIN: a root inside a plain container has neither."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            rights = int(line.split()[1], 16)
            return bool(rights >> 12 & 1 and rights >> 21 & 1)
    return False


def lacks_space() -> list[str]:
    place = cache()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free // 2**20
    wanted = SPACE_COLD_MIB if unbuilt() else SPACE_WARM_MIB
    if free >= wanted:
        return []
    return [f"The disk at {place} has {free} MiB left and the cluster needs {wanted} MiB."]


def taken_ports(layout: Layout) -> list[str]:
    """Ports that somebody else listens on; those of our own running parts are ours."""
    ours = Processes(layout)
    found = []
    for name, places in PORTS.items():
        if ours.alive(name):
            continue
        for address, port in places:
            if taken(address, port):
                found.append(f"{name} needs port {port} on {address}, and it is taken.")
    return found


def taken(address: str, port: int) -> bool:
    if address == HOST and not has_bridge():
        return False
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address, port))
        except OSError:
            return True
    return False


def install_packages() -> None:
    wanted = lacking_packages()
    if wanted:
        install_debian(wanted)


def require(layout: Layout) -> None:
    problems = lacks() or taken_ports(layout)
    if problems:
        raise SetupError("\n".join(problems))
