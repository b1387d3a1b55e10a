"""What this machine lets us enforce. Found out by trying, once, at start."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from runtime.drivers.local import shim
from runtime.drivers.local.cgroups import Groups
from runtime.drivers.local.records import destroy

# -I -S -E: no site, no user packages, no environment; it starts in 6 ms.
SHIM = (sys.executable, "-I", "-S", "-E", shim.__file__)
_SHARED_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - the folders that get a private face


@dataclass(frozen=True)
class Isolation:
    """True means enforced for every workload."""

    users: bool = False
    proc: bool = False
    tmp: bool = False
    shm: bool = False
    memory: bool = False
    cpu: bool = False
    pids: bool = False
    gpu: bool = False
    read_only_volumes: bool = False
    memory_secrets: bool = False

    @property
    def mounts(self) -> bool:
        return self.proc or self.tmp or self.shm or self.read_only_volumes


def detect(
    groups: Groups, *, root: bool, state: Path, volumes: Path, environments: Path, memory: bool
) -> Isolation:
    """A workload must go on seeing its folders: none may lie under what gets a private face."""
    proc = tmp = shm = hidden = False
    needed = (state, volumes, environments)
    if root:
        folder = state / "selftest"
        destroy(folder)
        folder.mkdir(mode=0o700)
        done = subprocess.run(  # noqa: S603 - our own file
            [*SHIM, str(folder)], capture_output=True, env={}, timeout=20, check=False
        )
        proc, tmp = b"proc=1" in done.stdout, b"tmp=1" in done.stdout
        shm = b"shm=1" in done.stdout
        hidden = b"volumes=1" in done.stdout
        destroy(folder)
        tmp = tmp and not any(is_under(path, _SHARED_FOLDERS) for path in needed)
        shm = shm and not any(is_under(path, ("/dev/shm",)) for path in needed)  # noqa: S108
        hidden = hidden and not any(is_under(p, (str(volumes),)) for p in (state, environments))
    return Isolation(
        users=root,
        proc=proc,
        tmp=tmp,
        shm=shm,
        memory=groups.has("memory"),
        cpu=groups.has("cpu"),
        pids=groups.has("pids"),
        gpu=root and "devices" in groups.v1,
        read_only_volumes=hidden,
        memory_secrets=memory,
    )


def is_under(path: Path, tops: tuple[str, ...]) -> bool:
    return any(Path(path).resolve().is_relative_to(top) for top in tops)


def shared_folders() -> tuple[str, ...]:
    return _SHARED_FOLDERS


def closed_folder(path: Path) -> Path | None:
    """Return the first folder on the way to ``path`` that other users can't pass."""
    for folder in reversed([path, *path.parents]):
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            return folder
    return None
