"""Running a script in a container: the first line is its answer, the rest is data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from django.utils.translation import gettext as _

from common.errors import BerthError, Unavailable
from gate.files.scripts import refusal
from runtime.streams import STDERR, STDOUT, Exec, Pod, Streams

ANSWER_S = 30.0
MOST = 1_100_000
_LINE = 300


class Script:
    """One run. ``answer`` is what followed ``ok``; ``data`` goes on after the first line."""

    def __init__(self, running: Exec) -> None:
        self.running = running
        self._output = running.output()
        self._rest = b""
        self._said = b""  # of standard error
        self.answer = ""

    async def begin(self) -> None:
        """Read the first line; raise what a ``no`` means."""
        async with asyncio.timeout(ANSWER_S):
            line = await self.line()
        word, _sep, rest = line.partition(" ")
        if word == "no":
            raise refusal(rest)
        if word not in {"ok", "done"}:
            raise self._nothing()
        self.answer = rest

    async def line(self) -> str:
        while b"\n" not in self._rest:
            part = await self._next()
            if part is None or len(self._rest) > _LINE:
                return ""
            self._rest += part
        line, _sep, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")

    async def data(self) -> AsyncIterator[bytes]:
        if self._rest:
            rest, self._rest = self._rest, b""
            yield rest
        while (part := await self._next()) is not None:
            yield part

    async def _next(self) -> bytes | None:
        async for channel, data in self._output:
            if channel == STDOUT:
                return data
            if channel == STDERR:
                self._said = (self._said + data)[:_LINE]
        return None

    def _nothing(self) -> BerthError:
        said = self._said.decode(errors="replace").strip() or self.running.ended.message
        if "no such file or directory" in said.lower():
            return Unavailable(_("The image has no shell; files can't be shown here."))
        return Unavailable(_("The container did not answer: %(said)s") % {"said": said[:200]})


@contextlib.asynccontextmanager
async def script(
    streams: Streams, pod: Pod, command: Sequence[str], *, stdin: bool = False
) -> AsyncIterator[Script]:
    """Run ``command``; its first line has been read and is a yes."""
    try:
        async with await streams.exec(pod, command, stdin=stdin) as running:
            one = Script(running)
            await one.begin()
            yield one
    except TimeoutError as error:
        raise Unavailable(_("The container takes too long to answer.")) from error


async def short(streams: Streams, pod: Pod, command: Sequence[str]) -> bytes:
    """Run to the end and return all of what it wrote after the first line; bounded."""
    found = bytearray()
    async with script(streams, pod, command) as one, asyncio.timeout(ANSWER_S):
        async for part in one.data():
            found += part
            if len(found) > MOST:
                break
    return bytes(found)
