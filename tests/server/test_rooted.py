"""Started as root: who runs what, and what the portal's user can't touch."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from portal.server import identity
from tests.server.test_up import until
from tests.support.portal import ROOT, environments, free_ports

pytestmark = [pytest.mark.real, pytest.mark.root]
PYTHON = ROOT / ".venv-server/bin/python"
PARTS = {
    "web": "portal.server.web",
    "worker": "portal.server.worker",
    "proxy": "berth-proxy.mjs",
    "supervisor": "drivers.local.supervisor",
    "manager": "portal.server up",
}


class Rooted:
    def __init__(self, var: Path) -> None:
        self.var = var
        self.port = free_ports(8)
        names = ("BERTH_", "DJANGO_")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        self.env = {
            **plain,
            "BERTH_VAR": str(var),
            "BERTH_PORT": str(self.port),
            "BERTH_ENVIRONMENTS_DIR": str(environments()),
            "BERTH_NODE": shutil.which("node") or "",
        }
        self.log = var.parent / "up.log"
        self.process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PYTHON, "-m", "portal.server", "up"],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        assert until(self.ready, 180), self.log.read_text()

    def ready(self) -> bool:
        try:
            return httpx.get(f"http://localhost:{self.port}/readyz", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    def verb(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [PYTHON, "-m", "portal.server", *words],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def parts(self) -> dict[str, list[tuple[int, str]]]:
        """Name of the part -> its processes as (number, user)."""
        found: dict[str, list[tuple[int, str]]] = {name: [] for name in PARTS}
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if f"BERTH_VAR={self.var}".encode() not in (entry / "environ").read_bytes():
                    continue
                user = pwd.getpwuid(entry.stat().st_uid).pw_name
            except (OSError, KeyError, UnicodeDecodeError):
                continue
            for name, word in PARTS.items():
                if word in words:
                    found[name].append((int(entry.name), user))
        return found

    def users(self, name: str) -> list[str]:
        return sorted(user for _, user in self.parts()[name])

    def number(self, name: str, user: str) -> int:
        return next(number for number, who in self.parts()[name] if who == user)


@pytest.fixture(scope="module")
def started() -> Iterator[Rooted]:
    if os.geteuid() != 0 or not PYTHON.exists():
        pytest.skip("needs root and the environment that `make run` makes")
    user = identity.existing() or identity.create()
    if user is None or identity.cannot_run(user):
        pytest.skip(f"the user berth can't read {ROOT}")
    folder = Path(tempfile.mkdtemp(prefix="berth-rooted-"))
    folder.chmod(0o755)
    one = Rooted(folder / "var")
    try:
        one.up()
        yield one
    finally:
        one.verb("down", "--workspaces")
        if one.process:
            one.process.wait(120)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def rooted(started: Rooted) -> Rooted:
    """It runs, whatever an earlier try of a test left."""
    if started.process is None or started.process.poll() is not None:
        started.up()
    return started


def test_only_the_supervisor_and_its_keeper_stay_root(rooted: Rooted) -> None:
    wanted = {name: ["berth"] for name in ("web", "worker", "proxy")}
    wanted |= {"supervisor": ["root"], "manager": ["berth", "root"]}
    # One that just begins a program is there twice for a moment.
    assert until(lambda: {name: rooted.users(name) for name in wanted} == wanted, 60), (
        rooted.parts()
    )


def test_the_portals_user_owns_its_data_and_can_not_replace_what_is_roots(rooted: Rooted) -> None:
    berth = pwd.getpwnam("berth")
    top = rooted.var.stat()
    assert top.st_uid == 0
    assert stat.S_IMODE(top.st_mode) == 0o1771
    for name in ("secrets.json", "berth.sqlite3"):
        one = (rooted.var / name).stat()
        assert (one.st_uid, stat.S_IMODE(one.st_mode)) == (berth.pw_uid, 0o600)
    supervisor = (rooted.var / "supervisor").stat()
    assert (supervisor.st_uid, stat.S_IMODE(supervisor.st_mode)) == (0, 0o750)
    script = f"import os; os.rename({str(rooted.var / 'supervisor')!r}, '/tmp/x')"
    done = subprocess.run(
        [PYTHON, "-c", script],
        user=berth.pw_uid,
        group=berth.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PermissionError" in done.stderr


def test_a_killed_supervisor_comes_back_as_root(rooted: Rooted) -> None:
    before = rooted.number("supervisor", "root")
    os.kill(before, signal.SIGKILL)

    def replaced() -> bool:
        numbers = [number for number, _ in rooted.parts()["supervisor"]]
        return bool(numbers) and before not in numbers

    assert until(replaced, 60), rooted.log.read_text()
    assert until(lambda: rooted.users("supervisor") == ["root"], 60)
    assert until(rooted.ready, 120)


def test_root_makes_a_backup_and_leaves_no_file_of_its_own_beside_the_database(
    rooted: Rooted, tmp_path: Path
) -> None:
    done = rooted.verb("backup", str(tmp_path / "berth.backup"))
    assert done.returncode == 0, done.stderr
    owners = set()
    for file in rooted.var.glob("berth.sqlite3*"):
        with suppress(FileNotFoundError):  # a journal goes with the last connection
            owners.add(file.owner())
    assert owners == {"berth"}
    assert list((rooted.var / "backups").iterdir()) == []


@pytest.mark.parametrize("user", ["berth", "root"])
def test_killing_either_half_ends_the_portal_and_not_the_supervisor(
    rooted: Rooted, user: str
) -> None:
    supervisor = rooted.number("supervisor", "root")
    os.kill(rooted.number("manager", user), signal.SIGKILL)
    assert rooted.process is not None
    rooted.process.wait(120)

    def ended() -> bool:
        return not any(rooted.parts()[name] for name in ("web", "worker", "proxy", "manager"))

    assert until(ended, 120), rooted.parts()
    assert rooted.number("supervisor", "root") == supervisor
    rooted.up()
    assert rooted.number("supervisor", "root") == supervisor


def test_root_makes_no_environment_in_a_folder_that_others_can_change(
    rooted: Rooted, tmp_path: Path
) -> None:
    assert rooted.verb("down").returncode == 0
    tmp_path.chmod(0o777)
    env, rooted.env = rooted.env, {**rooted.env, "BERTH_ENVIRONMENTS_DIR": str(tmp_path)}
    try:
        done = rooted.verb("up")
    finally:
        rooted.env = env
    assert done.returncode == 1, done.stdout
    assert f"others than root can change {tmp_path}" in done.stderr
    assert rooted.users("manager") == []
    rooted.up()


def test_down_ends_both_halves(rooted: Rooted) -> None:
    assert rooted.verb("down").returncode == 0
    assert rooted.process is not None
    assert rooted.process.wait(120) == 0, rooted.log.read_text()[-3000:]
    assert rooted.users("manager") == []
    rooted.up()
