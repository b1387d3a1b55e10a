"""Pages beside 3,000 event streams that never leave, against the same without them; their memory.

Each stream is a page's: its person, signed in, hears of themself and of a project. Who holds them
is a process of its own, which takes turns for the same cores; so does who asks for pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Self

import httpx

from benchmarks.idle import family
from benchmarks.lib import Result, percentile, sized
from tests.support.portal import ROOT, Portal

STREAMS = sized(3000, 20)
ROUNDS, PAGES = sized((3, 500), (1, 20))
EACH = 15  # of one person, of the sixteen that they may have
AT_ONCE = 20  # are being opened
HOLD_S = sized(30.0, 1.0)  # rechecks and heartbeats come twice and more in this time
AWAY_S = sized(25.0, 1.0)
PAGE = "/projects/"
_PEOPLE = f"""
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from accounts.models import User
from accounts.principal import Principal
from projects.models import Membership
from projects.services.life import project_create
people = [User.objects.create(username=f"p{{n}}", email=f"p{{n}}@example.org")
          for n in range(1 + {-(-STREAMS // EACH)})]
project = project_create(principal=Principal(user=people[0]), name="Crowd", slug="crowd")
Membership.objects.bulk_create(
    [Membership(project=project, user=user, role="member") for user in people[1:]])
answer = []
for user in people:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "allauth.account.auth_backends.AuthenticationBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    cookie = f"{{settings.SESSION_COOKIE_NAME}}={{session.session_key}}"
    answer.append([cookie, f"user:{{user.uid}},project:{{project.uid}}"])
"""


class Held:
    """The streams, in a process of their own until the end of the block."""

    def __init__(self, port: int, people: list[list[str]]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.streams", str(port), str(STREAMS)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(people) + "\n")
        self.process.stdin.flush()
        self._said: IO[str] = self.process.stdout

    def __enter__(self) -> Self:
        if (said := self._said.readline().strip()) != str(STREAMS):
            message = f"{said or 'none'} of {STREAMS} streams are open"
            raise RuntimeError(message)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def run() -> list[Result]:
    portal = Portal({"BERTH_LOCAL_DRIVER": "fake", "BERTH_ROUTER": "fake"})
    alone: list[float] = []
    beside: list[float] = []
    each: list[float] = []
    kept: list[float] = []
    threads: list[int] = []
    try:
        portal.start()
        asking, *people = portal.shell(_PEOPLE)
        web = next(pid for pid in family(portal) if _is_web(pid))
        with httpx.Client(base_url=portal.url, headers={"Cookie": asking[0]}, timeout=60) as pages:
            p99(pages)
            with Held(portal.port, people):
                p99(pages)  # whatever was cold, in the streams too
            time.sleep(AWAY_S)
            for _ in range(ROUNDS):
                empty = _memory_kib(web)
                alone.append(p99(pages))
                with Held(portal.port, people):
                    until = time.monotonic() + HOLD_S
                    beside.append(p99(pages))
                    time.sleep(max(0.0, until - time.monotonic()))
                    each.append((_memory_kib(web) - empty) / STREAMS)
                    threads.append(len(os.listdir(f"/proc/{web}/task")))  # noqa: PTH208
                time.sleep(AWAY_S)
                kept.append(max(0.0, (_memory_kib(web) - empty) / 1024))
    finally:
        portal.close()
    what = f"{STREAMS:,} event streams"
    note = f"p99 of {PAGES} pages; {max(threads)} threads in the process"
    return [
        Result(
            f"a page beside {what}, p99", "ms", beside, alone, "without streams", 2, 2, note=note
        ),
        Result(f"{what}, memory of each", "KiB", each, goal=50, floor=50),
        Result(f"{what}, memory kept after they left", "MiB", kept, goal=20, floor=40),
    ]


def p99(pages: httpx.Client) -> float:
    took = []
    for _ in range(PAGES):
        begin = time.perf_counter()
        pages.get(PAGE).raise_for_status()
        took.append(1000 * (time.perf_counter() - begin))
    return percentile(took, 0.99)


def _is_web(pid: int) -> bool:
    return b"portal.server.web" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _memory_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def hold(port: int, count: int, people: list[list[str]]) -> None:
    """Open the streams, say how many, and read them until this process is killed."""
    turn, open_now = asyncio.Semaphore(AT_ONCE), 0
    reading: list[asyncio.Task[None]] = []

    async def one(cookie: str, topics: str) -> None:
        nonlocal open_now
        async with turn:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            path = f"/events/stream?topics={topics}&age=1"
            head = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookie}\r\n\r\n"
            writer.write(head.encode())
            status = await reader.readline()
            await reader.readuntil(b"event: hello")
            open_now += b" 200 " in status
        reading.append(asyncio.ensure_future(_drain(reader, writer)))

    await asyncio.gather(*(one(*people[n // EACH]) for n in range(count)))
    sys.stdout.write(f"{open_now}\n")
    sys.stdout.flush()
    await asyncio.gather(*reading)


async def _drain(reader: asyncio.StreamReader, writer: Any) -> None:
    with contextlib.closing(writer):
        while await reader.read(1024):
            pass


if __name__ == "__main__":
    asyncio.run(hold(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.stdin.readline())))
