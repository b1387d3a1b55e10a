"""OpenSSH's own server on loopback: whoever has the key may run git there."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")


@dataclass(frozen=True)
class SshServed:
    folder: Path
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def private_key(self) -> str:
        return (self.folder / "key").read_text()

    @property
    def host_key(self) -> str:
        return (self.folder / "host.pub").read_text()

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def code(self, tree: Path, ref: str = "main") -> str:
        return f"git+ssh://{getpass.getuser()}@{self.host}{tree}@{ref}"


def key_made(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


@contextmanager
def git_over_ssh(folder: Path) -> Iterator[SshServed]:
    served = SshServed(folder, free_port())
    for name in ("host", "key"):
        key_made(folder / name)
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    said = {
        "AuthorizedKeysFile": folder / "authorized",
        "HostKey": folder / "host",
        "ListenAddress": f"127.0.0.1:{served.port}",
        "LogLevel": "VERBOSE",
        "PasswordAuthentication": "no",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
    }
    (folder / "config").write_text("".join(f"{name} {value}\n" for name, value in said.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it gives up its rights
    words = [str(SSHD), "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
    with subprocess.Popen(words) as server:
        try:
            deadline = time.monotonic() + 10
            while "Server listening" not in served.log and time.monotonic() < deadline:
                time.sleep(0.02)
            yield served
        finally:
            server.terminate()
