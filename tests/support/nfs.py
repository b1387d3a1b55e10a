"""A real NFS server on loopback (NFS-Ganesha) and a client that needs no kernel (libnfs)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.drivers.local.harness import wait_for
from tests.support.ports import free_port

EXPORT = "/vols"
SERVER = "127.0.0.1"
NOBODY_ELSE = 2000
_CONFIG = """
NFS_CORE_PARAM {{
  NFS_Protocols = 4; NFS_Port = {port}; Bind_addr = {host};
  Enable_NLM = false; Enable_RQUOTA = false;
}}
NFSv4 {{
  Graceless = true; RecoveryBackend = fs; RecoveryRoot = {recovery};
  Minor_Versions = 0, 1; Only_Numeric_Owners = true;
}}
EXPORT {{
  Export_Id = 1; Path = {top}; Pseudo = {export};
  Access_Type = RW; Squash = root_squash; SecType = sys; Protocols = 4; Transports = TCP;
  Attr_Expiration_Time = 0;  # the tests also work on the folder behind the server
  FSAL {{ Name = VFS; }}
}}
"""


def lacks() -> str:
    """Say why there can be no server here, "" when there can."""
    if os.geteuid() != 0:
        return "only root may serve files over NFS"
    missing = [name for name in ("ganesha.nfsd", "nfs-ls") if not shutil.which(name)]
    return f"there is no {', '.join(missing)} (make test installs it on Debian)" if missing else ""


def kernel_lacks() -> str:
    """Say why the kernel can mount no NFS, "" when it can."""
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "-q", "nfs"], check=False, capture_output=True)
    if "nfs4" in Path("/proc/filesystems").read_text().split():
        return "" if shutil.which("mount.nfs4") else "there is no mount.nfs4"
    return "the kernel of this machine has no NFS client"


class RefusedError(Exception):
    """What the client said when the server did not do it."""


class NfsServer:
    """Exports one folder, whose top belongs to ``user``, with root squashed."""

    def __init__(self, user: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="berth-nfs-", dir="/var/lib"))
        self.folder.chmod(0o711)
        self.top, recovery = self.folder / "top", self.folder / "recovery"
        for folder in (self.top, recovery):
            folder.mkdir(mode=0o711)
        os.chown(self.top, user, user)
        self.log = self.folder / "server.log"
        self.port = free_port(SERVER)
        config = self.folder / "ganesha.conf"
        config.write_text(
            _CONFIG.format(
                port=self.port, host=SERVER, recovery=recovery, top=self.top, export=EXPORT
            )
        )
        pid = self.folder / "pid"
        self.process = subprocess.Popen(
            ["ganesha.nfsd", "-F", "-f", config, "-L", self.log, "-p", pid, "-N", "NIV_EVENT"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._serves, seconds=120, every=0.1)

    def _serves(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"the NFS server ended:\n{self.log.read_text()[-2000:]}")
        return "NFS SERVER INITIALIZED" in (self.log.read_text() if self.log.exists() else "")

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- the client --------------------------------------------------------------------------
    def url(self, path: str, user: int) -> str:
        """``path`` as a PersistentVolume names it: below the export."""
        return f"nfs://{SERVER}{path}?version=4&nfsport={self.port}&uid={user}&gid={user}"

    def names(self, path: str, user: int) -> list[str]:
        """Names in a folder."""
        said = self._run("nfs-ls", self.url(path, user))
        return [line.split(maxsplit=5)[-1] for line in said.splitlines() if line]

    def read(self, path: str, user: int) -> str:
        return self._run("nfs-cat", self.url(path, user))

    def write(self, path: str, text: str, user: int) -> None:
        source = self.folder / "to-write"
        source.write_text(text)
        self._run("nfs-cp", str(source), self.url(path, user))

    def _run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode or "Failed" in done.stderr + done.stdout:
            said = f"{done.stdout}{done.stderr}".strip()[-300:]
            raise RefusedError(said)
        return done.stdout


@contextmanager
def serving(user: int) -> Iterator[NfsServer]:
    """A server for one module of tests; a skip, with the reason, where it can't be."""
    if why := lacks():
        pytest.skip(why)
    made = NfsServer(user)
    try:
        yield made
    finally:
        made.close()
