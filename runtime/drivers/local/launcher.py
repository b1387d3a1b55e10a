"""Turns a spec into a plan for the shim, and starts the shim."""

import marshal
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataplane.checkpoints import LATEST
from runtime.drivers.local import environ, records
from runtime.drivers.local import isolation as isolating
from runtime.drivers.local.isolation import Groups, nvidia_minors
from runtime.drivers.local.records import Record, Trash, killpoint
from runtime.drivers.local.requests import Refused, Secrets, checked_name
from runtime.drivers.local.users import (
    SecretFolders,
    SystemUser,
    Users,
    VolumeGroups,
    make_shared,
    own_user,
    umask_for,
)
from runtime.drivers.mounts import filled, placed


def wants_port(spec: dict[str, Any]) -> bool:
    if spec["port"] or spec["probe"]:
        return True
    if spec.get("verbatim"):
        return False
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
    volume_groups: VolumeGroups | None = None
    ports_taken: Callable[[], set[int]] = set

    def __post_init__(self) -> None:
        self.records = self.state / "records"
        self.spaces = self.state / "spaces"
        self.here = self.state / "mounted"  # where each workload sees its own volumes
        self.trash = Trash(self.state / "trash")
        through = self.users is not None
        self.secret_folders = SecretFolders(self.state, self.trash, through=through)

    def make(self) -> None:
        """Make the folders; users may pass through those that hold something of theirs."""
        through = 0o711 if self.users else 0o700
        for folder, mode in (
            (self.state, through),
            (self.records, 0o700),
            (self.spaces, through),
            (self.volumes, through),
            (self.here, through),
        ):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            folder.chmod(mode)
            if self.users:
                os.chown(folder, 0, 0)  # nobody else may move folders of users about
        self.secret_folders.make()

    async def user_of(self, project: str, owner: str) -> SystemUser:
        return await self.users.get(project, owner) if self.users else own_user()

    async def group_of(self, volume_uid: str) -> int | None:
        """Return the group of a volume that members share; None: all is one user's anyway."""
        return await self.volume_groups.get(volume_uid) if self.volume_groups else None

    def volume(self, uid: str) -> Path:
        return self.volumes / checked_name(uid, "volume")

    def make_volume(self, uid: str, user: SystemUser, group: int | None) -> Path:
        """Make the folder of a volume: its owner's alone, or shared by ``group``."""
        folder = self.volume(uid)
        if group is None:
            self.own_folder(folder, user)
        else:
            make_shared(folder, group)
        return folder

    def own_folder(self, folder: Path, user: SystemUser) -> None:
        """Make a folder that belongs to ``user`` alone; refuse one that is somebody else's."""
        try:
            folder.mkdir(mode=0o700)
            if self.users:
                os.chown(folder, user.uid, user.gid, follow_symlinks=False)
        except FileExistsError:
            found = folder.lstat()
            is_folder = stat.S_ISDIR(found.st_mode)
            fresh = is_folder and (found.st_uid, found.st_gid) == (0, 0)
            if self.users and fresh and not any(folder.iterdir()):
                os.chown(folder, user.uid, user.gid, follow_symlinks=False)  # killed between
            elif found.st_uid != user.uid or not is_folder:
                raise Refused(
                    "error", f"folder {folder.name} belongs to another user", reason="start-failed"
                ) from None


def notice_file(space: Path) -> Path:
    """Return where a workload reads why it is about to end; there is none before."""
    return space / "notice.json"


def events_file(space: Path, launch: int) -> Path:
    """Return where the program of a launch may tell of itself; its user's own folder."""
    return space / "events" / f"{launch}.jsonl"


class Launcher:
    """Makes the folders of one workload and its plan."""

    def __init__(self, machine: Machine, spec: dict[str, Any], user: SystemUser) -> None:
        self.machine, self.spec, self.user = machine, spec, user
        self.space = machine.spaces / spec["uid"]
        self.volumes = self.space / "volumes"
        self.secrets = machine.secret_folders.of(spec["uid"], self.space)
        # a group's parts have one folder: that of the whole
        kept = machine.spaces / spec["uid"].partition(".")[0] / "checkpoints"
        said = spec.get("checkpoints")
        self.checkpoints = self.volumes / said if said else kept
        output = spec.get("output")
        self.output = self.volumes / output if output else None
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
        if self.base is not None and self.spec.get("packages_of"):
            self.packages()
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

    def packages(self) -> Path | None:
        """Return the layer of the workload whose packages it sees; that must be its user's own."""
        if not (uid := self.spec.get("packages_of")):
            return None
        folder = self.machine.spaces / checked_name(uid, "uid") / "env"
        try:
            found = folder.lstat()
        except FileNotFoundError:
            found = None
        if found is None or not stat.S_ISDIR(found.st_mode) or found.st_uid != self.user.uid:
            message = "the workspace is gone whose installed packages it needs"
            raise Refused("invalid-spec", message, reason="invalid-spec")
        return folder

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
        if self.spec.get("serve"):
            self._leave_to_others()
        self._make_space(self.space)
        self.machine.trash.take(self.space / "tmp")
        notice_file(self.space).unlink(missing_ok=True)
        for folder in (
            self.home(),
            *(self.space / n for n in ("env", "jupyter", "runtime", "tmp")),
            *([self.space / "events"] if self.spec.get("tells") else []),
        ):
            self.machine.own_folder(folder, self.user)
        if not self.spec.get("checkpoints"):
            self._make_space(self.checkpoints.parent)
            self.machine.own_folder(self.checkpoints, self.user)
        self.machine.trash.take(self.volumes)
        self.volumes.mkdir(mode=0o755)
        self.volumes.chmod(0o755 if self.machine.users else 0o700)
        for mount in self._data():
            folder = self.machine.make_volume(mount["volume_uid"], self.user, mount["group"])
            if self.machine.isolation.read_only_volumes:
                (self.volumes / mount["name"]).mkdir(mode=0o700)
            else:
                (self.volumes / mount["name"]).symlink_to(folder)

    def _leave_to_others(self) -> None:
        """Begin with fresh folders where a launch before was somebody else's; nothing is kept in
        those of what serves.
        """
        for folder in (self.space / "home", self.checkpoints):
            try:
                owner = folder.lstat().st_uid
            except FileNotFoundError:
                continue
            if self.machine.users and owner != self.user.uid:
                self.machine.trash.take(folder.parent)

    def _make_space(self, folder: Path) -> None:
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711 if self.machine.users else 0o700)

    def _data(self) -> list[dict[str, Any]]:
        return [mount for mount in self.spec["mounts"] if mount["role"] == "data"]

    def write_secrets(self, secrets: Secrets) -> None:
        """Put the files in place of what was there."""
        owner = (self.user.uid, self.user.gid) if self.machine.users else None
        folder = str(self.secrets)  # the workload's own, so what it makes there goes with it
        files = filled(secrets.files, secrets.placed, folder=folder, memory=folder)
        self.machine.secret_folders.write(self.secrets, files, owner)

    def _environment(
        self, port: int | None, secrets: dict[str, str], layer: environ.Furniture
    ) -> dict[str, str]:
        granted, _ = environ.asked_for(self.spec["env"])
        private_tmp = self.machine.isolation.tmp
        asked = {name: placed(value, str(self.secrets)) for name, value in granted.items()}
        return {
            "LANG": "C.UTF-8",
            # What is open in this one: several share a home, and none the others' tabs.
            "JUPYTERLAB_WORKSPACES_DIR": str(self.space / "jupyter/workspaces"),
            **environ.passed_on(),
            **{name: environ.substitute(value, port) for name, value in asked.items()},
            **secrets,  # as they are: a password may hold any text
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
            "BERTH_VOLUMES": str(self.volumes),
            "BERTH_NOTICE_FILE": str(notice_file(self.space)),
            **self._told_where(),
            "BERTH_CHECKPOINTS": str(self.checkpoints),  # stays from start to start
            "BERTH_CHECKPOINT_LATEST": f"{self.checkpoints}/{LATEST}",
            **({"BERTH_OUTPUT": str(self.output)} if self.output else {}),
            "BERTH_WORKLOAD": self.spec["uid"],
            **environ.meeting(self.spec.get("group")),
        }

    def _told_where(self) -> dict[str, str]:
        if not self.spec.get("tells"):
            return {}
        return {"BERTH_EVENTS": str(events_file(self.space, self.spec["launch"]))}

    def plan(
        self, record: Record, attempt: int, port: int | None, secrets: Secrets
    ) -> dict[str, Any]:
        """Return everything the shim needs, as plain values."""
        machine, user = self.machine, self.user
        layer = environ.Furniture()
        if self.base:
            layer = environ.python_layer(self.space, self.base, self.packages())
        tmp = str(self.space / "tmp")
        shared = isolating.SHARED_FOLDERS if machine.isolation.tmp else ()
        words = self.spec["command"][1:]
        if not self.spec.get("verbatim"):
            filled_in = (placed(word, str(self.secrets)) for word in words)
            words = [environ.substitute(word, port) for word in filled_in]
        limits = [("RLIMIT_CORE", 0, 0), ("RLIMIT_NOFILE", 65536, 65536)]
        if machine.users and not machine.isolation.pids:
            pids = self.spec["resources"]["pids"]
            limits.append(("RLIMIT_NPROC", pids, pids))
        wanted = self.spec["resources"]
        groups = machine.groups
        made = groups.create(
            self.spec["uid"],
            cpu_milli=wanted["cpu_milli"],
            memory_mib=wanted["memory_mib"],
            pids=wanted["pids"],
        )
        if machine.isolation.gpu:
            minors = nvidia_minors()
            groups.restrict_gpus(
                self.spec["uid"], [minors[d] for d in self.spec["devices"] if d in minors]
            )
        return {
            "dir": str(record.folder),
            "attempt": attempt,
            "argv": [self.program(), *words],
            "env": self._environment(port, secrets.env, layer),
            "cwd": str(self.home()),
            "checkpoints": str(self.checkpoints),
            "checkpoints_since": self.spec.get("checkpoints_since", 0),
            "uid": user.uid if machine.users else None,
            "gid": user.gid,
            **self._sharing(),
            "mounts": machine.isolation.mounts,
            "hide_proc": machine.isolation.proc,
            "binds": [(tmp, folder) for folder in shared if Path(folder).is_dir()],
            "shm": self._shared_memory(),
            "volumes": self._shown(),
            "rlimits": limits,
            "cgroups": made,
            "kill_file": machine.groups.kill_file(self.spec["uid"]),
            "folders": [*layer.folders, *([str(self.output)] if self.output else [])],
            "files": layer.files,
            "links": layer.links,
            "leads": self._leads(),
            "secrets": str(self.secrets),
            "log_prefix": records.log_prefix(record.folder, self.spec["launch"]),
            "log_segment": records.SEGMENT_BYTES,
            "log_keep": records.KEPT_SEGMENTS,
        }

    def _sharing(self) -> dict[str, Any]:
        """Return the groups of the shared volumes it sees, and the umask these need."""
        shared = [mount for mount in self._data() if mount["group"] is not None]
        folders = [self.machine.volume(mount["volume_uid"]) for mount in shared]
        return {"groups": sorted({mount["group"] for mount in shared}), "umask": umask_for(folders)}

    def _shared_memory(self) -> tuple[int, str] | None:
        """Return the size of its own /dev/shm and what stays visible there; None: it has none.

        What lies in it counts as its memory, so it may be as large as that.
        """
        if not self.machine.isolation.shm:
            return None
        secrets = self.machine.secret_folders.folder
        return self.spec["resources"]["memory_mib"], str(secrets or "")

    def _shown(self) -> dict[str, Any] | None:
        """Return what is mounted where; None where links must do.

        Also without volumes of its own: a process of the same user that does see some has their
        groups, and reaches through /proc whatever this one's mounts leave open.
        """
        if not self.machine.isolation.read_only_volumes:
            return None
        home = self.home()
        return {
            "all": str(self.machine.volumes),
            "home": str(home) if home.parent == self.machine.volumes else "",
            "binds": [
                (
                    str(self.machine.volume(mount["volume_uid"])),
                    str(self.volumes / mount["name"]),
                    mount["read_only"],
                )
                for mount in self._data()
            ],
            "seen": str(self.volumes),
            "here": str(self.machine.here),
        }

    def _leads(self) -> list[tuple[str, str]]:
        """Lead ``~/volumes`` to them; several workloads may share one home and so this link."""
        if not self._data():
            return []
        same_for_all = self.machine.isolation.read_only_volumes
        target = self.machine.here if same_for_all else self.volumes
        return [(f"{self.home()}/volumes", str(target))]


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
