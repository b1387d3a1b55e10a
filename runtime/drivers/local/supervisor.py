"""The process that holds this machine's workloads.

``python -m runtime.drivers.local.supervisor --socket PATH --state DIR …``. Standard library
only, no Django. It outlives the portal; its own death loses nothing, because every workload
has a parent of its own and all memory is in small files. Signals to it never end workloads.
"""

import sys

# OpenSSL would be a quarter of our memory: asyncio's TLS is not used, and hashlib has SHA-2 itself.
# Nor does anything here compress, which shutil would be ready for.
for _name in ("ssl", "_hashlib", "bz2", "lzma"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]

import argparse  # noqa: E402
import asyncio  # noqa: E402
import ctypes  # noqa: E402
import fcntl  # noqa: E402
import gc  # noqa: E402
import grp  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NoReturn  # noqa: E402

from runtime.drivers.local import isolation  # noqa: E402
from runtime.drivers.local.isolation import Groups  # noqa: E402
from runtime.drivers.local.launcher import Machine  # noqa: E402
from runtime.drivers.local.registry import Registry  # noqa: E402
from runtime.drivers.local.server import Server  # noqa: E402
from runtime.drivers.local.users import Users, VolumeGroups  # noqa: E402

log = logging.getLogger("berth.supervisor")
ALREADY_RUNNING, CANNOT_START = 3, 2


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    var = Path(os.environ.get("BERTH_VAR", "var"))

    def folder(name: str, default: str) -> str:
        return os.environ.get(f"BERTH_{name}", str(var / default))

    parser = argparse.ArgumentParser(prog="berth-supervisor", description=__doc__)
    parser.add_argument("--socket", default=folder("SUPERVISOR_SOCKET", "run/supervisor.sock"))
    parser.add_argument("--state", default=folder("WORKLOADS_DIR", "workloads"))
    parser.add_argument("--volumes", default=folder("VOLUMES_DIR", "volumes"))
    parser.add_argument("--environments", default=folder("ENVIRONMENTS_DIR", "environments"))
    parser.add_argument("--group", default="berth", help="group that may use the socket")
    parser.add_argument("--ports", default="21000-31999", help="ports given to workloads")
    parser.add_argument("--log", help="append messages to this file")
    parser.add_argument("--detach", action="store_true", help="return once the socket answers")
    parser.add_argument(
        "--no-users", action="store_true", help="as root, do not make a user for each owner"
    )
    return parser.parse_args(arguments)


def fail(message: str, code: int = CANNOT_START) -> NoReturn:
    sys.stderr.write(f"berth-supervisor: {message}\n")
    raise SystemExit(code)


def lock(state: Path) -> int:
    """Hold the state folder for as long as we live; one supervisor to a folder."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        fd = os.open(state / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        fail(f"the folder {state} can't be used: {problem.strerror}")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"another supervisor already uses {state}", ALREADY_RUNNING)
    return fd


def machine_of(options: argparse.Namespace) -> Machine:
    first, _, last = options.ports.partition("-")
    if not (first.isdigit() and last.isdigit() and 0 < int(first) < int(last) < 65536):  # noqa: PLR2004
        fail(f"--ports must look like 21000-31999, not {options.ports}")
    state, volumes, environments = (
        Path(p).resolve() for p in (options.state, options.volumes, options.environments)
    )
    root = os.geteuid() == 0 and not options.no_users
    groups = Groups.detect(root=os.geteuid() == 0)
    machine = Machine(
        state=state,
        volumes=volumes,
        environments=environments,
        ports=(int(first), int(last)),
        groups=groups,
        users=Users(state) if root else None,
        volume_groups=VolumeGroups(state) if root else None,
    )
    machine.make()
    machine.isolation = isolation.detect(
        groups,
        root=root,
        state=state,
        volumes=volumes,
        environments=environments,
        memory=machine.secret_folders.in_memory,
    )
    return machine


def group_id(name: str) -> int | None:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def raise_file_limit() -> None:
    """Two descriptors for each workload: the usual 1,024 would be few."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def give_back() -> None:
    """What reading the modules took and is free again goes back to the machine: a megabyte."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every libc has it
    if trim is not None:
        trim(0)


async def serve(options: argparse.Namespace, ready: int | None) -> None:
    registry = Registry(machine_of(options))
    registry.adopt()
    server = Server(registry, options.socket)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.closing.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    await server.open(group=group_id(options.group) if os.geteuid() == 0 else None)
    give_back()
    log.info("listening on %s, %d workloads known", options.socket, len(registry.workloads))
    if ready is not None:
        os.write(ready, b"r")
        os.close(ready)
    noting = asyncio.create_task(registry.stay_known())
    await server.closing.wait()
    noting.cancel()
    await server.close()
    await registry.close()


def detach() -> int:
    """Go on in a process of our own session; here, return only when that one is ready."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        done = os.read(reader, 1) == b"r"
        os._exit(0 if done else CANNOT_START)
    os.close(reader)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return writer


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    options.socket = Path(options.socket).resolve()  # before we leave this folder
    held = lock(Path(options.state))
    ready = detach() if options.detach else None  # the lock goes along with the fork
    logging.basicConfig(
        level=logging.INFO, filename=options.log, format="%(asctime)s %(levelname)s %(message)s"
    )
    raise_file_limit()
    os.chdir("/")
    os.umask(0o022)
    try:
        asyncio.run(serve(options, ready))
    except OSError as problem:
        fail(f"{problem.filename or options.socket}: {problem.strerror}")
    finally:
        os.close(held)


if __name__ == "__main__":
    main()
