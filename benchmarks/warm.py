"""The second ``make run``: seconds to a portal that answers."""

from __future__ import annotations

import os
import signal
import subprocess

import httpx

from benchmarks.lib import Result, poll, sized, timed
from tests.support.portal import ROOT, free_ports


def once() -> float:
    port = free_ports(8)
    # as a person has it: the settings of tests are not those of a portal
    usual = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    env = {**usual, "BERTH_PORT": str(port)}
    child: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        child.append(
            subprocess.Popen(
                ["make", "run"],
                cwd=ROOT,
                env=env,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        poll(lambda: _ready(port), within_s=120, every_s=0.05)

    try:
        return timed(start)
    finally:
        os.killpg(child[0].pid, signal.SIGTERM)
        child[0].wait(timeout=60)


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://localhost:{port}/readyz", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def run(rounds: int = sized(5, 1)) -> list[Result]:
    once()  # whatever was cold
    return [Result("make run, warm", "s", [once() for _ in range(rounds)], goal=10, floor=10)]
