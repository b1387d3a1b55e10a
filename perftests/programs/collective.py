"""Measures collective operations, or how a step scales, among the replicas of a job.

It runs with what is there: NVIDIA's nccl-tests, PyTorch with NCCL, PyTorch with Gloo on CPUs, or
sockets of Python's own library. What it prints has the columns of nccl-tests.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable

BINARIES = {
    "all-reduce": "all_reduce_perf",
    "all-gather": "all_gather_perf",
    "reduce-scatter": "reduce_scatter_perf",
}
WARM_UP, ITERATIONS = 2, 5
PATIENCE_S = 300  # until all have met
FLOAT = 4  # bytes


class Engine:
    """What moves the data, between the first ``size`` ranks of all."""

    name = ""
    rank = 0
    size = 1

    def form(self, size: int) -> None:
        """Make the group of the first ``size`` ranks; all ranks are asked, also those outside."""

    def leave(self) -> None:
        """Let the group go."""

    def ready(self, test: str, count: int) -> tuple[Callable[[], None], Callable[[], bool]]:
        """Fill buffers of ``count`` numbers; return what does the operation once, and looks at it.

        Only the first is measured.
        """
        raise NotImplementedError

    def compute(self) -> None:
        """Do the same work on each rank."""

    def wait(self) -> None:
        """Until all of the group are here."""
        run, _is_right = self.ready("all-reduce", self.size)
        run()

    def end(self) -> None:
        """It is not used any more."""


class Sockets(Engine):
    """A ring of the first ``size`` ranks: each sends to the next one and hears the one before."""

    name = "sockets"

    def __init__(self, rank: int, world: int, where: tuple[str, int]) -> None:
        self.rank = rank
        self.places: list[tuple[str, int]] = []
        self.early: dict[int, socket.socket] = {}
        self.ahead: socket.socket | None = None
        self.back: socket.socket | None = None
        self.door = socket.create_server(("", 0), backlog=64)
        own = self.door.getsockname()[1]
        if rank:
            with connected(where) as one:
                one.sendall(struct.pack("!IH", rank, own))
                self.places = json.loads(received(one, struct.unpack("!I", received(one, 4))[0]))
            return
        found, met = {0: (where[0], own)}, []
        with socket.create_server(("", where[1]), backlog=64) as meeting:
            meeting.settimeout(PATIENCE_S)
            while len(found) < world:
                one, (host, _port) = meeting.accept()
                number, port = struct.unpack("!IH", received(one, 6))
                found[number] = (host, port)
                met.append(one)
        self.places = [found[number] for number in range(world)]
        told = json.dumps(self.places).encode()
        for one in met:
            with one:
                one.sendall(struct.pack("!I", len(told)) + told)

    def form(self, size: int) -> None:
        self.size = size
        self.ahead = self.back = None
        if size == 1 or self.rank >= size:
            return
        host, port = self.places[(self.rank + 1) % size]
        self.ahead = connected((host, port))
        self.ahead.sendall(struct.pack("!I", size))
        self.door.settimeout(PATIENCE_S)
        while size not in self.early:  # one may be ahead, in a ring that this rank joins later
            one = self.door.accept()[0]
            self.early[struct.unpack("!I", received(one, 4))[0]] = one
        self.back = self.early.pop(size)
        for one in (self.ahead, self.back):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def leave(self) -> None:
        for one in (self.ahead, self.back):
            if one is not None:
                one.close()

    def turn(self, data: bytes, length: int) -> bytes:
        """Send on, and return what came from the rank before."""
        if self.ahead is None or self.back is None:
            return data
        sender = threading.Thread(target=self.ahead.sendall, args=(data,))
        sender.start()
        found = received(self.back, length)
        sender.join()
        return found

    def ready(self, test: str, count: int) -> tuple[Callable[[], None], Callable[[], bool]]:
        size, rank = self.size, self.rank
        part, total = count // size, size * (size + 1) / 2
        # as many numbers as the largest buffer of the operation has, part by part
        parts = [array("f", [float(rank + 1)]) * part for _ in range(size)]

        def run() -> None:
            if size > 1 and test != "all-gather":
                for step in range(size - 1):
                    sent, heard = (rank - step - 1) % size, (rank - step - 2) % size
                    came = array("f", self.turn(parts[sent].tobytes(), part * FLOAT))
                    parts[heard] = array("f", map(operator.add, parts[heard], came))
            if size > 1 and test != "reduce-scatter":
                for step in range(size - 1):
                    sent, heard = (rank - step) % size, (rank - step - 1) % size
                    parts[heard] = array("f", self.turn(parts[sent].tobytes(), part * FLOAT))

        def is_right() -> bool:
            if test == "all-gather":
                return all(one[-1] == number + 1 for number, one in enumerate(parts))
            if test == "reduce-scatter":
                return parts[rank][-1] == total
            return all(one[-1] == total for one in parts)

        return run, is_right

    def compute(self) -> None:
        numbers = array("f", [1.0]) * 100_000
        for _ in range(2):
            numbers = array("f", map(operator.mul, numbers, numbers))


class Torch(Engine):
    """PyTorch's own operations: NCCL with GPUs, Gloo without."""

    def __init__(self, rank: int, world: int, device: str) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.rank, self.world = torch, dist, rank, world
        self.name = "nccl" if device != "cpu" else "gloo"
        self.device = torch.device(device)
        if device != "cpu":
            torch.cuda.set_device(self.device)
        dist.init_process_group(self.name, rank=rank, world_size=world)
        self.weights = torch.ones(256, 256, device=self.device)
        self.group, self.size = None, world

    def form(self, size: int) -> None:
        self.group, self.size = self.dist.new_group(list(range(size))), size

    def ready(self, test: str, count: int) -> tuple[Callable[[], None], Callable[[], bool]]:
        torch, dist, size = self.torch, self.dist, self.size
        part, total = count // size, size * (size + 1) / 2
        new = {"dtype": torch.float32, "device": self.device}
        own = torch.full((count if test == "all-reduce" else part,), self.rank + 1.0, **new)
        parts = [own.clone() for _ in range(size)] if test != "all-reduce" else []

        def run() -> None:
            if test == "all-gather":
                dist.all_gather(parts, own, group=self.group)
            elif test == "reduce-scatter":
                dist.reduce_scatter(own, parts, group=self.group)
            else:
                dist.all_reduce(own, group=self.group)
            if self.name == "nccl":
                torch.cuda.synchronize()

        def is_right() -> bool:
            if test == "all-gather":
                return all(one[-1].item() == number + 1 for number, one in enumerate(parts))
            return bool(own[-1].item() == total)

        return run, is_right

    def end(self) -> None:
        self.dist.destroy_process_group()

    def compute(self) -> None:
        held = self.weights
        for _ in range(4):
            held = held @ self.weights
        if self.name == "nccl":
            self.torch.cuda.synchronize()


def measured(engine: Engine, test: str, count: int) -> tuple[float, int]:
    """Return the seconds of one operation, and how many were wrong."""
    took, wrong = 0.0, 0
    for number in range(WARM_UP + ITERATIONS):
        run, is_right = engine.ready(test, count)
        engine.wait()
        begun = time.perf_counter()
        run()
        if number >= WARM_UP:
            took += time.perf_counter() - begun
            wrong += not is_right()
    return took / ITERATIONS, wrong


def collective(engine: Engine, test: str, sizes: list[int]) -> None:
    """Print a line for each size: how long it took, and what came through."""
    world, leads = engine.size, engine.rank == 0
    factor = (2 if test == "all-reduce" else 1) * (world - 1) / world
    redop = "none" if test == "all-gather" else "sum"
    if leads:
        say("#       size         count      type   redop    root     time   algbw   busbw #wrong")
        say("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)")
    for size in sizes:
        count = max(world, size // FLOAT // world * world)
        seconds, wrong = measured(engine, test, count)
        algbw = count * FLOAT / seconds / 1e9
        if leads:
            what = f"{count * FLOAT:12d}  {count:12d}     float  {redop:>6}      -1"
            came = f"{seconds * 1e6:9.2f}  {algbw:9.4f}  {algbw * factor:9.4f}  {wrong:5d}"
            say(f"{what}  {came}")


def scaling(engine: Engine, step_bytes: int, counts: list[int], per_replica: int) -> None:
    """Print for 1, 2, 4 … replicas how long the same step takes: it computes, and sums up."""
    if engine.rank == 0:
        say("#  replicas  ranks  step_ms  steps_per_s")
    for replicas in counts:
        ranks = replicas * per_replica
        engine.form(ranks)
        if engine.rank >= ranks:
            continue
        count = max(ranks, step_bytes // FLOAT // ranks * ranks)
        times = []
        for number in range(WARM_UP + ITERATIONS):
            run, _is_right = engine.ready("all-reduce", count)
            engine.wait()
            begun = time.perf_counter()
            engine.compute()
            run()
            if number >= WARM_UP:
                times.append(time.perf_counter() - begun)
        engine.leave()
        seconds = sorted(times)[len(times) // 2]
        if engine.rank == 0:
            say(f"scaling  {replicas}  {ranks}  {seconds * 1e3:.3f}  {ranks / seconds:.3f}")


def rank_main(asked: argparse.Namespace, rank: int, world: int, local: int) -> None:
    engine = begun(asked, rank, world, local)
    if rank == 0:
        told = {"test": asked.test, "backend": engine.name, "ranks": world}
        say(f"# perftest {json.dumps(told)}")
    most = asked.max_mib * 2**20
    if engine.name == "sockets":
        most = min(most, 2**20)  # each number is added by Python
    if asked.test == "scaling":
        counts = [2**n for n in range(7) if 2**n < asked.replicas] + [asked.replicas]
        scaling(engine, min(most, 2**22), counts, world // asked.replicas)
    else:
        engine.form(world)
        collective(engine, asked.test, sizes_up_to(most))
    engine.end()


def sizes_up_to(most: int) -> list[int]:
    """Eight sizes, each four times the one before."""
    return sorted({max(64, most // 4**n) for n in range(8)})


def begun(asked: argparse.Namespace, rank: int, world: int, local: int) -> Engine:
    """Return the best there is; Gloo can't scatter what it reduced."""
    where = (
        os.environ.get("MASTER_ADDR", "127.0.0.1"),
        int(os.environ.get("MASTER_PORT", "29500")),
    )
    try:
        import torch
    except ImportError:
        if asked.gpus:
            sys.exit("It needs PyTorch or nccl-tests to measure GPUs: choose an image with them.")
        return Sockets(rank, world, where)
    if asked.gpus:
        if not torch.cuda.is_available():
            sys.exit("PyTorch of this image sees no GPU: choose one that is built for them.")
        return Torch(rank, world, f"cuda:{local}")
    if asked.test == "reduce-scatter":
        return Sockets(rank, world, where)
    return Torch(rank, world, "cpu")


def nccl_tests(asked: argparse.Namespace) -> list[str]:
    """Return the command of nccl-tests, where it is there and can take part."""
    binary = shutil.which(BINARIES.get(asked.test, ""))
    by_mpi = "OMPI_COMM_WORLD_SIZE" in os.environ
    if not binary or not asked.gpus or not (by_mpi or asked.replicas == 1):
        return []
    each = "1" if by_mpi else str(asked.gpus)
    return [binary, "-b", "8", "-e", f"{asked.max_mib}M", "-f", "4", "-g", each]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", choices=[*BINARIES, "scaling"], required=True)
    parser.add_argument("--replicas", type=int, required=True)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--max-mib", type=int, default=64)
    parser.add_argument("--local", type=int, default=-1, help="which GPU, of one that was begun")
    asked = parser.parse_args()
    if asked.local < 0 and (command := nccl_tests(asked)):
        told = {"test": asked.test, "backend": "nccl-tests"}
        say(f"# perftest {json.dumps(told)}")
        os.execv(command[0], command)
    replica, each = int(os.environ.get("RANK", "0")), max(1, asked.gpus)
    world = asked.replicas * each
    if asked.local < 0 and each > 1:  # one process for each GPU
        words = [sys.executable, *sys.argv, "--local"]
        others = [subprocess.Popen([*words, str(n)]) for n in range(each)]
        sys.exit(max(abs(one.wait()) for one in others))
    local = max(0, asked.local)
    rank_main(asked, replica * each + local, world, local)


def connected(where: tuple[str, int]) -> socket.socket:
    """A name may not be known, and nobody listen, in a replica's first seconds."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(where, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def received(one: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        data = one.recv(min(1 << 20, length - len(found)))
        if not data:
            sys.exit("Another replica has gone: its log says why.")
        found += data
    return bytes(found)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
