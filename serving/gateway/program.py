"""The process ``gateway``: what the database says goes to HAProxy, what it carried comes back.

While the database does not answer it goes on by what was last read.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from runtime import bus
from serving.gateway import haproxy, rows
from serving.gateway.control import Gateway
from serving.gateway.tallies import Tallies
from serving.models import Endpoint
from serving.services import GATEWAYS, endpoint_wake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from serving.gateway.table import RoutingTable

log = structlog.get_logger(__name__)
T = TypeVar("T")

LOOKS_EVERY_S = 0.5
CERTIFICATE_EVERY_S = 10.0
CERTIFICATE_AGAIN_S = 1.0  # while there is none yet
READS_EVERY_S = 5.0  # all of it, whether or not something seems to have changed
COUNTS_EVERY_S = 5.0
SAYS_EVERY_S = 1.0


class Process:
    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self.gateway = Gateway(folder, listener, self._wake)
        self.tallies = Tallies(secrets.token_hex(8))
        self._name_file = folder / "name"
        self._table: RoutingTable | None = None
        self._print: object = None
        self._read_at = 0.0

    async def run(self) -> None:
        """Carry requests until cancelled; where there is to be a certificate, none without it."""
        await _logged(self._follow_on)
        while not await asyncio.to_thread(has_certificate, self.gateway.folder):  # noqa: ASYNC110
            await asyncio.sleep(CERTIFICATE_AGAIN_S)
        while self._table is None:
            await _logged(self._read)
            if self._table is None:
                await asyncio.sleep(LOOKS_EVERY_S)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.gateway.run(self._table))
                tasks.create_task(self._follow())
                tasks.create_task(self._every(SAYS_EVERY_S, self._say))
                tasks.create_task(self._every(COUNTS_EVERY_S, self._count))
                tasks.create_task(self._every(CERTIFICATE_EVERY_S, self._renew))
        finally:
            await _logged(self._count_last)
            await in_database(self.tallies.leave)

    async def _follow_on(self) -> None:
        """Who was here before and was killed is no gateway any more."""
        before = self._name_file.read_text() if self._name_file.exists() else ""
        haproxy.write(self._name_file, self.tallies.name)
        if before:
            await in_database(Tallies(before).leave)

    async def _follow(self) -> None:
        """Look twice a second, and at once when somebody says that an endpoint changed."""
        looked_at = 0.0
        async with bus.subscription(["operators", GATEWAYS]) as news:
            while True:
                message = await news.get(timeout_s=LOOKS_EVERY_S)
                is_told = message is not None and message.get("kind") in {Endpoint.KIND, "resync"}
                # Messages of other work are no reason to look, and none not to.
                if is_told or time.monotonic() - looked_at >= LOOKS_EVERY_S:
                    looked_at = time.monotonic()
                    await _logged(self._read)

    async def _read(self) -> None:
        found = await in_database(rows.fingerprint)
        is_due = time.monotonic() - self._read_at > READS_EVERY_S
        if found is None or (found == self._print and not is_due):
            return

        def read() -> RoutingTable:
            table = replace(rows.read_table(), gateways=self.tallies.others() + 1)
            self.tallies.know(table)
            return table

        if (table := await in_database(read)) is None:
            return
        if self._table is not None and table != self._table:
            await self.gateway.apply(table)
        # Known from now on; where it was not applied it is read and applied again.
        self._table, self._print, self._read_at = table, found, time.monotonic()

    async def _wake(self, uid: str) -> str:
        """Return why it can't wake; "" too where the database has no answer: it is asked again."""
        try:
            problem = await in_database(lambda: endpoint_wake(int(uid)))
        except Exception:
            log.exception("gateway.failed", part="wake", endpoint=uid)
            return ""
        if problem:
            log.info("gateway.not_woken", endpoint=uid, reason=problem)
        return problem or ""

    async def _say(self) -> None:
        waiting = {
            one.main.uid: self.gateway.waiting[one.uid]
            for one in (self._table.endpoints if self._table else ())
            if one.uid in self.gateway.waiting
        }
        answering = dict(self.gateway.answering)
        await in_database(
            lambda: self.tallies.write_pressures(answering, waiting, moment=time.monotonic())
        )

    async def _count(self, *, waits: bool = False) -> None:
        taken = self.gateway.counts.take()
        await in_database(lambda: self.tallies.write_calls(taken, waits=waits))

    async def _count_last(self) -> None:
        await self._count(waits=True)

    async def _renew(self) -> None:
        """Go by another certificate as soon as its files are another pair that fits.

        Where no process takes over with it, the one before stays and it is tried again.
        """
        there = self.gateway.folder / haproxy.CERTIFICATE
        before = there.read_text() if there.exists() else ""
        if await asyncio.to_thread(bring_certificate, self.gateway.folder):
            log.info("gateway.certificate")
            try:
                await self.gateway.renew()
            except haproxy.RoutingError:
                haproxy.write(there, before)
                raise

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await _logged(act)


async def _logged(act: Callable[[], Awaitable[None]]) -> None:
    """Do it; an error that nobody thought of ends neither the gateway nor its streams."""
    try:
        await act()
    except Exception:
        log.exception("gateway.failed", part=act.__name__)


async def in_database(ask: Callable[[], T]) -> T | None:
    """Return the answer of the database; None where it has none."""

    def asked() -> T | None:
        close_old_connections()
        try:
            return ask()
        except DatabaseError as error:
            log.warning("gateway.database", error=repr(error))
            return None
        finally:
            close_old_connections()

    return await sync_to_async(asked)()


def has_certificate(folder: Path) -> bool:
    """Whether HAProxy may start: with a pair that fits, now or before, or where none is set."""
    bring_certificate(folder)
    return not settings.BERTH_TLS_CERT or (folder / haproxy.CERTIFICATE).exists()


def bring_certificate(folder: Path) -> bool:
    """Write certificate and key as one file for HAProxy; whether they are others than before.

    A pair that does not fit (one of them is being replaced) is no news.
    """
    there = folder / haproxy.CERTIFICATE
    if not settings.BERTH_TLS_CERT:
        there.unlink(missing_ok=True)
        return False
    files = settings.BERTH_TLS_CERT, settings.BERTH_TLS_KEY
    try:
        text = "\n".join(Path(one).read_text() for one in files)
        if there.exists() and there.read_text() == text:
            return False
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
        haproxy.take_certificate(folder, text)
    except (OSError, ValueError, haproxy.RoutingError) as error:
        log.warning("gateway.certificate_refused", error=str(error))
        return False
    return True


def serve(listener: socket.socket) -> None:
    """Carry requests until SIGTERM."""
    folder = Path(settings.BERTH_VAR) / "run" / "gateway"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def until_told() -> None:
        running = asyncio.ensure_future(Process(folder, listener).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(until_told())
