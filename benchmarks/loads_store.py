"""The store that the benchmarks of loads read from, filled once, and the programs that do so."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.loads_lib import GIB, Cost, Side, measure
from tests.support.copying import Copying
from tests.support.portal import ROOT
from tests.support.store_programs import stores_bin
from tests.support.stores import GoogleStore, Keys, S3Store, Store, VersityS3, run_client

BUCKET = "bench"
SMALL = 8 * 1024
PER_FOLDER = 1000
KEYS = Keys("AKBENCHMARK000000000", "b" * 40)
CLIENTS = ROOT / "benchmarks" / "loads_clients.py"
NULL = ROOT / "benchmarks" / "loads_null.py"


def small_key(number: int) -> str:
    return f"small/{number // PER_FOLDER:03d}/{number:06d}.bin"


def small_content(number: int) -> bytes:
    return random.Random(number).randbytes(SMALL)


@contextmanager
def filled(
    folder: Path, *, large: int = 0, large_bytes: int = GIB, small: int = 0, logged: bool = False
) -> Iterator[VersityS3]:
    """Versitygw over ``folder``, or over BENCH_STORE, which is kept and filled only once.

    The large objects are one file under many names: a client can't see it, and memory is spared.
    """
    store = VersityS3(keys=KEYS, logged=logged)
    store.data = Path(os.environ.get("BENCH_STORE") or folder / "store")
    store.data.mkdir(parents=True, exist_ok=True)
    with store:
        bucket = store.data / BUCKET
        if not bucket.is_dir():
            store.make_bucket(BUCKET)
        if small and not (bucket / small_key(small - 1)).exists():
            fill_small(store, folder, small)
        if large and _size(bucket / "large" / f"{large - 1}.bin") != large_bytes:
            fill_large(store, folder, large, large_bytes)
        yield store


def fill_small(store: S3Store, folder: Path, count: int) -> None:
    """By s5cmd: every object has the etag and the checksum that the server gives it."""
    print(f"  putting {count} small objects", flush=True)
    source = small_files(folder, count)
    env = {**store.environment(), "HOME": str(folder), "PATH": os.environ["PATH"]}
    command = [stores_bin() / "s5cmd", "--log", "error", "cp", f"{source}/", f"s3://{BUCKET}/"]
    subprocess.run(command, env=env, check=True)
    shutil.rmtree(source)


def small_files(folder: Path, count: int, below: str = "") -> Path:
    source = folder / "source"
    for number in range(count):
        path = source / below / small_key(number)
        if number % PER_FOLDER == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(small_content(number))
    return source


def fill_large(store: Store, folder: Path, count: int, size: int) -> None:
    print(f"  putting {count} large objects", flush=True)
    source = folder / "large.bin"
    with source.open("wb") as out:
        noise = random.Random(1).randbytes(2**20)
        for number in range(size // 2**20):
            out.write(number.to_bytes(8, "big") + noise[8:])
    put = {"do": "upload", "bucket": BUCKET, "file": str(source)}
    if isinstance(store, GoogleStore):
        run_client(store, [{**put, "key": f"large/{i}.bin"} for i in range(count)])
    else:
        sum_ = base64.b64encode(md5_of(source)).decode()  # as rclone itself would put it
        about = {"md5chksum": sum_}
        run_client(store, [{**put, "key": "large/0.bin", "part": 16 * 2**20, "metadata": about}])
        first = store.data / BUCKET / "large" / "0.bin"
        for number in range(1, count):
            other = first.with_name(f"{number}.bin")
            other.unlink(missing_ok=True)
            other.hardlink_to(first)
    source.unlink()


def md5_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").digest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


# --- sides --------------------------------------------------------------------------------------


def berth(store: Store, prefix: str, **others: object) -> Side:
    def act(target: Path) -> Cost:
        copying = copying_of(store, target, prefix, **others)
        return measure(copying.command(), copying.environment(), target, store.pid)

    return Side("Berth", act)


def copying_of(store: Store, target: Path, prefix: str, **others: object) -> Copying:
    return Copying(target, store.place(BUCKET, prefix), store.outbound(), folder="", **others)


def s5cmd(store: S3Store, prefix: str, *global_: str, concurrency: int = 0) -> Side:
    many = ["--concurrency", str(concurrency)] if concurrency else []

    def act(target: Path) -> Cost:
        command = [stores_bin() / "s5cmd", "--log", "error", *global_, "cp", *many]
        command += [f"s3://{BUCKET}/{prefix}*", f"{target}/"]
        return measure(command, store.environment(), target, store.pid)

    return Side("s5cmd 2.3", act, verifies=False)


def rclone(
    store: S3Store,
    prefix: str,
    *options: str,
    verifies: bool,
    verb: str = "copy",
    name: str = "rclone 1.75",
) -> Side:
    """rclone compares MD5 where an etag is one, or where whoever put the object noted it."""

    def act(target: Path) -> Cost:
        command = [stores_bin() / "rclone", verb, *options, f"bench:{BUCKET}/{prefix}", target]
        return measure(command, rclone_environment(store), target, store.pid)

    return Side(name, act, verifies=verifies)


def rclone_knows(store: S3Store, key: str) -> None:
    """Raise unless rclone has an MD5 of this object to compare with."""
    command = [str(stores_bin() / "rclone"), "md5sum", f"bench:{BUCKET}/{key}"]
    found = subprocess.run(command, env=rclone_environment(store), capture_output=True, check=True)
    if not found.stdout.strip().partition(b" ")[0]:
        raise RuntimeError(f"rclone knows no MD5 of {key}: empty BENCH_STORE and begin again")


def rclone_environment(store: S3Store) -> dict[str, str]:
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ACCESS_KEY_ID": store.keys.access,
        "SECRET_ACCESS_KEY": store.keys.secret,
        "ENDPOINT": store.url,
        "REGION": "us-east-1",
        "FORCE_PATH_STYLE": "true",
    }
    made = {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in settings.items()}
    return {**made, "RCLONE_CONFIG": "/dev/null"}


def library(name: str, way: str, store: Store, prefix: str) -> Side:
    env = store.environment() if isinstance(store, S3Store) else {}
    url = store.direct_url if isinstance(store, GoogleStore) else store.url

    def act(target: Path) -> Cost:
        command = [stores_bin() / "python", CLIENTS, way, url, BUCKET, prefix, target]
        return measure(command, env, target, store.pid)

    return Side(name, act, verifies=way in {"transfer-manager", "crt"})


# --- limits -------------------------------------------------------------------------------------


def null(store: S3Store, verb: str, prefix: str, count: int = 0) -> float:
    """Seconds of a client that throws everything away (``get``), or only lists (``list``)."""
    about = {"endpoint": store.url, "bucket": BUCKET, "prefix": prefix, "count": count}
    done = subprocess.run(
        [stores_bin() / "python", NULL, verb],
        input=json.dumps(about),
        env={**store.environment(), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout)


def loopback(size: int, lines: int = 2) -> float:
    """Seconds to send ``size`` bytes over loopback to somebody who throws them away."""
    block = memoryview(bytes(2**20))
    with ExitStack() as ends, socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(lines):
                line, _ = listener.accept()
                threading.Thread(target=send, args=(line,), daemon=True).start()

        def send(line: socket.socket) -> None:
            with line:
                for _ in range(size // lines // len(block)):
                    line.sendall(block)

        threading.Thread(target=serve, daemon=True).start()
        address = listener.getsockname()
        sockets = [ends.enter_context(socket.create_connection(address)) for _ in range(lines)]
        readers = [threading.Thread(target=_drain, args=(one,)) for one in sockets]
        begin = time.perf_counter()
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return time.perf_counter() - begin


def _drain(line: socket.socket) -> None:
    buffer = bytearray(2**20)
    while line.recv_into(buffer):
        pass


def written(folder: Path, size: int) -> float:
    """Seconds to write ``size`` bytes to one file and have them on the medium."""
    block = bytes(2**22)
    path = folder / "limit.bin"
    begin = time.perf_counter()
    with path.open("wb", buffering=0) as out:
        for _ in range(size // len(block)):
            out.write(block)
        os.fsync(out.fileno())
    seconds = time.perf_counter() - begin
    path.unlink()
    return seconds


def created(folder: Path, count: int) -> float:
    """Seconds to create, write and close ``count`` small files."""
    block = bytes(SMALL)
    base = folder / "limit"
    begin = time.perf_counter()
    for number in range(count):
        if number % PER_FOLDER == 0:
            parent = base / f"{number // PER_FOLDER:03d}"
            parent.mkdir(parents=True)
        file = os.open(f"{parent}/{number:06d}.bin", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(file, block)
        os.close(file)
    seconds = time.perf_counter() - begin
    shutil.rmtree(base)
    return seconds


# --- what must have come ------------------------------------------------------------------------


def arrived(target: Path) -> dict[str, Path]:
    """Files by the end of their name, whatever folders a program puts before it."""
    return {path.name: path for path in target.rglob("*.bin") if ".berth" not in path.parts}


def small_check(count: int) -> Callable[[Path], None]:
    def check(target: Path) -> None:
        found = arrived(target)
        if len(found) != count:
            raise RuntimeError(f"{len(found)} of {count} files came")
        chosen = random.Random(count).sample(range(count), min(count, 500))
        for number in chosen:
            if found[f"{number:06d}.bin"].read_bytes() != small_content(number):
                raise RuntimeError(f"{small_key(number)} is not what was put")

    return check


def large_check(count: int, size: int) -> Callable[[Path], None]:
    noise = random.Random(1).randbytes(2**20)

    def check(target: Path) -> None:
        found = arrived(target)
        if len(found) != count or any(p.stat().st_size != size for p in found.values()):
            raise RuntimeError(f"{len(found)} of {count} files came, or some are short")
        for path in found.values():
            with path.open("rb") as file:
                for number in range(0, size // 2**20, 7):
                    file.seek(number * 2**20)
                    if file.read(2**20) != number.to_bytes(8, "big") + noise[8:]:
                        raise RuntimeError(f"{path.name} is wrong in its MiB {number}")

    return check
