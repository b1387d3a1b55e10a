"""The process beside HAProxy: tells it what changed, wakes what sleeps, counts what was carried.

No request passes through it. While it is away HAProxy goes on by what it was told last.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import structlog

from serving.gateway import haproxy, rooms
from serving.gateway.counts import Counts
from serving.gateway.haproxy import WEIGHT, Generation, RoutingError, Wanted, server_name
from serving.gateway.table import CANARY, Endpoint, Principal, RoutingTable

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

log = structlog.get_logger(__name__)

FEWEST_BACKENDS = 64
NO_LIMIT = 10**9
LOOKS_EVERY_S = 0.1
WAKES_WITHIN_S = 0.04  # while something sleeps
TIDIES_EVERY_S = 1.0
MEASURES_EVERY_S = 2.0
FINISHES_WITHIN_S = 10.0
WAKES_EVERY_S = 5.0  # while somebody waits
LONGEST_REASON = 500  # letters
HEARS_EVERY_S = 0.05
HEARD_BYTES = 2**20
PAUSE_S = 0.5  # after a start that failed
GOOD = ("New server registered.", "")  # what commands of a change answer, line by line


class Gateway:
    def __init__(
        self, folder: Path, listener: socket.socket, wake: Callable[[str], Awaitable[str]]
    ) -> None:
        self.folder = folder
        self.counts = Counts()
        self.answering: dict[str, int] = {}  # by uid of a row
        self.waiting: dict[str, int] = {}  # requests without a replica, by uid of an endpoint
        self._listener = listener
        self._wake = wake  # returns why not
        self._woken_at: dict[str, float] = {}  # by uid of an endpoint
        # Of these nobody waits until they are asked to wake again: why, by uid of an endpoint.
        self._refused: dict[str, str] = {}
        self._table = RoutingTable()
        self._wanted = Wanted()
        self._generations: list[Generation] = []  # the last one listens
        self._backends = 0  # of the process that listens; none of ours does at first
        self._takes_away = False  # somebody may call less, and not all of that has ended
        self._of_row: dict[str, int] = {}  # which backend a ready row has
        self._leaving: set[tuple[int, str]] = set()  # servers that end their streams
        self._weights: dict[str, int] = {}  # by address
        self._turn = asyncio.Lock()
        self._client = httpx.AsyncClient(trust_env=False, headers={"Accept-Encoding": "identity"})

    async def run(self, table: RoutingTable) -> None:
        """Carry requests until cancelled; then let go of the socket and end what is open.

        After an error HAProxy goes on: the next control process finds it.
        """
        self._generations = await haproxy.left_behind(self.folder)
        self._takes_away = bool(self._generations)  # nobody knows what these still allow
        haproxy.write(self.folder / "control.pid", f"{os.getpid()}\n{os.getppid()}\n")
        calls = self.folder / "calls.sock"
        calls.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._hear_calls, calls, limit=HEARD_BYTES)
        calls.chmod(0o600)  # who writes to it counts requests for others
        try:
            await self.apply(table)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(LOOKS_EVERY_S, self._revive))
                tasks.create_task(self._every(WAKES_WITHIN_S, self._wake_asked))
                tasks.create_task(self._every(TIDIES_EVERY_S, self._tidy))
                tasks.create_task(self._every(MEASURES_EVERY_S, self._measure))
        except asyncio.CancelledError:
            await self._finish()
            raise
        finally:
            server.close()
            await self._client.aclose()

    async def apply(self, table: RoutingTable) -> None:
        """Go by ``table`` from now on: what may no longer be called is cut off first."""
        async with self._turn:
            before, self._table = self._table, table.at(time.time())
            self._takes_away = self._takes_away or _allows_less(before, self._table)
            await self._go_by(self._want())
            if self._takes_away:
                await self._cut_off()
                self._takes_away = False

    async def renew(self) -> None:
        """Have a process with the certificate that is in the folder now take over."""
        async with self._turn:
            await self._next_generation(self._want())

    async def _go_by(self, wanted: Wanted) -> None:
        try:
            await self._change(wanted)
        except RoutingError as error:
            log.info("gateway.next_generation", reason=str(error))
            await self._next_generation(wanted)

    def _want(self) -> Wanted:
        """What HAProxy is to know for the present table."""
        wanted = Wanted()
        ready = {row.uid: row for one in self._table.endpoints for row in one.rows if row.replicas}
        self._of_row = {uid: number for uid, number in self._of_row.items() if uid in ready}
        taken = {*self._of_row.values(), *(number for number, _address in self._leaving)}
        free = (number for number in range(len(ready) + len(taken) + 1) if number not in taken)
        for uid, row in ready.items():
            number = self._of_row.setdefault(uid, -1)
            if number < 0:
                number = self._of_row[uid] = next(free)
            wanted.servers[number] = {
                address: self._weights.get(address, WEIGHT) for address in row.replicas
            }
        for one in self._table.endpoints:
            self._want_rows(one, wanted.maps)
        for digest, principal in self._table.principals.items():
            wanted.maps["keys"][digest] = ":".join(
                [
                    principal.word,
                    str(self._part_of(principal.requests_per_s)),
                    str(self._part_of(principal.concurrent)),
                    "exhausted" if principal.is_exhausted else "ok",
                ]
            )
            for grant in _grants(principal):
                wanted.maps["grants"][f"{principal.word}/{grant}"] = "1"
        return wanted

    def _part_of(self, limit: int) -> int:
        """What this gateway allows of a limit; rounded up, so that each allows one at least."""
        return -(-limit // self._table.gateways) if limit else NO_LIMIT

    def _want_rows(self, endpoint: Endpoint, maps: dict[str, dict[str, str]]) -> None:
        maps["endpoints"][f"{endpoint.project}/{endpoint.name}"] = endpoint.uid
        waits = f"{endpoint.wait_s * 1000:.0f}:{endpoint.waiting}"
        maps["waits"][endpoint.uid] = "0:0" if endpoint.uid in self._refused else waits
        for origin in endpoint.origins:
            maps["origins"][f"{endpoint.uid}/{origin}"] = "1"
        if refused := self._refused.get(endpoint.uid):
            maps["reasons"][endpoint.uid] = f"not-woken:{_in_a_word(refused)}"
        elif endpoint.stopped:
            maps["reasons"][endpoint.uid] = f"stopped:{_in_a_word(endpoint.stopped)}"
        for row in endpoint.rows:
            if row.replicas:
                is_main = row is endpoint.main
                told = f"s{self._of_row[row.uid]}:{row.version}:{row.uid}"
                maps["rows"][endpoint.uid if is_main else f"{endpoint.uid}/{CANARY}"] = told
                maps["rows"].setdefault(f"{endpoint.uid}/{row.version}", told)
                if not is_main and endpoint.canary_percent:
                    maps["canaries"][endpoint.uid] = str(endpoint.canary_percent)

    async def _change(self, wanted: Wanted) -> None:
        """Tell the process that listens what is different: new servers, maps, then old servers."""
        if not self._backends or self._needed() > self._backends:
            raise RoutingError("There are more rows than backends.")
        old, current = self._wanted, self._generations[-1]
        secrets, routes = (
            [
                command
                for name in names
                for command in haproxy.map_commands(old.maps[name], wanted.maps[name], name)
            ]
            for names in (haproxy.SECRETS, haproxy.ROUTES)
        )
        bring, drop = haproxy.server_commands(old.servers, wanted.servers, self._leaving)
        for answer in await current.ask([*secrets, *bring, *routes, *drop]):
            if wrong := [line for line in answer.splitlines() if line.strip() not in GOOD]:
                raise RoutingError(wrong[0])
        self._wanted, current.row_of = wanted, self._row_of()

    def _needed(self) -> int:
        """How many backends: rows that sleep count, for who waits for one can't change process."""
        rows = sum(len(one.rows) for one in self._table.endpoints)
        return max([rows, *(number + 1 for number in self._of_row.values())])

    def _row_of(self) -> dict[str, str]:
        return {f"s{number}": uid for uid, number in self._of_row.items()}

    async def _next_generation(self, wanted: Wanted) -> None:
        self._backends = max(FEWEST_BACKENDS, self._backends)
        while self._backends < self._needed():
            self._backends *= 2
        before = self._generations
        try:
            started = await haproxy.start(
                self.folder, self._listener.fileno(), wanted, self._backends, before
            )
        except RoutingError:
            with contextlib.suppress(RoutingError):
                for one in before[-1:]:  # it may have been told already to take nothing new
                    await one.look()
            raise
        started.row_of = self._row_of()
        self._generations.append(started)
        self._wanted, self._leaving = wanted, set()
        for one in self._ending:  # no row comes there any more: who waits for one is told now
            with contextlib.suppress(RoutingError):
                await one.ask(["clear map waits.map"])

    @property
    def _ending(self) -> list[Generation]:
        """Those that listen no more, and have streams."""
        return [one for one in self._generations[:-1] if not one.is_over]

    async def _cut_off(self) -> None:
        """End what is open and may no longer be called; what can't be told ends altogether."""
        grants = {one.word: set(_grants(one)) for one in self._table.principals.values()}
        projects = {one.uid: one.project for one in self._table.endpoints}

        def may(whose: str) -> bool:
            word, _, uid = whose.partition("/")
            return not grants.get(word, set()).isdisjoint({uid, f"@{projects.get(uid)}"})

        for one in self._ending:
            try:
                await one.forget(self._wanted)
                await one.end_streams(may)
            except RoutingError as error:
                log.warning("gateway.killed", pid=one.pid, reason=str(error))
                one.kill()
        await self._generations[-1].end_streams(may)

    async def _every(self, seconds: float, act: Callable[[], Coroutine[None, None, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await act()
            except RoutingError as error:
                log.warning("gateway.failed", reason=str(error))
                await asyncio.sleep(PAUSE_S)
            except Exception:  # none that nobody thought of ends all streams
                log.exception("gateway.failed", part=act.__name__)
                await asyncio.sleep(PAUSE_S)

    async def _revive(self) -> None:
        """Start another process where none listens: it is gone, or gave way to one that failed."""
        if not self._generations[-1].listens:
            async with self._turn:
                if not self._generations[-1].listens:
                    log.warning("gateway.revived")
                    await self._next_generation(self._want())

    async def _wake_asked(self) -> None:
        """See who waits; wake an endpoint once, however many wait for it, and again if that failed.

        Where it can't wake nobody waits for it until it is tried again.
        """
        now = time.monotonic()
        asleep = {one.uid for one in self._table.endpoints if not one.main.replicas}
        before = self.waiting.keys()
        told = await self._generations[-1].waiting() if asleep else {}
        self.waiting = {uid: count for uid, count in told.items() if uid in asleep}
        rests = {uid for uid, at in self._woken_at.items() if now - at < WAKES_EVERY_S}
        refused = {uid: why for uid, why in self._refused.items() if uid in rests and uid in asleep}
        for uid in self.waiting.keys() - refused:
            if uid not in before or uid not in rests:
                self._woken_at[uid] = now
                if why := await self._wake(uid):
                    refused[uid] = why
        self._woken_at = {uid: at for uid, at in self._woken_at.items() if uid in asleep}
        if refused != self._refused:
            async with self._turn:
                self._refused = refused
                await self._go_by(self._want())

    async def _tidy(self) -> None:
        """Forget what has ended, and who may call no longer because it is too late."""
        for one in [one for one in self._generations[:-1] if not one.is_alive]:
            one.kill()
            self._generations.remove(one)
        for one in (*self._ending, self._generations[-1]):
            with contextlib.suppress(RoutingError):
                await one.look()
        in_time = self._table.at(time.time()).principals
        if self._takes_away or len(in_time) != len(self._table.principals):
            await self.apply(self._table)
        async with self._turn:
            for number, address in list(self._leaving):
                name = f"s{number}/{server_name(address)}"
                (answer,) = await self._generations[-1].ask([f"del server {name}"])
                if "deleted" in answer or "No such server" in answer:
                    self._leaving.discard((number, address))

    async def _measure(self) -> None:
        """See how much each row answers now, and how much room its replicas have."""
        self.answering = await self._look()
        busy = [
            row
            for one in self._table.endpoints
            for row in one.rows
            if row.metrics and row.replicas and self.answering.get(row.uid)
        ]
        turn = asyncio.Semaphore(rooms.AT_ONCE)
        told = await asyncio.gather(
            *(
                rooms.ask_figures(self._client, one, row.metrics, turn)
                for row in busy
                for one in row.replicas
            )
        )
        answers = iter(told)
        for row in busy:
            self._weights |= rooms.weights({one: next(answers) for one in row.replicas})
        async with self._turn:
            wanted = self._want()
            self._weights = {
                one: self._weights[one]
                for servers in wanted.servers.values()
                for one in servers
                if one in self._weights
            }
            await self._go_by(wanted)

    async def _look(self) -> dict[str, int]:
        answering: dict[str, int] = dict.fromkeys(self._of_row, 0)
        for one in (*self._ending, self._generations[-1]):
            with contextlib.suppress(RoutingError):
                (table,) = await one.ask(["show stat -1 2 -1"])
                for line in table.splitlines():
                    name, _, now_queued, _, now, *_ = [*line.split(","), *[""] * 5]
                    if (uid := one.row_of.get(name)) in answering:
                        answering[uid] += int(now) + int(now_queued)
        return answering

    async def _hear_calls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """HAProxy's lines: one for each request that ended."""
        rest = b""
        while part := await reader.read(HEARD_BYTES):
            *lines, rest = (rest + part).split(b"\n")
            now = time.time()
            for line, times in Counter(lines).items():
                self.counts.add(line.decode(errors="replace"), now, times)
            await asyncio.sleep(HEARS_EVERY_S)  # many of those that came meanwhile are alike
        writer.close()

    async def _finish(self) -> None:
        self._listener.close()
        for one in self._generations:
            one.finish()
            one.hang_up()
        for _ in range(int(FINISHES_WITHIN_S / LOOKS_EVERY_S)):
            if any(one.is_alive for one in self._generations):
                await asyncio.sleep(LOOKS_EVERY_S)
        for one in self._generations:
            one.kill()
        await asyncio.sleep(2 * HEARS_EVERY_S)  # their last lines


def _in_a_word(text: str) -> str:
    """A sentence without anything that commands or maps could take for something else."""
    return base64.b64encode(text[:LONGEST_REASON].encode()).decode()


def _grants(principal: Principal) -> list[str]:
    return [*principal.endpoints, *(f"@{slug}" for slug in principal.projects)]


def _allows_less(before: RoutingTable, after: RoutingTable) -> bool:
    """Whether somebody may call less than before: what they have open may have to end."""
    return any(
        (now := after.principals.get(digest)) is None
        or not set(_grants(principal)) <= set(_grants(now))
        for digest, principal in before.principals.items()
    )
