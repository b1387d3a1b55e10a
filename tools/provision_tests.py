"""PostgreSQL, Redis, Chromium and the notebook environments that only the tests need.

As root on Debian or Ubuntu what is missing is installed; elsewhere it is named, and its tests are
left out.  Servers are throwaway: started on loopback in a temporary folder, ended by their number.
"""

import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.setup_debian import install_debian
from tools.setup_shell import SetupError, say, step, works
from tools.setup_steps import (
    LOCKS,
    ROOT,
    SERVER_VENV,
    TOOLS,
    base_python,
    dataplane_environment,
    environment,
    notebook_environment,
    serving_environment,
)
from tools.setup_uv import find_uv
from tools.suite_cluster import Cluster

PACKAGES = {
    "postgres": "postgresql",
    "redis": "redis-server",
    "browser": "chromium",
}
FONTS = ("fonts-noto-cjk",)
# Images are built and run by these: only as root, and only Debian's go together.
ENGINE = {
    "buildah": "buildah",
    "podman": "podman",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
}
EXTRA = {
    "java": "default-jre-headless",  # a real HDFS, got by Maven
    "msgfmt": "gettext",
    "mvn": "maven",
    "ssh": "openssh-client",
    "/usr/lib/openssh/sftp-server": "openssh-sftp-server",  # stands for a container's own
}
# An NFS server without a kernel's, and who talks to it: only root may serve files by handle.
NFS = {"ganesha.nfsd": ("nfs-ganesha", "nfs-ganesha-vfs"), "nfs-ls": ("libnfs-utils",)}
SINGLEUSERS = ("singleuser-5.5", "singleuser-4.1")
START_TIMEOUT_S = 30
ELSEWHERE = Path("/var/lib/berth-test-environments")


# --- Programs -------------------------------------------------------------------------------------


def provision() -> dict[str, str]:
    """Installs what is missing where that is possible; answers mark -> why it is missing."""
    lacking = [name for name in PACKAGES if not program(name)]
    wanted = [PACKAGES[name] for name in lacking]
    wanted += [package for name, package in EXTRA.items() if not shutil.which(name)]
    if "browser" in lacking:
        wanted += FONTS
    if os.geteuid() == 0:
        wanted += [package for name, package in ENGINE.items() if not shutil.which(name)]
        wanted += [one for name, some in NFS.items() if not shutil.which(name) for one in some]
    if wanted:
        install(wanted)
    missing = {
        name: f"there is no {PACKAGES[name]}, and only root on Debian or Ubuntu gets it from here"
        for name in PACKAGES
        if not program(name)
    }
    if os.geteuid() != 0:
        missing["root"] = missing["deploy"] = "not started as root"
    elif lacking := [name for name in ENGINE if not shutil.which(name)]:
        missing["deploy"] = f"there is no {', '.join(lacking)}"
    if not works(["nvidia-smi", "-L"]):
        missing["gpu"] = "no NVIDIA GPU"
    if why := Cluster.lacks():
        missing["cluster"] = why
    return missing


def program(name: str) -> Path | None:
    if name == "postgres":
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        return found[-1] if found else path_of("initdb")
    if name == "redis":
        return path_of("redis-server")
    return path_of("chromium") or path_of("chromium-browser") or path_of("google-chrome")


def path_of(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def install(packages: list[str]) -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"  not here, and not installed (that needs root on Debian): {', '.join(packages)}")
        return
    try:
        with step(f"Installing from Debian: {', '.join(packages)}"):
            install_debian(packages)
    except SetupError as error:
        say(f"  could not be installed, so its tests are left out: {error}")


# --- Notebook environments -------------------------------------------------------------------


def notebook_environments() -> None:
    """JupyterLab as workspaces get it, and two older jupyterhub-singleusers for the contract.

    Workspaces of other system users read them: in a checkout that is closed to others they go
    to a place of their own.
    """
    if os.geteuid() == 0 and not open_to_all(ROOT):
        ELSEWHERE.mkdir(parents=True, exist_ok=True)
        ELSEWHERE.chmod(0o755)
        os.environ["BERTH_ENVIRONMENTS_DIR"] = os.environ["BERTH_TEST_ENVS"] = str(ELSEWHERE)
    base, uv = base_python(), find_uv(TOOLS)
    for name in (
        "jupyterlab",
        "stores",
        "gsutil",
        "image-analysis",
        "serving-samples",
        "mlflow",
        *SINGLEUSERS,
    ):
        notebook_environment(base, uv, name)
    dataplane_environment(base, uv)
    serving_environment(base, uv)
    if os.geteuid() == 0:  # a start as root is tested with what `make run` would use
        environment("portal", SERVER_VENV, LOCKS / "server.txt", base, uv)


def open_to_all(folder: Path) -> bool:
    """Whether any user may pass through ``folder`` and all above it."""
    return all(p.stat().st_mode & stat.S_IXOTH for p in (folder, *folder.parents))


# --- Servers -----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SetupError(
                f"A server for the tests ended at its start:\n{log.read_text()[-2000:]}"
            )
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SetupError(f"A test server does not answer:\n{log.read_text()[-2000:]}")


@dataclass
class Services:
    """The throwaway PostgreSQL and Redis."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="berth-services-")))
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, missing: dict[str, str]) -> dict[str, str]:
        self.folder.chmod(0o755)  # PostgreSQL runs as somebody else
        env = {}
        if "postgres" not in missing:
            with step("Starting a PostgreSQL for the tests"):
                env["BERTH_TEST_POSTGRES"] = self.postgres(self.folder / "postgres")
        if "redis" not in missing:
            with step("Starting a Redis for the tests"):
                env["BERTH_TEST_REDIS"] = self.redis(self.folder / "redis")
        return env

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()  # PostgreSQL: waits for sessions; tests have none left
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def postgres(self, folder: Path) -> str:
        folder.mkdir()
        user = postgres_user()
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        initdb = program("postgres")
        if initdb is None:
            raise SetupError("initdb is not there.")
        data, port = folder / "data", free_port()
        who: dict[str, Any] = {}
        if user:
            who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        subprocess.run(
            [initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **who,
        )
        options = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            # Lost with the folder anyway: no need to wait for the disk.
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": 200,
        }
        command = [str(initdb.with_name("postgres")), "-D", str(data)]
        command += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        log = folder / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **who
            )
        self.processes.append(process)
        wait_for(port, process, log)
        return f"postgres://postgres@127.0.0.1:{port}/postgres"

    def redis(self, folder: Path) -> str:
        folder.mkdir()
        port, log = free_port(), folder / "server.log"
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(folder)]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder
            )
        self.processes.append(process)
        wait_for(port, process, log)
        return f"redis://127.0.0.1:{port}/0"


def postgres_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; its Debian package brings a user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
