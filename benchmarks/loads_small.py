"""P4: many small objects, kill -9 and going on, and a sync that finds nothing to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.lib import Result, sized
from benchmarks.loads_lib import (
    Aim,
    Cost,
    Side,
    against_limits,
    chosen,
    folder,
    in_turn,
    measure,
    option,
    results,
)
from benchmarks.loads_store import (
    BUCKET,
    PER_FOLDER,
    arrived,
    berth,
    copying_of,
    created,
    filled,
    library,
    null,
    rclone,
    rclone_environment,
    s5cmd,
    small_check,
)
from tests.support.store_programs import stores_bin
from tests.support.stores import VersityS3

AIM = Aim(floor=1.43, memory_mib=128)
PREFIX = "small/"


def sides_of(store: VersityS3) -> list[Side]:
    workers = str(option("S5CMD_WORKERS", 64))
    transfers = ("--transfers", "16", "--checkers", "16")
    return [
        berth(store, PREFIX),
        s5cmd(store, PREFIX, "--numworkers", workers),
        rclone(store, PREFIX, *transfers, verifies=True),
        library("obstore 0.12", "obstore", store, PREFIX),
    ]


def run() -> list[Result]:
    count, rounds = option("SMALL_COUNT", sized(50_000, 200)), option("ROUNDS", sized(5, 1))
    what = f"{count:,} x 8 KiB"
    with folder() as work:
        target = work / "target"
        with filled(work, small=count) as store:
            sides = chosen(sides_of(store))
            limits = {
                "null client": median(null(store, "get", PREFIX) for _ in range(3)),
                "create, write, close": median(created(work, count) for _ in range(3)),
            }
            costs = in_turn(sides, rounds, target, small_check(count))
        found = results(what, costs, sides, ours="Berth", against="s5cmd 2.3", aim=AIM)
        found.append(against_limits(what, costs["Berth"], limits))
    return found


def run_again() -> list[Result]:
    """What is asked for twice: after a kill, and after nothing changed."""
    count, rounds = option("SMALL_COUNT", sized(50_000, 5_000)), option("ROUNDS", sized(5, 1))
    with folder() as work, filled(work, small=count, logged=True) as store:
        return [resumed(store, work, count), *unchanged(store, work, count, rounds)]


def resumed(store: VersityS3, work: Path, count: int) -> Result:
    """GETs that the server saw after the kill, against what was not there under its name."""
    target = work / "killed"
    target.mkdir()
    copying = copying_of(store, target, PREFIX)
    done = copying.run(kill_when=lambda report: report["files"]["done"] >= count // 2)
    if done.code != -9:
        raise RuntimeError(f"it was not killed: {done.code}")
    there = len(arrived(target))
    before = gets(store)
    again = copying.run()
    if again.code:
        raise RuntimeError(f"going on ended with {again.code}: {again.output[-2000:]}")
    small_check(count)(target)
    read = gets(store) - before
    shutil.rmtree(target)
    print(f"  killed with {there} of {count}, then read {read}", flush=True)
    return Result(
        f"{count:,} x 8 KiB, kill -9 at half, read again",
        "of what was missing",
        [read / (count - there)],
        goal=1.02,
        floor=1.02,
        note=f"{there} were there, {read} read",
    )


def gets(store: VersityS3) -> int:
    return sum(1 for operation, _, _ in store.served() if operation == "GetObject")


def unchanged(store: VersityS3, work: Path, count: int, rounds: int) -> list[Result]:
    """``sync`` of what is there already, against listing it and nothing else."""
    sides = syncing(store, work)
    for name, act in sides.items():
        act()  # copies everything
        print(f"  {name} has it all", flush=True)
    before = gets(store)
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    bare = []
    for number in range(rounds):
        bare.append(null(store, "list", PREFIX, count))
        print(f"  round {number + 1} bare LIST: {bare[-1]:.2f} s", flush=True)
        for name in list(sides) if number % 2 else reversed(sides):
            costs[name].append(sides[name]())
            print(f"  round {number + 1} {name}: {costs[name][-1]}", flush=True)
    if gets(store) != before:
        raise RuntimeError(f"{gets(store) - before} objects were read though nothing changed")
    peers = "; ".join(
        f"{name} {median(c.wall_s for c in all_):.3g} s, {median(c.cpu_s for c in all_):.3g} CPU s"
        for name, all_ in costs.items()
    )
    return [
        Result(
            f"{count:,} x 8 KiB, sync of nothing new",
            "s",
            [cost.wall_s for cost in costs["Berth"]],
            bare,
            f"bare LIST, {-(-count // PER_FOLDER)} pages",
            1.1,
            1.5,
            note=peers,
        )
    ]


def syncing(store: VersityS3, work: Path) -> dict[str, Callable[[], Cost]]:
    """Each into a folder of its own, which stays."""
    targets = {name: work / name for name in ("berth", "rclone", "s5cmd")}
    for target in targets.values():
        target.mkdir()
    copying = copying_of(store, targets["berth"], PREFIX, mode="sync")
    source = f"bench:{BUCKET}/{PREFIX}"
    rclone_ = [stores_bin() / "rclone", "sync", "--checkers", "16", "--fast-list", source]
    s5cmd_ = [stores_bin() / "s5cmd", "--log", "error", "sync", f"s3://{BUCKET}/{PREFIX}*"]

    def act(name: str, command: list[str | Path], env: dict[str, str]) -> Cost:
        return measure(command, env, targets[name], store.pid)

    return {
        "Berth": lambda: act("berth", [*copying.command()], copying.environment()),
        "rclone sync": lambda: act(
            "rclone", [*rclone_, targets["rclone"] / "data"], rclone_environment(store)
        ),
        "s5cmd sync": lambda: act(
            "s5cmd", [*s5cmd_, f"{targets['s5cmd']}/data/"], store.environment()
        ),
    }
