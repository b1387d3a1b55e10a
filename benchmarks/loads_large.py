"""P3: large objects, verified, into memory and onto the disk, against those who do it fastest."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.lib import Result
from benchmarks.loads_lib import (
    GIB,
    MIB,
    Aim,
    Side,
    against_limits,
    chosen,
    fastest,
    folder,
    in_turn,
    option,
    results,
)
from benchmarks.loads_store import (
    berth,
    filled,
    large_check,
    library,
    loopback,
    null,
    rclone,
    s5cmd,
    written,
)
from tests.support.stores import VersityS3

AIM = Aim(floor=1.25, memory_mib=256)
PREFIX = "large/"


def sides_of(store: VersityS3) -> list[Side]:
    streams = ("--transfers", "4", "--multi-thread-streams", "4")
    return [
        berth(store, PREFIX),
        s5cmd(store, PREFIX, concurrency=option("S5CMD_CONCURRENCY", 10)),
        rclone(store, PREFIX, *streams, verifies=False),
        library("obstore 0.12", "obstore", store, PREFIX),
        library("s3transfer with CRT", "crt", store, PREFIX),
    ]


def run(on: str = "memory") -> list[Result]:
    count, size = option("LARGE_COUNT", 8), option("LARGE_MIB", 1024) * MIB
    rounds = option("ROUNDS", 5)
    what = f"{count} x {size / GIB:.3g} GiB {'into memory' if on == 'memory' else 'onto the disk'}"
    with (
        folder() as work,
        folder(on) as place,
        filled(work, large=count, large_bytes=size) as store,
    ):
        target = place / "target"
        sides = chosen(sides_of(store))
        limits = limits_of(store, place, count * size)
        costs = in_turn(sides, rounds, target, large_check(count, size))
        peer = fastest(costs, "Berth")
        found = results(what, costs, sides, ours="Berth", against=peer, aim=AIM)
        found.append(against_limits(what, costs["Berth"], limits, goal=1.11, floor=2.0))
    return found


def limits_of(store: VersityS3, place: Path, total: int) -> dict[str, float]:
    """The least seconds that anybody can take: the wire, the medium, the server itself."""
    return {
        "loopback stream": median(loopback(total) for _ in range(3)),
        "write and fsync": median(written(place, total) for _ in range(2)),
        "null client": median(null(store, "get", PREFIX) for _ in range(3)),
    }


def run_disk() -> list[Result]:
    return run("disk")
