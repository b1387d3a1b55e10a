"""P3: large objects, verified, into memory and onto the disk, against those who do it fastest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.lib import Result, sized
from benchmarks.loads_lib import (
    GIB,
    MIB,
    Aim,
    Cost,
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
    rclone_knows,
    s5cmd,
    written,
)
from tests.support.stores import VersityS3

AIM = Aim(floor=1.25, memory_mib=256)
PREFIX = "large/"
UNSURE = "rclone 1.75 --ignore-checksum"


def sides_of(store: VersityS3) -> list[Side]:
    streams = ("--transfers", "4", "--multi-thread-streams", "4")
    return [
        berth(store, PREFIX),
        s5cmd(store, PREFIX, concurrency=option("S5CMD_CONCURRENCY", 10)),
        rclone(store, PREFIX, *streams, verifies=True),
        rclone(store, PREFIX, *streams, "--ignore-checksum", verifies=False, name=UNSURE),
        library("obstore 0.12", "obstore", store, PREFIX),
        library("s3transfer with CRT", "crt", store, PREFIX),
    ]


def run(on: str = "memory") -> list[Result]:
    count, size = option("LARGE_COUNT", sized(8, 2)), option("LARGE_MIB", sized(1024, 16)) * MIB
    rounds = option("ROUNDS", sized(5, 1))
    what = f"{count} x {size / GIB:.3g} GiB {'into memory' if on == 'memory' else 'onto the disk'}"
    with (
        folder() as work,
        folder(on) as place,
        filled(work, large=count, large_bytes=size) as store,
    ):
        rclone_knows(store, f"{PREFIX}0.bin")
        target = place / "target"
        sides = chosen(sides_of(store))
        limits = limits_of(store, place, count * size)
        costs = in_turn(sides, rounds, target, large_check(count, size))
        found = compared(what, sides, costs)
        found.append(against_limits(what, costs["Berth"], limits, goal=1.11, floor=2.0))
    return found


def compared(what: str, sides: list[Side], costs: dict[str, list[Cost]]) -> list[Result]:
    """The goal is against those who verify, as Berth does; the others are printed beside it."""
    found: list[Result] = []
    for verifies, name in ((True, what), (False, f"{what}, peers that do not verify")):
        of = {s.name: costs[s.name] for s in sides if s.name == "Berth" or s.verifies == verifies}
        if len(of) == 1:
            continue
        made = results(name, of, sides, ours="Berth", against=fastest(of, "Berth"), aim=AIM)
        found += made if verifies else [replace(row, goal=None, floor=None) for row in made[:2]]
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
