"""What Go builds for the tests, and the cluster: made while the tests that need neither go on.

A cold machine compiles for half an hour.  The tests learn by one word in a file how far it is
(``tests/support/lanes.py`` waits for it); what is said meanwhile appears between their lines.
"""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tools.setup_shell import say
from tools.setup_steps import ROOT

NO_CLUSTER = 3  # what `devcluster status` answers then
COMING, UP, ENDED = "coming", "up", "ended"
STORES = ("versitygw", "fake-gcs-server")
# Needed by tests of the chart, of the Gateway router and of snapshots, late in the cluster's lane.
LATE = ("helm", "traefik", "csi-directory", "external-provisioner", "external-snapshotter")


class Cluster:
    """Brought up for the tests unless it is up, and then left as it was."""

    def __init__(self, folder: Path, missing: dict[str, str]) -> None:
        self.word = folder / "cluster"
        self.tell(COMING)
        self.wanted = "cluster" not in missing and not os.environ.get("BERTH_TEST_CLUSTER")
        self.started = False
        self.broken = False  # a machine that could have one and has none fails the run at its end
        self.leaving = False
        self.child: subprocess.Popen[str] | None = None
        self.thread = threading.Thread(target=self.make, name="cluster")

    @staticmethod
    def lacks() -> str:
        if os.environ.get("BERTH_TEST_CLUSTER") or verb("status") == 0:
            return ""
        from devcluster import checks

        return " ".join(checks.lacks())

    def start(self) -> dict[str, str]:
        """Begins; answers what the tests' environment needs to know."""
        self.thread.start()
        return {"BERTH_TEST_CLUSTER_WORD": str(self.word)}

    def make(self) -> None:
        try:
            self.call("build", *STORES)
            if self.wanted and (state := verb("status")):
                self.started = state == NO_CLUSTER  # a broken one is repaired, and stays
                self.broken = self.call("up") != 0
            self.tell(ENDED if self.broken else UP)
            self.call("build", *LATE)
        finally:
            if self.word.read_text() == COMING:
                self.tell(ENDED)

    def stop(self) -> bool:
        """Whether all went well and nothing is left; a cluster that was there before stays."""
        self.leaving = True
        if self.child and self.thread.is_alive():
            end_all_of(self.child.pid)
        if self.thread.ident:
            self.thread.join()
        if not self.started:
            return not self.broken
        say("Taking down the cluster of the tests:")
        return verb("down", quiet=False) == 0 and not self.broken

    def call(self, *words: str) -> int:
        """Runs one command of the cluster's; its lines are shown as they come."""
        if self.leaving:
            return 1
        with subprocess.Popen(
            command_of(*words),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what it started can be ended with it
        ) as self.child:
            for line in self.child.stdout or ():
                if line.strip():
                    say(f"[cluster] {line.rstrip()}")
        return self.child.returncode

    def tell(self, word: str) -> None:
        fresh = self.word.with_suffix(".new")
        fresh.write_text(word)
        fresh.replace(self.word)


def command_of(*words: str) -> list[str]:
    return [sys.executable, "-u", "-m", "devcluster", *words]


def end_all_of(session: int) -> None:
    """A compiler goes on without the one who called it, for minutes and with both cores."""
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGTERM)


def verb(name: str, *, quiet: bool = True) -> int:
    out = subprocess.DEVNULL if quiet else None
    return subprocess.run(
        command_of(name), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, check=False
    ).returncode
