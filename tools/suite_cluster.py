"""What Go builds for the tests, and the cluster: made while the tests that need neither go on.

A cold machine compiles for half an hour.  The programs are built in the order in which tests wait
for them, and the tests learn by one word in a file how far it is (``tests/support/lanes.py`` waits
for it); what is said meanwhile appears between their lines.
"""

import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tools.setup_shell import say
from tools.setup_steps import ROOT

NO_CLUSTER = 3  # what `devcluster status` answers then
# In this order: pods run; stores are built; the fleet, the queue and the metrics answer too.
COMING, PODS, STORES_BUILT, WHOLE, ENDED = "coming", "pods", "stores", "whole", "ended"
STORES = ("versitygw", "fake-gcs-server")
# Needed by tests of the chart, of the Gateway router and of snapshots, all of them `long`.
LATE = ("helm", "traefik", "csi-directory", "external-provisioner", "external-snapshotter")
# What is built takes minutes more: ``make test`` has those that were built here once.
OPERATORS = ("training", "katib", "kserve")


class Cluster:
    """Brought up for the tests unless it is up, and then left as it was."""

    def __init__(
        self,
        folder: Path,
        missing: dict[str, str],
        late: tuple[str, ...] = (),
        operators: tuple[str, ...] = (),
    ) -> None:
        self.word = folder / "cluster"
        self.tell(COMING)
        self.late = late
        self.operators = operators
        self.wanted = "cluster" not in missing and not os.environ.get("BERTH_TEST_CLUSTER")
        self.started = False
        self.broken = False  # a machine that could have one and has none fails the run at its end
        self.leaving = False
        self.compiling_s = 0.0  # CPU seconds
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
            needs_making = self.wanted and (state := verb("status"))
            if needs_making:
                self.started = state == NO_CLUSTER  # a broken one is repaired, and stays
                self.broken = self.call("up", "pods") != 0
            if not self.broken:
                self.tell(PODS)
            self.call("build", *STORES)
            if not self.broken:
                self.tell(STORES_BUILT)
            if needs_making and not self.broken:
                self.broken = any(self.call(word) != 0 for word in ("up", *self.operators))
            self.tell(ENDED if self.broken else WHOLE)
            if self.late:
                self.call("build", *self.late)
        finally:
            if self.word.read_text() != WHOLE:
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
        before = children_cpu_s()
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
        self.compiling_s += children_cpu_s() - before
        return self.child.returncode

    def tell(self, word: str) -> None:
        fresh = self.word.with_suffix(".new")
        fresh.write_text(word)
        fresh.replace(self.word)


def children_cpu_s() -> float:
    """CPU seconds of what this process started and has waited for: the compiler, as it ends."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
