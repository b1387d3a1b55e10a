"""A whole portal as its user starts it: ``berth up`` in a folder of its own, on free ports.

Used by the browser tests and the benchmarks. Everything it starts ends with ``close``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.django_shell import DjangoShell
from tests.support.migrated import head_start
from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
UP_WITHIN_S = 240.0


class Portal:
    """One running portal. ``env`` overrides settings by their BERTH_ names."""

    def __init__(self, env: dict[str, str] | None = None, var: Path | None = None) -> None:
        self.tree = ROOT  # the sources that it runs from
        self.is_temporary = var is None
        self.var = var or Path(tempfile.mkdtemp(prefix="berth-portal-"))
        self.var.chmod(0o755)
        self.port = free_ports(8)
        self.url = f"http://localhost:{self.port}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))},
            "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
            "BERTH_VAR": str(self.var),
            "BERTH_PORT": str(self.port),
            "BERTH_ENVIRONMENTS_DIR": str(environments()),
            **(env or {}),
        }
        self.log = self.var / "up.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._shell: DjangoShell | None = None

    def start(self) -> Portal:
        """``berth up``, which prepares the database and seeds it; return when it answers."""
        if "BERTH_DATABASE_URL" not in self.env:
            head_start(self.var / "berth.sqlite3", self.env["DJANGO_SETTINGS_MODULE"])
        self.up()
        return self

    def up(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "portal.server", "up"],
                cwd=self.tree,
                env=self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                message = f"berth up ended with {self.process.returncode}:\n{self.tail()}"
                raise RuntimeError(message)
            try:
                if httpx.get(f"{self.url}/readyz", timeout=30).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        message = f"the portal was not ready after {UP_WITHIN_S:.0f} s:\n{self.tail()}"
        raise RuntimeError(message)

    def down(self, sig: int = signal.SIGTERM) -> int:
        """End ``berth up`` as Ctrl-C does; workspaces stay."""
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(sig)
        return self.process.wait(timeout=120)

    def close(self) -> None:
        """End everything, workspaces included."""
        self._end_shell()
        self.down()
        subprocess.run(
            [sys.executable, "-m", "portal.server", "down", "--workspaces"],
            cwd=self.tree,
            env=self.env,
            timeout=120,
            check=False,
            capture_output=True,
        )
        if self.is_temporary:
            shutil.rmtree(self.var, ignore_errors=True)

    def manage(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *args],
            cwd=self.tree,
            env=self.env,
            timeout=180,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            message = f"manage.py {' '.join(args)} failed:\n{done.stdout}\n{done.stderr}"
            raise RuntimeError(message)
        return done.stdout

    def shell(self, code: str) -> Any:
        """Run ``code`` in Django; what it assigns to ``answer`` comes back as JSON."""
        if self._shell is not None and (self._shell.env != self.env or self._shell.has_ended()):
            self._end_shell()
        if self._shell is None:
            self._shell = DjangoShell(self.env, self.var / "shell.log")
        return self._shell.run(code)

    def _end_shell(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.close()

    def token(self, username: str) -> str:
        """Return an API token of a user, made in the database."""
        return str(
            self.shell(
                "from accounts.models import User; from accounts.principal import Principal\n"
                "from accounts.services.tokens import token_create\n"
                f"user = User.objects.get(username={username!r})\n"
                "answer = token_create(who=Principal(user=user), name='tests')[1]"
            )
        )

    def api(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    def workspace_get(self, address: str, path: str = "api") -> httpx.Response:
        """GET through the proxy; glibc does not resolve *.nb.localhost, so send the Host."""
        url = httpx.URL(address).join(path)
        return httpx.get(
            url.copy_with(host="127.0.0.1"), headers={"Host": url.netloc.decode()}, timeout=60
        )

    def tail(self, lines: int = 60) -> str:
        texts = [self.log, *sorted((self.var / "log").glob("*.log"))]
        return "\n".join(
            f"--- {p.name}\n" + "\n".join(p.read_text(errors="replace").splitlines()[-lines:])
            for p in texts
            if p.exists()
        )


# What the command line of each process has in it.
PARTS = {
    "web": "portal.server.web",
    "worker": "portal.server.worker",
    "proxy": "berth-proxy.mjs",
    "gateway": "serving.gateway",
    "supervisor": "drivers.local.supervisor",
    "haproxy": "haproxy",
}


def parts(portal: Portal, name: str) -> list[int]:
    """Return the numbers of such processes of this portal, the newest last."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            variables = (entry / "environ").read_bytes().decode(errors="replace")
            folder = (entry / "cwd").readlink()
            state, *more = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        is_ours = f"BERTH_VAR={portal.var}" in variables or folder.is_relative_to(portal.var)
        if state != "Z" and PARTS[name] in words and is_ours:
            found.append((int(more[18]), int(entry.name)))  # when it began
    return [pid for _began, pid in sorted(found)]


def environments() -> Path:
    """Return where the notebook environments are (made by ``make run`` or ``make test``)."""
    given = os.environ.get("BERTH_ENVIRONMENTS_DIR")
    return Path(given) if given else ROOT / "var" / "environments"
