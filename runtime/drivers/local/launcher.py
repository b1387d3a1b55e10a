"""Turns a spec into a plan for the shim, and starts the shim."""

import marshal
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.drivers.local import environ, logs, upper
from runtime.drivers.local import isolation as isolating
from runtime.drivers.local.cgroups import Groups, nvidia_minors
from runtime.drivers.local.killpoints import killpoint
from runtime.drivers.local.records import Record, Trash
from runtime.drivers.local.users import SystemUser, Users, own_user
from runtime.drivers.local.wire import Refused

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def checked_name(name: str, what: str) -> str:
    """Return a name that is safe as one part of a path."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise Refused("invalid-spec", f"{what} {name[:40]!r} is not a plain name")
    return name


def wants_port(spec: dict[str, Any]) -> bool:
    if spec["port"] or spec["probe"]:
        return True
    return any("{port}" in text for text in [*spec["command"], *spec["env"].values()])


def asked(spec: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked for, without what we added when it was started."""
    ours = ("port_now", "system_user", "attempt")
    return {name: value for name, value in spec.items() if name not in ours}


@dataclass
class Machine:
    """Where things lie and what this machine can enforce."""

    state: Path
    volumes: Path
    environments: Path
    ports: tuple[int, int] = (21_000, 31_999)
    groups: Groups = field(default_factory=Groups)
    isolation: isolating.Isolation = field(default_factory=isolating.Isolation)
    users: Users | None = None  # None: everything runs as the supervisor's own user
    ports_taken: Callable[[], set[int]] = set

    def __post_init__(self) -> None:
        self.records = self.state / "records"
        self.spaces = self.state / "spaces"
        self.trash = Trash(self.state / "trash")

    def make(self) -> None:
        """Make the folders; users may pass through those that hold something of theirs."""
        through = 0o711 if self.users else 0o700
        for folder, mode in (
            (self.state, through),
            (self.records, 0o700),
            (self.spaces, through),
            (self.volumes, through),
        ):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            folder.chmod(mode)
            if self.users:
                os.chown(folder, 0, 0)  # nobody else may move folders of users about

    async def user_of(self, project: str, owner: str) -> SystemUser:
        return await self.users.get(project, owner) if self.users else own_user()

    def volume(self, uid: str) -> Path:
        return self.volumes / checked_name(uid, "volume")

    def own_folder(self, folder: Path, user: SystemUser) -> None:
        """Make a folder that belongs to ``user`` alone; refuse one that is somebody else's."""
        try:
            folder.mkdir(mode=0o700)
            if self.users:
                os.chown(folder, user.uid, user.gid, follow_symlinks=False)
        except FileExistsError:
            found = folder.lstat()
            if self.users and found.st_uid == 0 and not any(folder.iterdir()):
                os.chown(folder, user.uid, user.gid, follow_symlinks=False)  # killed between
            elif found.st_uid != user.uid:
                raise Refused(
                    "error", f"folder {folder.name} belongs to another user", reason="start-failed"
                ) from None


class Launcher:
    """Makes the folders of one workload and its plan."""

    def __init__(self, machine: Machine, spec: dict[str, Any], user: SystemUser) -> None:
        self.machine, self.spec, self.user = machine, spec, user
        self.space = machine.spaces / spec["uid"]
        self.base: Path | None = None
        if name := spec["environment"]:
            self.base = machine.environments / checked_name(name, "environment")

    def check(self) -> None:
        """Refuse what can't start, before anything is made."""
        if self.base is not None and not (self.base / "bin/python").exists():
            raise Refused(
                "invalid-spec",
                f"environment {self.base.name} is not on this machine",
                reason="invalid-spec",
            )
        if self.machine.users:
            for folder in (self.space.parent, self.machine.volumes, *self._interpreter()):
                if shut := isolating.closed_folder(folder):
                    raise Refused(
                        "error",
                        f"users of workspaces can't pass through the folder {shut}; "
                        f"open it to them (chmod o+x) or move Berth's data elsewhere",
                        reason="start-failed",
                    )
        self.program()

    def _interpreter(self) -> list[Path]:
        return [(self.base / "bin/python").resolve().parent] if self.base else []

    def program(self) -> str:
        """Return the absolute path of the command: the base environment wins."""
        name = self.spec["command"][0]
        path = environ.SYSTEM_PATH
        if self.base:
            path = f"{self.base.resolve()}/bin{os.pathsep}{path}"
        found = shutil.which(name, path=path)
        if not found:
            raise Refused(
                "invalid-spec", f"command {name} is not in this environment", reason="invalid-spec"
            )
        return found

    def home(self) -> Path:
        for mount in self.spec["mounts"]:
            if mount["role"] == "home":
                return self.machine.volume(mount["volume_uid"])
        return self.space / "home"

    def make_folders(self) -> None:
        self.space.mkdir(mode=0o711, exist_ok=True)
        self.space.chmod(0o711 if self.machine.users else 0o700)
        self.machine.trash.take(self.space / "tmp")
        for folder in (
            self.home(),
            *(self.space / name for name in ("env", "jupyter", "runtime", "tmp")),
        ):
            self.machine.own_folder(folder, self.user)

    def environment(self, port: int | None, secrets: dict[str, str]) -> dict[str, str]:
        layer = upper.describe(self.space, self.base) if self.base else upper.Furniture()
        granted, _ = environ.asked_for(self.spec["env"])
        private_tmp = self.machine.isolation.tmp
        env = {
            "LANG": "C.UTF-8",
            **environ.passed_on(),
            **granted,
            **secrets,
            **layer.env,
            "PATH": os.pathsep.join([*layer.path, environ.SYSTEM_PATH]),
            "HOME": str(self.home()),
            "USER": self.user.name,
            "LOGNAME": self.user.name,
            "SHELL": "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
            "TMPDIR": "/tmp" if private_tmp else str(self.space / "tmp"),  # noqa: S108 - its own
            "XDG_RUNTIME_DIR": str(self.space / "runtime"),
            "JUPYTER_RUNTIME_DIR": str(self.space / "runtime"),
            **environ.gpu_environment(self.spec["devices"]),
            "BERTH_WORKLOAD": self.spec["uid"],
        }
        return {name: environ.substitute(value, port) for name, value in env.items()}

    def plan(
        self, record: Record, attempt: int, port: int | None, secrets: dict[str, str]
    ) -> dict[str, Any]:
        """Return everything the shim needs, as plain values."""
        machine, user = self.machine, self.user
        layer = upper.describe(self.space, self.base) if self.base else upper.Furniture()
        tmp = str(self.space / "tmp")
        shared = isolating.shared_folders() if machine.isolation.tmp else ()
        command = [environ.substitute(part, port) for part in self.spec["command"]]
        return {
            "dir": str(record.folder),
            "attempt": attempt,
            "argv": [self.program(), *command[1:]],
            "env": self.environment(port, secrets),
            "cwd": str(self.home()),
            "uid": user.uid if machine.users else None,
            "gid": user.gid,
            "mounts": machine.isolation.mounts,
            "hide_proc": machine.isolation.proc,
            "binds": [(tmp, folder) for folder in shared if Path(folder).is_dir()],
            "rlimits": self._rlimits(),
            "cgroups": self._groups(),
            "kill_file": machine.groups.kill_file(self.spec["uid"]),
            "folders": layer.folders,
            "files": layer.files,
            "links": layer.links,
            "log_prefix": logs.prefix(record.folder, self.spec["launch"]),
            "log_segment": logs.SEGMENT_BYTES,
            "log_keep": logs.KEEP,
        }

    def _rlimits(self) -> list[tuple[str, int, int]]:
        limits = [("RLIMIT_CORE", 0, 0), ("RLIMIT_NOFILE", 65536, 65536)]
        if self.machine.users and not self.machine.isolation.pids:
            pids = self.spec["resources"]["pids"]
            limits.append(("RLIMIT_NPROC", pids, pids))
        return limits

    def _groups(self) -> list[str]:
        wanted = self.spec["resources"]
        groups = self.machine.groups
        made = groups.create(
            self.spec["uid"],
            cpu_milli=wanted["cpu_milli"],
            memory_mib=wanted["memory_mib"],
            pids=wanted["pids"],
        )
        if self.machine.isolation.gpu:
            minors = nvidia_minors()
            groups.restrict_gpus(
                self.spec["uid"], [minors[d] for d in self.spec["devices"] if d in minors]
            )
        return made


def spawn(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the shim. The plan goes through memory: a secret never touches a disk or a list."""
    fd = os.memfd_create("plan")
    try:
        with os.fdopen(fd, "wb", closefd=False) as file:
            marshal.dump(plan, file)
        os.lseek(fd, 0, os.SEEK_SET)
        point = os.environ.get("BERTH_KILLPOINT", "")
        process = subprocess.Popen(  # noqa: S603 - our own file
            isolating.SHIM,
            stdin=fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"BERTH_KILLPOINT": point} if point.startswith("shim-") else {},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(fd)
    killpoint("spawned")
    return process
