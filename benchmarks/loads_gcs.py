"""Google Cloud Storage: small and large objects against ``transfer_manager`` in the same run."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.parse import quote

from benchmarks.lib import Result, sized
from benchmarks.loads_lib import (
    GIB,
    MIB,
    Aim,
    Cost,
    Side,
    folder,
    in_turn,
    measure,
    option,
    results,
)
from benchmarks.loads_store import (
    BUCKET,
    NULL,
    fill_large,
    large_check,
    library,
    small_check,
    small_files,
    small_key,
)
from tests.support.copying import Copying
from tests.support.store_programs import stores_bin
from tests.support.stores import GoogleStore

PEER = "transfer_manager"


def run() -> list[Result]:
    small, large = option("GCS_SMALL", sized(5_000, 50)), option("GCS_LARGE", sized(2, 1))
    size, rounds = option("GCS_MIB", sized(512, 16)) * MIB, option("ROUNDS", sized(5, 1))
    found: list[Result] = []
    with folder() as work, filled(work, small, large, size) as store:
        for prefix, count, check, what in (
            ("small/", small, small_check(small), f"GCS, {small:,} x 8 KiB"),
            ("large/", large, large_check(large, size), f"GCS, {large} x {size / GIB:.3g} GiB"),
        ):
            keys = [small_key(i) if prefix == "small/" else f"large/{i}.bin" for i in range(count)]
            limit = median(bare(store, keys) for _ in range(3))
            sides = [berth(store, prefix), library(PEER, "transfer-manager", store, prefix)]
            costs = in_turn(sides, rounds, work / "target", check)
            made = results(what, costs, sides, ours="Berth", against=PEER, aim=Aim(1.25, 256))
            made[0].note += f"; null client {limit:.3g} s"
            found += made
    return found


@contextlib.contextmanager
def filled(work: Path, small: int, large: int, size: int) -> Iterator[GoogleStore]:
    """Put before the clock: the small ones by a folder that the server reads at its start."""
    source = small_files(work, small, BUCKET)
    with GoogleStore(anonymous=True, on_disk=True, folder=work, source=source) as store:
        fill_large(store, work, large, size)
        yield store


def berth(store: GoogleStore, prefix: str) -> Side:
    outbound = {**store.outbound(store.direct_url), "gcs_endpoint": store.direct_url}

    def act(target: Path) -> Cost:
        copying = Copying(target, store.place(BUCKET, prefix), outbound, folder="")
        return measure(copying.command(), copying.environment(), target, store.pid)

    return Side("Berth", act)


def bare(store: GoogleStore, keys: list[str]) -> float:
    media = f"{store.direct_url}/download/storage/v1/b/{BUCKET}/o"
    urls = [f"{media}/{quote(key, safe='')}?alt=media" for key in keys]
    done = subprocess.run(
        [stores_bin() / "python", NULL, "get"],
        input=json.dumps({"endpoint": store.direct_url, "urls": urls}),
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout)
