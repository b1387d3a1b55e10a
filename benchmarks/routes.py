"""The notebook route: 500 routes, answers small and large, and 2,000 abandoned WebSockets.

The matrix is that of jupyterhub-traefik-proxy's own measurements. Whoever asks and whoever answers
are on the same cores as the proxies: what they take of them is said with each figure.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cpu import Cpu
from benchmarks.lib import Result, percentile, poll, sized
from benchmarks.routes_peers import ROUTES, Bare, Berth, Side, Static
from tests.proxy.crowd import HOSTS, Crowd, address

ADDS, ADDS_OF_TRAEFIK = sized((300, 5), (3, 1))
AT_ONCE = (1, 10, 50)
SOME = "first.nb.localhost"
FLOODED = "s{}.nb.localhost"
ROUNDS, ROUND_S = sized((5, 1.2), (1, 0.2))
SOCKETS, OTHERS, OTHERS_S, SETTLE_S = sized((2000, 5, 8.0, 2.0), (20, 1, 1.0, 0.5))
SLACK = 5  # of the API, and of those who asked last
ROUNDS_OF_SOCKETS, QUIET_S = sized((3, 60.0), (1, 1.0))
SIZES = {"/small": ("1 KiB", "answers/s", "answers_s"), "/large": ("10 MiB", "MiB/s", "mib_s")}
FLOODS = sized(100, 3)  # hosts with WebSockets
ADDED = "a{}.nb.localhost"


@dataclass
class Asked:
    """What one window of asking saw; shares are of one core."""

    said: dict[str, Any]
    proxy: float
    workloads: float

    @property
    def shares(self) -> str:
        asking = self.said["cpu"]
        return f"cores: proxy {self.proxy:.2f}, asking {asking:.2f}, workloads {self.workloads:.2f}"


def ask(side: Side, workloads: Crowd, at_once: int, path: str, seconds: float) -> Asked:
    cpu = Cpu({"proxy": [side.pid], "workloads": [workloads.process.pid]})
    hosts = (side.hosts, side.routes)
    with Crowd("load", side.port, at_once, seconds, path, *hosts) as crowd:
        said = json.loads(crowd.word)
    spent = cpu.spent()
    return Asked(said, spent["proxy"] / seconds, spent["workloads"] / seconds)


def matrix(
    sides: list[Side], asked: Callable[[Side, int, str], Asked]
) -> dict[tuple[str, int], dict[Side, list[Asked]]]:
    """Rounds alternate, and who is first in them."""
    seen: dict[tuple[str, int], dict[Side, list[Asked]]] = {
        (path, n): {side: [] for side in sides} for path in SIZES for n in AT_ONCE
    }
    for number in range(ROUNDS):
        turn = number % len(sides)
        for (path, at_once), of in seen.items():
            for side in [*sides[turn:], *sides[:turn]]:
                of[side].append(asked(side, at_once, path))
    return seen


def rows(
    what: str, seen: dict[tuple[str, int], dict[Side, list[Asked]]], goals: dict[Side, float]
) -> list[Result]:
    """``goals``: the peers, each with the ratio that is wanted; ours is the other side."""
    results = []
    for (path, at_once), of in seen.items():
        size, unit, field = SIZES[path]
        ours = next(asked for side, asked in of.items() if side not in goals)
        for peer, goal in goals.items():
            middle = ours[len(ours) // 2]
            p99 = statistics.median(one.said["p99_ms"] for one in ours)
            theirs = statistics.median(one.said["p99_ms"] for one in of[peer])
            results.append(
                Result(
                    f"{what}, {size}, {at_once} at once, against {peer.name}",
                    unit,
                    [one.said[field] for one in ours],
                    [one.said[field] for one in of[peer]],
                    peer.name,
                    goal,
                    goal,
                    "higher",
                    f"p99 {p99:.3g} ms against {theirs:.3g}; {middle.shares}; "
                    f"the peer's {of[peer][len(ours) // 2].shares}",
                )
            )
    return results


def usable(sides: list[Side], target: Callable[[int], str]) -> Result:
    took: dict[str, list[float]] = {}
    for side in sides:
        count = ADDS_OF_TRAEFIK if isinstance(side, Static) else ADDS
        took[side.name] = [
            1000 * side.usable(ADDED.format(number), target(number)) for number in range(count)
        ]
    ours = took.pop(Berth.name)
    peers = "; ".join(
        f"{name} {percentile(them, 0.99):.3g} ms (median {statistics.median(them):.3g},"
        f" {len(them)} adds)"
        for name, them in took.items()
    )
    middle = statistics.median(ours)
    return Result(
        f"notebook route usable after the request to add it, p99 of {ADDS}",
        "ms",
        [percentile(ours, 0.99)],
        goal=50,
        floor=50,
        note=f"median {middle:.3g} ms; p99 of {peers}",
    )


@dataclass
class Abandoned:
    before_ms: float
    during_ms: float
    before_mib: float
    during_mib: float
    left: int  # descriptors that did not come back
    closed: float
    shares: str


def abandon(side: Side, workloads: Crowd) -> Abandoned:
    """Nobody reads 2,000 sockets; half of their owners die while others are looked at."""
    before = ask(side, workloads, OTHERS, "/small", OTHERS_S)
    time.sleep(0.5)
    kept = int(workloads.word)
    mib, files = side.memory_mib(), side.files(kept)
    readers = ("readers", side.port, SOCKETS // 2, FLOODS, FLOODED)
    with Crowd(*readers), Crowd(*readers) as leaving:
        time.sleep(SETTLE_S)
        during_mib = side.memory_mib()
        death = threading.Timer(OTHERS_S / 2, leaving.end)
        death.start()
        during = ask(side, workloads, OTHERS, "/small", OTHERS_S)
        death.join()
    closed = time.monotonic()
    left = 0
    try:
        poll(lambda: side.files(kept) <= files + SLACK, within_s=15, every_s=0.2)
    except TimeoutError:
        left = side.files(kept) - files
    p99, p99_during = before.said["p99_ms"], during.said["p99_ms"]
    return Abandoned(p99, p99_during, mib, during_mib, left, closed, during.shares)


def sockets(ours: Side, peer: Side, workloads: Crowd) -> list[Result]:
    theirs = [abandon(peer, workloads)]
    mine = [abandon(ours, workloads) for _ in range(ROUNDS_OF_SOCKETS)]
    time.sleep(max(0.0, mine[-1].closed + QUIET_S - time.monotonic()))
    after, peers_after = ours.memory_mib(), peer.memory_mib()
    what = f"{SOCKETS:,} abandoned WebSockets"
    (they,) = theirs
    return [
        Result(
            f"{what}, p99 of others' answers",
            "ms",
            [one.during_ms for one in mine],
            [one.before_ms for one in mine],
            "the same proxy without them",
            1.1,
            1.1,
            note=f"{peer.name} {they.during_ms / they.before_ms:.2f} times; {mine[-1].shares}",
        ),
        Result(
            f"{what}, the proxy's memory {QUIET_S:.0f} s after they closed",
            "MiB",
            [after],
            [mine[0].before_mib],
            "before",
            1.1,
            1.1,
            note=f"meanwhile {max(one.during_mib for one in mine):.0f} MiB; {peer.name} "
            f"{they.before_mib:.0f}, {they.during_mib:.0f} and {peers_after:.0f} MiB",
        ),
        Result(
            f"{what}, connections of the proxy left behind",
            "",
            [float(one.left) for one in mine],
            goal=0,
            floor=0,
            note=f"{peer.name} {they.left}",
        ),
    ]


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        workloads = stack.enter_context(Crowd("workloads", ROUTES))

        def target(number: int) -> str:
            return f"http://{address(number % ROUTES)}:{workloads.word}"

        sides: list[Side] = []
        for kind in (Berth, Bare, *((Static,) if Static.built() else ())):
            sides.append(kind(folder))
            stack.callback(sides[-1].close)
        for side in sides:
            side.add({HOSTS.format(number): target(number) for number in range(ROUTES)})
        for side in sides:
            side.usable(SOME, target(0))  # up, and all that was told before is read
            ask(side, workloads, AT_ONCE[-1], "/small", 2 * ROUND_S)
        results = [usable(sides, target)]
        seen = matrix(
            sides, lambda side, at_once, path: ask(side, workloads, at_once, path, ROUND_S)
        )
        ours, *peers = sides
        floods = stack.enter_context(Crowd("workloads", FLOODS))
        for side in (ours, peers[0]):
            side.add(
                {FLOODED.format(n): f"http://{address(n)}:{floods.word}" for n in range(FLOODS)}
            )
        goals = dict(zip(peers, (2.0, 0.8), strict=False))
        results += rows(f"{ROUTES} notebook routes", seen, goals)
        return results + sockets(ours, peers[0], workloads)
