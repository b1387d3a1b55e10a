"""Berth as it was, and Berth as it is: processes of two versions on one database and broker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.server import installation
from tests.support.portal import ROOT
from tests.support.ports import free_ports

# The last version before data (loads, kinds of credentials, volumes that people make), so that most
# tables and columns were added or moved since; notebooks and containers run by the same driver
# protocol, on the same packages. The portal stops on the way from it to the table of all work.
OLD = "e61e413a3af11c789b444b7f5b0b40927d6da0eb"
WITHIN_S = 180.0  # a busy machine with several lanes
PASSWORD = "a password that the operator chose"


def older(folder: Path) -> Path:
    """Unpack the older version into ``folder``; a skip where there is no history to take it from."""
    if shutil.which("git") is None:
        pytest.skip("no git to take an older version from")
    made = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", OLD],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        why = made.stderr.decode(errors="replace").strip().splitlines()[-1:]
        pytest.skip(f"no history with {OLD[:12]} here (a shallow clone, or none): {''.join(why)}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
    # as in an image of its time: what npm brought, which both versions pin alike
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    return folder


class Mixed:
    """One installation whose processes are each of one of two versions."""

    def __init__(self, old: Path, folder: Path, env: Mapping[str, str]) -> None:
        self.trees = {"old": old, "new": ROOT}
        self.folder = folder
        base = free_ports(16)
        self.ports = {"old": base, "new": base + 8}
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
        self.env = {
            **plain,
            **installation.made(),
            "BERTH_ADMIN_PASSWORD": PASSWORD,
            "BERTH_PUBLIC_URL": f"http://localhost:{self.ports['new']}",
            **env,
        }
        self.running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    # --- Processes ----------------------------------------------------------------------------------
    def _env(self, version: str, process: str) -> dict[str, str]:
        """As containers have it: a scratch folder and listeners of its own."""
        return {
            **self.env,
            "BERTH_VAR": str(self.folder / f"{version}-{process}"),
            "BERTH_PORT": str(self.ports[version]),
            "BERTH_HEALTH_PORT": str(self.ports[version] + 7),
        }

    def start(self, version: str, process: str) -> None:
        with self.log(version, process).open("ab") as log:
            self.running[version, process] = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "portal.server", "serve", process],
                cwd=self.trees[version],
                env=self._env(version, process),
                stdout=log,
                stderr=log,
            )
        self.wait_ready(version, process)

    def wait_ready(self, version: str, process: str) -> None:
        ready = {"web": 0, "worker": 7}[process] + self.ports[version]
        self.until(lambda: answers(f"http://127.0.0.1:{ready}/readyz"), f"{version} {process}")

    def run_only(self, *wanted: tuple[str, str]) -> None:
        """Stop the others, start those that do not run: an earlier try may have left any of them."""
        for one in [one for one in self.running if one not in wanted]:
            self.stop(*one)
        for one in wanted:
            if one in self.running:
                self.wait_ready(*one)
            else:
                self.start(*one)

    def log(self, version: str, process: str) -> Path:
        return self.folder / f"{version}-{process}.log"

    def stop(self, version: str, process: str) -> None:
        """As an orchestrator does it: it drains and ends."""
        one = self.running.pop((version, process))
        one.terminate()
        assert one.wait(WITHIN_S) == 0, self.tail()

    def close(self) -> None:
        for one in self.running.values():
            one.kill()
            one.wait()

    def manage(self, version: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "ignore", *words],
            cwd=self.trees[version],
            env={**self._env(version, "manage"), "DJANGO_SETTINGS_MODULE": "portal.settings.prod"},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def migrate(self, version: str) -> subprocess.CompletedProcess[str]:
        return self.manage(version, "-m", "portal.server", "serve", "migrate")

    def shell(self, version: str, code: str) -> Any:
        """Run ``code`` in Django; what it assigns to ``answer`` comes back."""
        done = self.manage(
            version, "manage.py", "shell", "-c", f"{code}\nimport json\nprint(json.dumps(answer))"
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    # --- People -------------------------------------------------------------------------------------
    def token(self, version: str) -> str:
        return str(
            self.shell(
                version,
                "from accounts.models import User; from accounts.principal import Principal\n"
                "from accounts.services.tokens import token_create\n"
                "user = User.objects.get(username='admin')\n"
                "answer = token_create(who=Principal(user=user), name='tests')[1]",
            )
        )

    def api(self, version: str, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://localhost:{self.ports[version]}/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )

    # --- Waiting ------------------------------------------------------------------------------------
    def until(self, look: Any, what: str) -> Any:
        end = time.monotonic() + WITHIN_S
        while not (found := look()):
            ended = [name for name, one in self.running.items() if one.poll() is not None]
            for name in ended:  # told once: a second try starts it again
                del self.running[name]
            assert not ended, f"{ended} ended\n{self.tail()}"
            assert time.monotonic() < end, f"{what} took too long\n{self.tail()}"
            time.sleep(0.05)
        return found

    def tail(self, lines: int = 25) -> str:
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-lines:])
            for log in sorted(self.folder.glob("*.log"))
        )


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=30, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
