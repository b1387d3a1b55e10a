"""Mounts of one workload, made in a mount namespace of its own before privileges are dropped.

Imported by the shim's child and by its self-test, and by nothing else; root's own process
names only folders that root alone may replace, and holds each fast by a descriptor.
"""

# pathlib and contextlib cost more to import than the rest together:
# ruff: noqa: PTH102, D402

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - one of its own is mounted there
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_UNPRIVILEGED_HIDEPID = (5, 8)  # since then hidepid belongs to one mount, not to the machine


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> bool:
    """True when mount(2) worked."""
    enc = [None if x is None else x.encode() for x in (source, target, kind, data)]
    return _LIBC.mount(enc[0], enc[1], enc[2], ctypes.c_ulong(flags), enc[3]) == 0


def own_mounts() -> bool:
    """Leave the machine's mount table, and what System V calls shared memory and semaphores.

    True when this process may change its own mounts now; a kernel may lack the second.
    """
    _LIBC.unshare(_CLONE_NEWIPC)
    private = _MS_REC | _MS_PRIVATE
    return _LIBC.unshare(_CLONE_NEWNS) == 0 and mount("none", "/", None, private, None)


def hide_processes() -> bool:
    """Mount a /proc that shows a user nothing but the user's own processes."""
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return release >= _UNPRIVILEGED_HIDEPID and mount(
        "proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=2"
    )


def bind(source: str, target: str) -> bool:
    return mount(source, target, None, _MS_BIND, None)


class _Held:
    """A folder held by a descriptor: it stays reachable when something is mounted over it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)

    def show(self, target: str, *, read_only: bool = False) -> None:
        """Bind it to ``target``; nothing in it may be a device or change who runs."""
        flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV
        flags |= _MS_RDONLY if read_only else 0
        done = bind(f"/proc/self/fd/{self.fd}", target)
        # Flags of a bind mount are only taken by a remount.
        if not (done and mount("none", target, None, flags, None)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), target)


def show_volumes(plan: dict[str, Any]) -> None:
    """Show exactly the volumes of ``plan`` and hide the folder where all of them lie.

    ``binds`` are (source, target, read only); ``home`` stays where it was, or is "". ``here``
    is one place that is the same for all workloads, for a link that several of them share.
    """
    held = [(_Held(source), target, ro) for source, target, ro in plan["binds"]]
    home = _Held(plan["home"]) if plan["home"] else None
    for folder, target, read_only in held:
        folder.show(target, read_only=read_only)
    closed = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    here = mount(plan["seen"], plan["here"], None, _MS_BIND | _MS_REC, None)
    if not (here and mount("berth", plan["all"], "tmpfs", closed, "mode=0711,size=64k")):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), plan["all"])
    if home:
        os.mkdir(home.path, 0o700)
        home.show(home.path)
    for fd in [one.fd for one, _, _ in held] + ([home.fd] if home else []):
        os.close(fd)


def own_shared_memory(mib: int, kept: str) -> None:
    """Mount a /dev/shm that nobody else sees and that ends with the last process.

    ``mib`` 0: as large as the kernel lets it be. ``kept``: a folder there that stays, "": none.
    """
    held = _Held(kept) if kept else None
    size = f",size={mib}m" if mib else ""
    flags = _MS_NOSUID | _MS_NODEV
    if not mount("berth", _SHARED_MEMORY, "tmpfs", flags, f"mode=1777{size}"):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), _SHARED_MEMORY)
    if held:
        os.mkdir(kept, 0o711)
        held.show(kept)
        os.close(held.fd)


def selftest(folder: str) -> str:
    """Say which of the mount tricks this machine allows."""
    mounts = own_mounts()
    volumes = mounts and _can_show(folder)
    proc = mounts and hide_processes()
    tmp = mounts and bind(folder, folder)
    shm = mounts and _can_have_memory()
    return f"proc={int(proc)} tmp={int(tmp)} shm={int(shm)} volumes={int(volumes)}\n"


def _can_have_memory() -> bool:
    try:
        own_shared_memory(1, "")
    except OSError:
        return False
    return True


def _can_show(folder: str) -> bool:
    """Try it all on folders of our own, and see that what is read-only refuses."""
    try:
        for name in ("all", "all/one", "seen", "seen/one", "here"):
            os.mkdir(f"{folder}/{name}", 0o700)
        show_volumes(
            {
                "all": f"{folder}/all",
                "binds": [(f"{folder}/all/one", f"{folder}/seen/one", True)],
                "home": "",
                "seen": f"{folder}/seen",
                "here": f"{folder}/here",
            }
        )
        os.mkdir(f"{folder}/here/one/refused", 0o700)
    except OSError as problem:
        import errno

        return problem.errno == errno.EROFS
    return False
