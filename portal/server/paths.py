"""Where things lie, who may see them, and the secrets that are made once."""

import fcntl
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from common import sealing

ROOT = Path(__file__).resolve().parents[2]
SPACE_NEEDED_MIB = 100
UNLIKE = 5  # exit code: secrets, database and data are not of one installation
DATA_HERE = "BERTH_DATA_HERE"  # root's half tells the other one, which may not look
SEALING_PAIR = ("BERTH_CLUSTER_PUBLIC_KEY", "BERTH_CLUSTER_PRIVATE_KEY")
GENERATED = (
    "BERTH_SECRET_KEY",
    "BERTH_PROXY_TOKEN",
    "BERTH_GATE_TOKEN",
    "BERTH_METRICS_TOKEN",
    "BERTH_CREDENTIAL_KEYS",
    *SEALING_PAIR,
)


class Refusal(Exception):  # noqa: N818 - an answer to the administrator, not a fault of ours
    """Something that the person at the terminal must change; one sentence says what."""

    def __init__(self, sentence: str, *, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Paths:
    var: Path

    @classmethod
    def from_environment(cls) -> "Paths":
        # portal/settings/env.py reads the same name; this side must work without Django.
        return cls(Path(os.environ.get("BERTH_VAR") or ROOT / "var").absolute())

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def log(self) -> Path:
        return self.var / "log"

    @property
    def secrets(self) -> Path:
        return self.var / "secrets.json"

    @property
    def installation(self) -> Path:
        """Says whose all of this is."""
        return self.var / "installation"

    def data(self) -> str:
        """The folders that hold something of people, or of their work, in words."""
        if (told := os.environ.get(DATA_HERE)) is not None:
            return told
        names = ("BERTH_VOLUMES_DIR", "volumes"), ("BERTH_WORKLOADS_DIR", "workloads")
        folders = [Path(os.environ.get(setting) or self.var / name) for setting, name in names]
        return " and ".join(str(folder) for folder in folders if _holds_something(folder))

    @property
    def lock(self) -> Path:
        return self.run / "berth.lock"

    @property
    def private(self) -> tuple[Path, ...]:
        """What only the portal's own user sees."""
        return (self.run, self.log, self.var / "broker", self.var / "backups")

    def prepare(self) -> None:
        """Makes the folders; run as the user that owns them."""
        try:
            if not self.var.exists():
                # As root, workspaces run as users who pass through here to their own folders.
                self.var.mkdir(mode=0o700, parents=True)
                self.var.chmod(0o711 if os.geteuid() == 0 else 0o700)
            for folder in self.private:
                folder.mkdir(mode=0o700, exist_ok=True)
            for name in ("queue", "control", "processed"):
                (self.var / "broker" / name).mkdir(mode=0o700, exist_ok=True)
            probe = self.run / ".write-test"
            probe.write_text("")
            probe.unlink()
            free = shutil.disk_usage(self.var).free // 2**20
        except OSError as error:
            message = (
                f"{error.filename or self.var} can't be written ({error.strerror}). Change its"
                " owner, or name another folder with BERTH_VAR."
            )
            raise Refusal(message) from error
        if free < SPACE_NEEDED_MIB:
            message = (
                f"The disk of {self.var} has {free} MiB left; free some space and start again."
            )
            raise Refusal(message)

    def ensure_secrets(self) -> bool:
        """Adds what is missing; a secret that exists is never replaced. True: the key is new."""
        try:
            known = json.loads(self.secrets.read_text())
            if not isinstance(known, dict):
                raise ValueError("not an object")  # noqa: TRY004,TRY301 - one answer for both
        except FileNotFoundError:
            known = {}
        except (OSError, ValueError) as error:
            message = f"{self.secrets} can't be read as JSON ({error}). Restore it from a backup."
            raise Refusal(message, code=UNLIKE) from error
        missing = [name for name in GENERATED if not known.get(name)]
        if not missing:
            return False
        known.update({name: secrets.token_urlsafe(48) for name in missing})
        if set(missing) & set(SEALING_PAIR):
            known.update(_sealing_pair(known, missing))
        write_private(self.secrets, json.dumps(known, indent=2) + "\n")
        key = GENERATED[0]
        return key in missing and not {key, f"{key}_FILE"} & os.environ.keys()


def _holds_something(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _sealing_pair(known: dict[str, str], missing: list[str]) -> dict[str, str]:
    """What opens the clusters' kubeconfigs; the public half follows from the private one."""
    public, private = SEALING_PAIR
    if private in missing:
        return dict(zip(SEALING_PAIR, sealing.new_pair(), strict=True))
    return {public: sealing.public_of(known[private].split(",")[0])}


def write_private(path: Path, text: str) -> None:
    """All of it or nothing, and never for others to read."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def take_lock(places: Paths) -> int:
    """The lock of one running portal per folder; its file holds the process number."""
    fd = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = running(places)
        message = (
            f"Berth already runs on {places.var} (process {number}). Use it, or end it with"
            " `berth down`, or give this one a folder of its own with BERTH_VAR."
        )
        raise Refusal(message) from error
    os.ftruncate(fd, 0)
    os.write(fd, f"{os.getpid()}\n".encode())
    return fd


def running(places: Paths) -> int | None:
    """The process number of the portal that holds the lock, or None."""
    try:
        with places.lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
    except FileNotFoundError:
        return None
    except ValueError:
        return 0
    return None


def private_umask() -> None:
    os.umask(0o077)
