"""A body of 4 GiB is refused before it lies on a disk, whoever sends it and however."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from portal.server import web
from portal.server.handler import most_of_a_body
from tests.server.test_half_open import listening, livez

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = b"POST /api/v1/projects/demo/packages HTTP/1.1\r\nHost: localhost\r\n"
PART = b"0" * (1 << 20)


async def test_a_body_of_four_gib_is_refused_while_it_comes() -> None:
    public = listening()
    port = public.getsockname()[1]
    running = asyncio.create_task(web.serve(public))
    try:
        declared = await sent(port, b"Content-Length: %d\r\n\r\n" % 2**32, PART)
        assert declared == (413, 0)
        chunk = b"%x\r\n%s\r\n" % (len(PART), PART)
        status, mib = await sent(port, b"Transfer-Encoding: chunked\r\n\r\n", chunk)
        assert status in {413, 0}  # what still comes makes the end a harsh one
        assert mib <= most_of_a_body() // 2**20 + 32  # what lies in buffers on the way
        assert b"200 OK" in await livez(port, "127.0.0.1")
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await running


async def sent(port: int, head: bytes, part: bytes) -> tuple[int, int]:
    """Send parts until there is an answer; return that (0: cut off), and how many parts went."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + head)
        answer = asyncio.create_task(reader.readline())
        await asyncio.sleep(0.5)
        count = 0
        try:
            while not answer.done() and count < 4096:
                writer.write(part)
                await writer.drain()
                count += 1
            line = await answer
        except ConnectionError:
            return 0, count
        finally:
            answer.cancel()
            writer.close()
        return int(line.split()[1]) if line else 0, count
