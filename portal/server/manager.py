"""Every port of a portal on one machine, and how the manager takes them all before a start.

A workspace on this machine may listen on any port that is free, and browsers send it the portal's
cookies when a page leads them there: cookies ignore ports. So each port that a page may ever name
is ours before the first workspace runs, whether or not something serves there yet.
"""

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.server.paths import ROOT, Refusal
from portal.server.processes import Child, Standby, rotate

BACKLOG = 1024


@dataclass(frozen=True)
class Listener:
    """One port; ``is_open``: people reach it, the rest is for our own processes and workloads."""

    name: str  # in the plan
    setting: str
    is_open: bool = False


LISTENERS = (
    Listener("web", "BERTH_PORT", is_open=True),
    Listener("proxy", "BERTH_PROXY_PORT", is_open=True),
    Listener("internal", "BERTH_INTERNAL_PORT"),
    Listener("proxy_api", "BERTH_PROXY_API_PORT"),
    Listener("gate", "BERTH_GATE_PORT", is_open=True),
    Listener("ssh", "BERTH_SSH_PORT", is_open=True),  # 0: none
    Listener("gate_internal", "BERTH_GATE_INTERNAL_PORT"),
    Listener("gateway", "BERTH_GATEWAY_PORT", is_open=True),
)
# `localhost` is both, and browsers try the second one first. Of what we do not serve the port is
# still ours: who asks there is refused at once, and asks the other.
OTHER_FAMILY = {"127.0.0.1": "::1", "0.0.0.0": "::", "::1": "127.0.0.1"}  # noqa: S104 - a name


def bind_all(plan: Mapping[str, Any]) -> tuple[dict[str, socket.socket], list[socket.socket]]:
    """Return what listens, by name, and what is only kept from others. A busy port is a Refusal."""
    found: dict[str, socket.socket] = {}
    kept: list[socket.socket] = []
    for one in LISTENERS:
        port = plan["ports"][one.name]
        if not port:
            continue
        address = plan["bind"] if one.is_open else "127.0.0.1"
        found[one.name] = _listening(one, address, port)
        if one.is_open and address in OTHER_FAMILY:
            kept += _kept(one, OTHER_FAMILY[address], port)
        if one.name == "internal" and plan["internal_bind"] not in {"127.0.0.1", "localhost"}:
            # besides loopback: where workloads of a cluster reach the Hub's API
            found["hub"] = _listening(one, plan["internal_bind"], port)
    return found, kept


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens there; OSError where that can't be."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _listening(one: Listener, address: str, port: int) -> socket.socket:
    try:
        return listen(address, port)
    except OSError as error:
        raise _busy(one, address, port, error) from error


def _kept(one: Listener, address: str, port: int) -> list[socket.socket]:
    """Bound and never listened on, so without SO_REUSEADDR: others might share it else."""
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        return []  # this machine has no such family
    try:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise _busy(one, address, port, error) from error
        return []  # nor such an address
    return [sock]


def _busy(one: Listener, address: str, port: int, error: OSError) -> Refusal:
    return Refusal(
        f"Port {port} of {address} can't be used: {(error.strerror or str(error)).lower()}."
        f" End what uses it, or choose another: {one.setting}={port + 1000} make run"
        + (" (the other seven ports follow it)" if one.name == "web" else "")
    )


# Keeps the portal's processes running until it is told to stop; sleeps when nothing happens.


QUICK_ENDS_TOLD = 3
ROTATE_EVERY_S = 60.0
WITHOUT_PIDFD_S = 0.5


def say(text: str) -> None:
    print(text, flush=True)


class Manager:
    """Starts ``children`` in order and restarts each that ends; ``run`` returns after a signal.

    ``until``: when this child ends, everything does, with its exit code.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        logs: Path | None = None,
        until: Child | None = None,
        standby: Sequence[Standby] = (),
    ) -> None:
        self.children = list(children)
        self.standby = list(standby)
        self.logs = logs
        self.until = until
        self.code = 0
        self.stopping = False
        self._on_ready: Callable[[], None] | None = None
        self._ready_port = 0
        self._asking: socket.socket | None = None
        self._poll = select.poll()
        self._watched: dict[int, Child] = {}
        self._rotate_at = 0.0
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def when_ready(self, port: int, then: Callable[[], None]) -> None:
        """Calls ``then`` once something answers HTTP on a loopback port."""
        self._ready_port, self._on_ready = port, then

    def run(self) -> int:
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._told_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes the poll
        self._poll.register(self._wake_r, select.POLLIN)
        for child in filter(self._running, self.children):
            self._watch(child)
        while not self.stopping:
            self._tend()
            if not self.stopping:
                self._sleep()
        self._stop_all()
        return self.code

    def _told_to_stop(self, *_: object) -> None:
        self.stopping = True

    # --- one round -----------------------------------------------------------------------------

    def _tend(self) -> None:
        now = time.monotonic()
        for one in self.standby:
            new, old = one.tend(now)
            if new is not None:
                self.children.append(new)
            if old is not None:
                self.children.remove(old)
        # First the one that all ends with: nothing that ended with it is started again.
        for child in sorted(self.children, key=lambda one: one is not self.until):
            if child.started_at and not child.due_at and not child.alive:
                self._after_end(child, now)
            if not self.stopping and child.due_at <= now and not self._running(child):
                self._start(child)
        if self._on_ready and self._asking is None:
            self._ask()
        if self.logs and now >= self._rotate_at:
            self._rotate_at = now + ROTATE_EVERY_S
            for log in self.logs.glob("*.log"):
                rotate(log)

    def _running(self, child: Child) -> bool:
        return bool(child.started_at) and not child.due_at

    def _start(self, child: Child) -> None:
        child.due_at = 0.0
        try:
            child.start(ROOT)
        except (OSError, subprocess.SubprocessError) as error:
            say(f"{child.name} can't be started: {error}")
            child.started_at = time.monotonic()
            return
        self._watch(child)

    def _watch(self, child: Child) -> None:
        number = getattr(child, "number", 0) or (child.process.pid if child.process else 0)
        try:
            fd = os.pidfd_open(number)
        except (OSError, AttributeError):
            return  # an old kernel: _sleep looks twice a second instead
        self._watched[fd] = child
        self._poll.register(fd, select.POLLIN)

    def _after_end(self, child: Child, now: float) -> None:
        code = child.process.returncode if child.process else None
        if child is self.until:
            self.code = code if code is not None and code >= 0 else 1
            self.stopping = True
        if self.stopping:
            return
        quick = child.ended(now)
        how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
        pause = max(0.0, child.due_at - now)
        say(
            f"{child.name} ended ({how}); starting it again"
            + (f" in {pause:.0f} s" if pause >= 1 else "")
        )
        if quick == QUICK_ENDS_TOLD:
            indented = "\n".join("    " + line for line in child.tail().splitlines())
            print(
                f"{child.name} ended {quick} times soon after its start. Its last lines in"
                f" {child.log}:\n{indented}",
                file=sys.stderr,
                flush=True,
            )

    def _sleep(self) -> None:
        for fd, _ in self._poll.poll(self._timeout_ms()):
            if fd == self._wake_r:
                os.read(self._wake_r, 512)
            elif fd in self._watched:
                self._poll.unregister(fd)
                os.close(fd)
                del self._watched[fd]
            elif self._asking and fd == self._asking.fileno():
                self._answered()

    def _timeout_ms(self) -> int:
        now = time.monotonic()
        due = [child.due_at for child in self.children if child.due_at]
        if self.logs:
            due.append(self._rotate_at)
        due += [one.look_at for one in self.standby]
        if self._on_ready and self._asking is None:
            due.append(now + 0.1)
        watched = {id(child) for child in self._watched.values()}
        if any(self._running(child) and id(child) not in watched for child in self.children):
            due.append(now + WITHOUT_PIDFD_S)
        return max(0, int((min(due) - now) * 1000) + 1) if due else -1

    # --- the first answer ------------------------------------------------------------------------

    def _ask(self) -> None:
        """The manager holds the listening socket, so this waits in its queue until web answers."""
        try:
            self._asking = socket.create_connection(("127.0.0.1", self._ready_port), timeout=2)
            self._asking.sendall(b"GET /hub/api HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        except OSError:
            self._asking = None
            return
        self._poll.register(self._asking.fileno(), select.POLLIN)

    def _answered(self) -> None:
        if self._asking is None:
            return
        self._poll.unregister(self._asking.fileno())
        try:
            answer = self._asking.recv(16)
        except OSError:
            answer = b""
        self._asking.close()
        self._asking = None
        status = answer[9:10]  # of "HTTP/1.1 200"; 5xx: it answers, but does not work
        if answer.startswith(b"HTTP/") and status < b"5" and self._on_ready:
            then, self._on_ready = self._on_ready, None
            then()

    # --- the end ---------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        """At once: who waits for all of it does not wait for the sum of their graces.

        Only the proxy comes after the others: it ends at once, and all connections with it.
        """
        left = [old for one in self.standby for old in one.leaving]
        for is_last in (False, True):
            asked = [child for child in self.children if child.is_last == is_last]
            for child in reversed(asked):
                child.ask_to_end()
            for child in (*asked, *left):
                child.wait_ended()
