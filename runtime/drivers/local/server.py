"""The supervisor's socket: one request a line, one answer a line; ``watch`` goes on."""

import asyncio
import base64
import contextlib
import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.drivers.local import isolation, logs, usage
from runtime.drivers.local.json_lines import HEARTBEAT_S, LINE_LIMIT, Refused, decode, encode
from runtime.drivers.local.launcher import checked_name
from runtime.drivers.local.parsing import parse_secrets, parse_spec
from runtime.drivers.local.users import own_user
from runtime.drivers.local.workloads import Watcher, World

log = logging.getLogger("berth.supervisor")
VERSION = "1"
_LOG_LIMIT = 1024 * 1024


class Server:
    """Answers the portal. Who may connect is decided by the socket's owner and mode."""

    def __init__(self, world: World, path: Path) -> None:
        self.world, self.path = world, path
        self.closing = asyncio.Event()
        self.meter = usage.Meter()
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
        return await self.world.ensure(
            parse_spec(message["spec"]),
            None if secrets is None else parse_secrets(secrets),
        )

    do_ensure_group = do_ensure

    async def do_refresh_secrets(self, message: dict[str, Any]) -> Any:
        uid, launch = str(message["uid"]), int(message["launch"])
        self.world.refresh(uid, launch, parse_secrets(message["secrets"]))

    async def do_observe(self, message: dict[str, Any]) -> Any:
        return [self.world.observation(str(uid)) for uid in message["uids"]]

    async def do_list(self, _: dict[str, Any]) -> Any:
        return [self.world.observation(uid) for uid in self.world.uids()]

    async def do_stop(self, message: dict[str, Any]) -> Any:
        self.world.stop(str(message["uid"]), float(message["grace_s"]))

    async def do_remove(self, message: dict[str, Any]) -> Any:
        self.world.remove(str(message["uid"]), str(message.get("installation", "")))

    async def do_adopt(self, message: dict[str, Any]) -> Any:
        self.world.mark(str(message["uid"]), str(message["installation"]))

    async def do_read_log(self, message: dict[str, Any]) -> Any:
        parts = self.world.parts(str(message["uid"]))
        offset, replica = int(message["offset"]), int(message.get("replica", 0))
        if not 0 <= replica < len(parts):
            return {"data": "", "next": offset}
        found = parts[replica]
        limit = max(0, min(int(message["limit"]), _LOG_LIMIT))
        launch = int(message.get("launch") or found.launch)
        data, position = logs.read(found.record.folder, launch, offset=offset, limit=limit)
        return {"data": base64.b64encode(data).decode(), "next": position}

    async def do_usage(self, message: dict[str, Any]) -> Any:
        found = {str(uid): self.world.parts(str(uid)) for uid in message["uids"]}
        return {
            uid: {
                "usage": usage.together([self.meter.read(part) for part in parts]),
                "devices": [device for part in parts for device in part.spec.get("devices", [])],
            }
            for uid, parts in found.items()
            if any(part.is_alive for part in parts)
        }

    async def do_probe(self, _: dict[str, Any]) -> Any:
        machine = self.world.machine
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "machine": os.uname().nodename,
            "cpu_milli": (len(os.sched_getaffinity(0)) or 1) * 1000,
            "memory_mib": _memory_mib(),
            "isolation": asdict(machine.isolation),
            "workloads": len(self.world.uids()),
            "message": self._warning(),
        }

    def _warning(self) -> str:
        """Say what keeps workloads from starting, before anybody tries."""
        machine = self.world.machine
        if machine.users:
            for folder in (machine.state, machine.volumes):
                if shut := isolation.closed_folder(folder):
                    return f"users of workspaces can't pass through the folder {shut}"
        return ""

    async def do_ensure_volume(self, message: dict[str, Any]) -> Any:
        machine = self.world.machine
        uid, owner = checked_name(str(message["volume_uid"]), "volume"), str(message["owner"])
        if owner:
            machine.make_volume(uid, await machine.user_of(str(message["project"]), owner), None)
        else:
            machine.make_volume(uid, own_user(), await machine.group_of(uid))

    async def do_remove_volume(self, message: dict[str, Any]) -> Any:
        machine = self.world.machine
        folder = machine.volume(str(message["volume_uid"]))
        self.world.needs_quiet(folder.name)
        self.world.discard(folder)

    async def do_volume_usage(self, message: dict[str, Any]) -> Any:
        folder = self.world.machine.volume(str(message["volume_uid"]))
        return await usage.folder_bytes(folder) if folder.is_dir() else None

    async def do_ensure_snapshot(self, message: dict[str, Any]) -> Any:
        return self.world.snapshots.ensure(str(message["uid"]), str(message["volume_uid"]))

    async def do_restore_snapshot(self, message: dict[str, Any]) -> Any:
        volume_uid = str(message["volume_uid"])
        self.world.needs_quiet(volume_uid)
        self.world.snapshots.restore(str(message["uid"]), volume_uid)

    async def do_remove_snapshot(self, message: dict[str, Any]) -> Any:
        self.world.snapshots.remove(str(message["uid"]))
        self.world.empty_trash()

    async def do_shutdown(self, message: dict[str, Any]) -> Any:
        if message.get("workspaces"):
            await self.world.stop_all()
        asyncio.get_running_loop().call_later(0.05, self.closing.set)

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send everything, then changes; an empty list says that we are alive."""
        watcher = Watcher()
        self.world.watchers.add(watcher)
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
                items = [self.world.observation(uid) for uid in sorted(await waiting)]
                writer.write(encode({"items": items}))
        finally:
            gone.cancel()
            self.world.watchers.discard(watcher)


def _memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)
