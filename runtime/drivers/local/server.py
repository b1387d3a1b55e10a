"""The supervisor's socket: one request a line, one answer a line; ``watch`` goes on."""

import asyncio
import base64
import contextlib
import logging
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.drivers.local import isolation, processes, records
from runtime.drivers.local.launcher import events_file
from runtime.drivers.local.registry import Registry, Watcher
from runtime.drivers.local.requests import (
    HEARTBEAT_S,
    LINE_LIMIT,
    Refused,
    checked_name,
    decode,
    encode,
    parse_secrets,
    parse_spec,
)
from runtime.drivers.local.users import own_user
from runtime.drivers.local.workload import Workload

_MIB = 1024 * 1024
DU_TIMEOUT_S = 20.0


class Meter:
    """Remembers the last reading of each workload: CPU is a rate between two readings."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float, float]] = {}

    def read(self, workload: Workload) -> dict[str, float]:
        """Return cpu_milli and memory_mib; nothing for one that does not run."""
        if not workload.is_alive or workload.child is None:
            self._last.pop(workload.uid, None)
            return {}
        groups = workload.machine.groups
        cpu, memory = groups.cpu_seconds(workload.uid), groups.memory_bytes(workload.uid)
        if cpu is None or memory is None:
            walked_cpu, walked_memory = _walk(workload.members())
            cpu = walked_cpu if cpu is None else cpu
            memory = walked_memory if memory is None else memory
        return {"memory_mib": round(memory / _MIB, 1), **self._rate(workload, cpu)}

    def _rate(self, workload: Workload, cpu: float) -> dict[str, float]:
        now = time.monotonic()
        started = workload.times.get("started")
        before = self._last.get(workload.uid)
        self._last[workload.uid] = (workload.attempt, now, cpu)
        if before is None or before[0] != workload.attempt:
            if started is None:
                return {}
            before = (workload.attempt, now - max(time.time() - started, 0.1), 0.0)
        seconds = now - before[1]
        if seconds <= 0:
            return {}
        return {"cpu_milli": round(max(cpu - before[2], 0.0) / seconds * 1000, 1)}


def together(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return the sum over a group's processes; what of one that runs is unknown is of all."""
    known = [reading for reading in readings if reading]
    names = set.intersection(*map(set, known)) if known else set()
    return {name: round(sum(reading[name] for reading in known), 1) for name in names}


def _walk(pids: set[int]) -> tuple[float, int]:
    cpu, memory = 0.0, 0
    for pid in pids:
        if fields := processes.stat(pid):
            cpu += processes.cpu_seconds(fields)
            memory += processes.resident_bytes(fields)
    return cpu, memory


async def folder_bytes(folder: Path) -> int | None:
    """Return what a folder takes on the disk; None when it can't be told in time."""
    process = await asyncio.create_subprocess_exec(
        "du", "-s", "-x", "--block-size=1", "--", str(folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), DU_TIMEOUT_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return None
    number = out.split(b"\t")[0]
    return int(number) if number.isdigit() else None


log = logging.getLogger("berth.supervisor")
VERSION = "1"
_LOG_LIMIT = 1024 * 1024


class Server:
    """Answers the portal. Who may connect is decided by the socket's owner and mode."""

    def __init__(self, registry: Registry, path: Path) -> None:
        self.registry, self.path = registry, path
        self.closing = asyncio.Event()
        self.meter = Meter()
        self._group: int | None = None
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self, *, group: int | None) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()  # we hold the lock: whoever left it is dead
        self._group = group
        before = os.umask(0o177)  # closed to everybody until its group is right
        try:
            self._server = await asyncio.start_unix_server(
                self._connected, self.path, limit=LINE_LIMIT, backlog=512
            )
        finally:
            os.umask(before)
        if group is not None:
            os.chown(self.path, 0, group)
            self.path.chmod(0o660)

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for task in tuple(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            self._clients.add(task)
        try:
            while line := await reader.readline():
                await self._serve(line, reader, writer)
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass  # gone, or a line longer than any request
        finally:
            writer.close()
            if task:
                self._clients.discard(task)

    async def _serve(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            message = decode(line)
            if message.get("verb") == "watch":
                await self._watch(reader, writer)
                return
            answer = {"result": await self._answer(message)}
        except Refused as refused:
            answer = refused.answer()
        except (KeyError, TypeError, ValueError) as problem:
            answer = Refused("error", f"the request can't be read: {problem!r}").answer()
        except OSError as problem:
            log.exception("a request failed")
            text = f"{problem.strerror}: {problem.filename or ''}"
            answer = Refused("error", text, reason="start-failed").answer()
        writer.write(encode(answer))
        await writer.drain()

    async def _answer(self, message: dict[str, Any]) -> Any:
        verb = str(message.get("verb", ""))
        handler = getattr(self, f"do_{verb}", None)
        if handler is None:
            raise Refused("error", f"there is no verb {verb[:40]!r}")
        return await handler(message)

    # -- verbs ---------------------------------------------------------------------------

    async def do_ensure(self, message: dict[str, Any]) -> Any:
        secrets = message.get("secrets")
        return await self.registry.ensure(
            parse_spec(message["spec"]), None if secrets is None else parse_secrets(secrets)
        )

    do_ensure_group = do_ensure_serving = do_ensure

    async def do_scale(self, message: dict[str, Any]) -> Any:
        secrets = message.get("secrets")
        return await self.registry.scale(
            parse_spec(message["spec"]), None if secrets is None else parse_secrets(secrets)
        )

    async def do_refresh_secrets(self, message: dict[str, Any]) -> Any:
        uid, launch = str(message["uid"]), int(message["launch"])
        self.registry.refresh(uid, launch, parse_secrets(message["secrets"]))

    async def do_observe(self, message: dict[str, Any]) -> Any:
        return [self.registry.observation(str(uid)) for uid in message["uids"]]

    async def do_list(self, _: dict[str, Any]) -> Any:
        return [self.registry.observation(uid) for uid in self.registry.uids()]

    async def do_stop(self, message: dict[str, Any]) -> Any:
        await self.registry.stop(str(message["uid"]), float(message["grace_s"]))

    async def do_tell(self, message: dict[str, Any]) -> Any:
        self.registry.tell(message["uid"], message["notice"])

    async def do_remove(self, message: dict[str, Any]) -> Any:
        self.registry.remove(str(message["uid"]), str(message.get("installation", "")))

    async def do_adopt(self, message: dict[str, Any]) -> Any:
        self.registry.mark(str(message["uid"]), str(message["installation"]))

    async def do_read_log(self, message: dict[str, Any]) -> Any:
        parts = self.registry.parts(str(message["uid"]))
        offset, replica = int(message["offset"]), int(message.get("replica", 0))
        if not 0 <= replica < len(parts):
            return {"data": "", "next": offset}
        found = parts[replica]
        limit = max(0, min(int(message["limit"]), _LOG_LIMIT))
        launch = int(message.get("launch") or found.launch)
        data, position = records.read_log(found.record.folder, launch, offset=offset, limit=limit)
        return {"data": base64.b64encode(data).decode(), "next": position}

    async def do_read_events(self, message: dict[str, Any]) -> Any:
        parts = self.registry.parts(str(message["uid"]))
        offset, launch = int(message["offset"]), int(message["launch"])
        if not parts:
            return {"data": "", "next": offset}
        limit = max(0, min(int(message["limit"]), _LOG_LIMIT))
        is_over = parts[0].launch != launch or not parts[0].is_alive
        path = events_file(self.registry.machine.spaces / parts[0].uid, launch)
        data, position = records.read_users(path, offset=offset, limit=limit)
        return {"data": base64.b64encode(data).decode(), "next": position, "over": is_over}

    async def do_usage(self, message: dict[str, Any]) -> Any:
        found = {str(uid): self.registry.parts(str(uid)) for uid in message["uids"]}
        return {
            uid: {
                "usage": together([self.meter.read(part) for part in parts]),
                "devices": [device for part in parts for device in part.spec.get("devices", [])],
            }
            for uid, parts in found.items()
            if any(part.is_alive for part in parts)
        }

    async def do_probe(self, _: dict[str, Any]) -> Any:
        machine = self.registry.machine
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "machine": os.uname().nodename,
            "cpu_milli": (len(os.sched_getaffinity(0)) or 1) * 1000,
            "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024),
            "isolation": asdict(machine.isolation),
            "workloads": len(self.registry.uids()),
            "message": self._warning(),
        }

    def _warning(self) -> str:
        """Say what keeps workloads from starting, before anybody tries."""
        machine = self.registry.machine
        if machine.users:
            for folder in (machine.state, machine.volumes):
                if shut := isolation.closed_folder(folder):
                    return f"users of workspaces can't pass through the folder {shut}"
        return ""

    async def do_ensure_volume(self, message: dict[str, Any]) -> Any:
        machine = self.registry.machine
        uid, owner = checked_name(str(message["volume_uid"]), "volume"), str(message["owner"])
        if owner:
            machine.make_volume(uid, await machine.user_of(str(message["project"]), owner), None)
        else:
            machine.make_volume(uid, own_user(), await machine.group_of(uid))

    async def do_remove_volume(self, message: dict[str, Any]) -> Any:
        machine = self.registry.machine
        folder = machine.volume(str(message["volume_uid"]))
        self.registry.needs_quiet(folder.name)
        self.registry.discard(folder)

    async def do_volume_usage(self, message: dict[str, Any]) -> Any:
        folder = self.registry.machine.volume(str(message["volume_uid"]))
        return await folder_bytes(folder) if folder.is_dir() else None

    async def do_ensure_snapshot(self, message: dict[str, Any]) -> Any:
        return self.registry.snapshots.ensure(str(message["uid"]), str(message["volume_uid"]))

    async def do_restore_snapshot(self, message: dict[str, Any]) -> Any:
        volume_uid = str(message["volume_uid"])
        self.registry.needs_quiet(volume_uid)
        self.registry.snapshots.restore(str(message["uid"]), volume_uid)

    async def do_remove_snapshot(self, message: dict[str, Any]) -> Any:
        self.registry.snapshots.remove(str(message["uid"]))
        self.registry.empty_trash()

    async def do_shutdown(self, message: dict[str, Any]) -> Any:
        if message.get("workspaces"):
            await self.registry.stop_all()
        asyncio.get_running_loop().call_later(0.05, self.closing.set)

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send everything, then changes; an empty list says that we are alive."""
        watcher = Watcher()
        self.registry.watchers.add(watcher)
        gone = asyncio.ensure_future(reader.read(1))  # the client sends nothing: this is its end
        try:
            writer.write(encode({"items": await self.do_list({})}))
            while not gone.done():
                await writer.drain()
                waiting = asyncio.ensure_future(watcher.changes(HEARTBEAT_S))
                await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    waiting.cancel()
                    return
                items = [self.registry.observation(uid) for uid in sorted(await waiting)]
                writer.write(encode({"items": items}))
        finally:
            gone.cancel()
            self.registry.watchers.discard(watcher)
