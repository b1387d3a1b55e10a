"""Waking: what sleeps answers a request; beside the start of its bare process.

A real portal with its gateway on this machine, and a server of one's own that is ready as soon as
Python is. What is measured is how much longer the caller waits than the process takes. As root,
portal and process alike are first in line for a core, as if nothing else ran on the machine.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from typing import Any

import psutil

from benchmarks.lib import Result, poll, sized
from tests.support.portal import Portal
from tests.support.ports import free_port

ROUNDS = sized(9, 1)
GATEWAY = 7  # behind the portal's port
SERVER = """
import http.server, os
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answers).serve_forever()
"""
SLEEPS = """
from datetime import timedelta
from common.clock import now
from serving.models import Endpoint
long_ago = now() - timedelta(hours=1)
Endpoint.objects.filter(short_id={id!r}).update(ready_at=long_ago, called_at=long_ago)
answer = 1
"""


def answer_of(port: int, path: str, key: str = "") -> bytes:
    """Its first line; nothing where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
            one.sendall(head.encode())
            return one.recv(4096).partition(b"\r\n")[0]
    except OSError:
        return b""


def bare() -> float:
    """Seconds until the process alone answers."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], env={**os.environ, "PORT": str(port)}
    )
    try:
        poll(lambda: b" 200 " in answer_of(port, "/"), within_s=60, every_s=0.002)
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()


def first_in_line(portal: Portal) -> str:
    """Have these processes, and what they start from now on, wait for no other; say whether."""
    if os.geteuid() != 0:
        return ""
    var = str(portal.var)
    for process in psutil.process_iter(["environ"]):
        is_its = (process.info["environ"] or {}).get("BERTH_VAR") == var
        if is_its or process.pid == os.getpid():
            for thread in process.threads():
                os.sched_setscheduler(thread.id, os.SCHED_RR, os.sched_param(1))
    return ", first in line for a core"


def run() -> list[Result]:
    portal = Portal().start()
    try:
        with portal.api(portal.token("admin")) as api:
            said = {"name": "quick", "command": [sys.executable, "-c", SERVER]}
            size = {"cpu_milli": 500, "memory_mib": 512, "sleep_after_minutes": 1}
            made = api.post("projects/demo/endpoints", json={**said, **size}).json()
            at = f"projects/demo/endpoints/{made['id']}"

            def state() -> Any:
                return api.get(at).json()["status"]["state"]

            key = api.post(f"{at}/keys", json={"name": "bench"}).json()["key"]
            ask = (portal.port + GATEWAY, "/e/demo/quick/", key)
            poll(lambda: b" 200 " in answer_of(*ask), within_s=120, every_s=0.5)
            over, line = list[float](), first_in_line(portal)
            for _ in range(ROUNDS):
                portal.shell(SLEEPS.format(id=made["id"]))
                poll(lambda: state() == "asleep", within_s=120, every_s=0.2)
                time.sleep(2)  # until the gateway has heard of it, and what stopped it has ended
                began = time.perf_counter()
                told = answer_of(*ask)
                took = time.perf_counter() - began
                if b" 200 " not in told:
                    raise RuntimeError(f"It was answered {told!r}.")
                alone = bare()
                over.append(took - alone)
                print(f"woken: {took:.3f} s, the process alone: {alone:.3f} s", flush=True)
            api.delete(at)
    finally:
        portal.close()
    return [
        Result("gateway-wakes", "s", over, goal=0.3, floor=0.6, note=f"over a bare process{line}")
    ]
