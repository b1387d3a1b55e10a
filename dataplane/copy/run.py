"""One run from its plan to its result."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Protocol

from dataplane.copy import checksums
from dataplane.copy.calls import Calls, Client, Times
from dataplane.copy.checkpoints import Keeping, Restoring
from dataplane.copy.clearing import clear, forget
from dataplane.copy.connector import Dialer
from dataplane.copy.engine import Engine, Room, size_text
from dataplane.copy.http1 import now
from dataplane.copy.inward import Inward
from dataplane.copy.journal import Row
from dataplane.copy.lanes import Hands
from dataplane.copy.pace import FILE_WORTH, STEP_S, Bucket, Climb
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Code, Final, Stop, Trouble, of_journal, stop_of, stopped
from dataplane.copy.progress import Progress
from dataplane.copy.push import Outward, open_uploader
from dataplane.copy.state import MANIFEST, Settler, State
from dataplane.copy.stores import open_store

THREADS = 4
AHEAD = 64
TICK_S = 0.05
SAVE_S = 1.0
TOLD_BYTES = 128 * 1024  # of the names in the last report
_WRITES = ("copy", "sync")


def check(state: State, progress: Progress) -> Stop:
    """Compare every file of the manifest: its length and its CRC32C."""
    progress.phase = "verifying"
    with ThreadPoolExecutor(THREADS, "verify") as pool:
        waiting: deque[tuple[Row, Future[Trouble | None]]] = deque()
        for row in state.journal.all_rows():
            if state.stopping.is_set():
                return stopped()
            progress.found += 1
            progress.bytes_found += row.size
            waiting.append((row, pool.submit(_one, state, row)))
            if len(waiting) > AHEAD:
                _take(progress, *waiting.popleft())
        progress.listed = True
        for row, future in waiting:
            _take(progress, row, future)
    if not progress.found:
        return Stop(Final.BAD_PLAN, "This load has put nothing here that could be verified.")
    good = f"{progress.unchanged} files are as they were copied"
    if progress.failed:
        return Stop(Final.PARTIAL, f"{good}; {progress.failed} are not, and are named.")
    return Stop(Final.DONE, f"{good}.")


def _take(progress: Progress, row: Row, future: Future[Trouble | None]) -> None:
    trouble = future.result()
    if trouble is not None:
        progress.fails(row.key, trouble.code, trouble.message)
        return
    progress.unchanged += 1
    progress.bytes_done += row.size
    progress.read(row.size)
    progress.verified["crc32c"] += 1


def _one(state: State, row: Row) -> Trouble | None:
    try:
        fd, seen = state.folder.open_file(row.path)
    except FileNotFoundError:
        return Trouble(Code.MISSING, "The file is not there any more.")
    except OSError:
        return Trouble(Code.IO, "What is there is no file that can be read.")
    try:
        if seen.st_size != row.size:
            text = f"The file has {seen.st_size} bytes, and {row.size} were copied."
            return Trouble(Code.LENGTH, text)
        if checksums.of_file(fd, ("crc32c",))["crc32c"] != row.crc32c:
            return Trouble(Code.CHECKSUM, "The file is not what was copied any more.")
    except OSError as error:
        return Trouble(Code.IO, f"The file can't be read: {error.strerror}.")
    finally:
        os.close(fd)
    return None


def told(state: State, most: int) -> list[tuple[str, int]]:
    """Return path and size of the first files that were copied, for the last report."""
    found, room = list[tuple[str, int]](), TOLD_BYTES
    for row in islice(state.journal.all_rows(), most):
        room -= len(json.dumps(row.path)) + 24
        if room < 0:
            break
        found.append((row.path, row.size))
    return found


def rows(state: State) -> Iterator[dict[str, object]]:
    """Yield the manifest: one entry for each file that this load has put, by path."""
    for row in state.journal.all_rows():
        yield {
            "path": row.path,
            "key": row.key,
            "size": row.size,
            "crc32c": row.crc32c,
            "verified": row.verified,
            "etag": row.etag,
            "version": row.version,
            "launch": row.launch,
        }


class Side(Protocol):
    """A direction: what is found, and what is beside and after copying it."""

    async def find(self) -> None:
        """Find what there is to do, give it to the crew, and say when that was all."""

    def tick(self, *, due: bool) -> bool:
        """Save what would be lost by a kill; ``due`` says that a second passed."""

    async def after(self) -> Stop | None:
        """Do what comes after everything was copied; may say how the run ended."""

    async def close(self) -> None: ...


def run(
    plan: Plan, progress: Progress, stopping: threading.Event, times: Times | None = None
) -> Stop:
    """Carry out a plan and return how it ended; never raises for what the world did.

    ``stopping`` is looked at many times a second: a signal that sets it needs no loop to wake.
    """
    try:
        with State(plan, stopping) as state:
            try:
                order = _carry_out(plan, state, progress, times or Times())
            except sqlite3.Error as error:
                return of_journal(error, state.try_to_write)
    except Stop as refused:
        return refused
    except OSError as error:
        return stop_of(error)
    if plan.mode == "clear" and order.final is Final.DONE:
        forget(plan)
    return order


def _carry_out(plan: Plan, state: State, progress: Progress, times: Times) -> Stop:
    if plan.mode == "verify":
        order = check(state, progress)
    elif plan.mode == "clear":
        order = clear(state, progress)
    else:
        order = asyncio.run(_run(plan, state, progress, times))
        if _leaves_uploads(plan, state, order):
            # everything was sent: what happens here does not make another result of it
            with suppress(Stop, OSError):
                asyncio.run(_run(replace(plan, mode="abandon"), state, progress, times))
            order.uploads = sum(bool(partial.upload) for partial in state.journal.partials())
    if order.final in {Final.DONE, Final.PARTIAL} and plan.mode in _WRITES:
        state.clean()
        write_manifest(state, progress)
        order.files = order.files or told(state, plan.tells)
    result = {"mode": plan.mode, "code": str(order.final), "message": order.message}
    kept = {"uploads": order.uploads}
    state.write_result({**progress.report(), **result, **kept})
    return order


def _leaves_uploads(plan: Plan, state: State, order: Stop) -> bool:
    """Whether everything was sent, and the store still holds parts of files that are gone here."""
    whole = plan.direction == "out" and plan.mode in _WRITES and not plan.retry_failed_only
    if not whole or order.final is not Final.DONE:
        return False
    return any(partial.upload for partial in state.journal.partials())


async def _run(plan: Plan, state: State, progress: Progress, times: Times) -> Stop:
    dialer = Dialer(plan.outbound)
    store = open_store(plan, dialer)
    client = Client(dialer, store.endpoint, times)
    hands = Hands(Bucket(plan.bandwidth), progress)
    settler = Settler(state, progress)
    calls = Calls(client, store, plan.store.prefix, progress.log)
    engine = Engine(plan, state, progress, calls, hands, settler, Room(state, plan.space_bytes))
    try:
        if plan.mode == "abandon":
            # give up what is half done, here and at the store; what is done stays
            journal = engine.state.journal
            uploader = open_uploader(engine, None) if engine.plan.direction == "out" else None
            kept = 0
            for partial in journal.partials():
                sent = uploader if partial.upload else None
                if sent is not None and not await sent.abandon(partial.key, partial.upload):
                    kept += 1
                else:
                    journal.finish(partial.path)
            engine.state.clean()
            if kept:
                return Stop(
                    Final.UNREACHABLE, f"The store did not give up {kept} unfinished uploads."
                )
            return Stop(Final.DONE, "What was half done was given up; what is done stays.")
        if half := len(state.journal.partials()):
            progress.log.say(f"an earlier run left {half:,} files half done: they are gone on with")
        side: Side
        if plan.direction == "in":
            side = Restoring(engine) if plan.newest else Inward(engine)
        else:
            side = Keeping(engine) if plan.newest else Outward(engine)
        try:
            order = await Crew(engine, side).work()
        finally:
            await side.close()
    finally:
        await client.close()
        hands.close()
        settler.end()
        store.close()
    order.files = engine.files
    return settler.stopped or order


class Crew:
    """The workers of one run, as many as bring the most."""

    def __init__(self, engine: Engine, side: Side) -> None:
        self.engine = engine
        self._side = side
        self._climb = Climb(engine.plan.concurrency)
        self._workers: set[asyncio.Task[None]] = set()
        self._count = 0  # of them that go on
        engine.calls.on_slow = self._slow_down

    async def work(self) -> Stop:
        try:
            await self._all()
        except BaseExceptionGroup as group:
            return _order(group, self.engine.state)
        await asyncio.to_thread(self.engine.settler.end)
        if self.engine.settler.stopped is not None:
            return self.engine.settler.stopped
        try:
            order = await self._side.after()
        except Stop as order_to_end:
            return order_to_end
        return order or ended(self.engine.progress)

    def _slow_down(self) -> None:
        self._climb.slow_down()
        text = f"the store asks for fewer calls: {self._climb.want} at once from now on"
        self.engine.progress.log.again("slow", text)

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(self._tick(group))
            await group.create_task(self._side.find())
            while not self.engine.work.over or self._workers:
                self._crew(group)
                if self._workers:
                    await asyncio.wait(self._workers)
            beside.cancel()

    async def _worker(self) -> None:
        work = self.engine.work
        try:
            while self._count <= self._climb.want:
                unit = await work.get()
                if unit is None:
                    return
                try:
                    await unit()
                finally:
                    work.ended()
        finally:
            self._count -= 1

    async def _tick(self, group: asyncio.TaskGroup) -> None:
        """Save, watch over the settler, and find the best number of workers."""
        saved = measured = now()
        before = 0.0
        while True:
            self._crew(group)
            await asyncio.sleep(TICK_S)
            if self.engine.settler.stopped is not None:
                raise self.engine.settler.stopped
            if self.engine.state.stopping.is_set():
                raise self.engine.calls.client.stop(stopped())
            at = now()
            if self._side.tick(due=at - saved > SAVE_S):
                saved = at
            if at - measured > STEP_S:
                progress = self.engine.progress
                worth = progress.bytes_read + FILE_WORTH * progress.done
                self._climb.measured((worth - before) / (at - measured))
                before, measured = worth, at

    def _crew(self, group: asyncio.TaskGroup) -> None:
        while self._count < self._climb.want and not self.engine.work.over:
            self._count += 1
            worker = group.create_task(self._worker())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        self.engine.progress.concurrency = self._count


def ended(progress: Progress) -> Stop:
    """Return how a run ended that was not stopped."""
    done = f"{progress.done} files copied ({size_text(progress.bytes_copied)})"
    if progress.unchanged:
        done += f", {progress.unchanged} were there already"
    if progress.deleted:
        done += f", {progress.deleted} deleted"
    bad = progress.failed + progress.skipped
    if progress.done + progress.unchanged + bad != progress.found:
        return Stop(Final.INTERNAL, f"{done}; not every file that was found was looked at.")
    if bad:
        return Stop(Final.PARTIAL, f"{done}; {bad} could not be copied and are named.")
    return Stop(Final.DONE, f"{done}.")


def write_manifest(state: State, progress: Progress) -> None:
    """Write one line for each file that this load has put into the folder."""
    if not (progress.done or progress.deleted) and state.has(MANIFEST):
        return
    with state.writing(MANIFEST) as file:
        for row in rows(state):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _order(group: BaseExceptionGroup[BaseException], state: State) -> Stop:
    """Return the order that ended everything; what is neither that nor the world is a fault."""
    errors = list(_leaves(group))
    for error in errors:
        if isinstance(error, Stop):
            return error
    first = errors[0]
    if isinstance(first, sqlite3.Error):
        return of_journal(first, state.try_to_write)
    if isinstance(first, OSError):
        return stop_of(first)
    raise group


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
