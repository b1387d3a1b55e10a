"""A server of people's own, as an endpoint's pod runs it: Python's own library only.

It tells which pod answers, counts bodies without keeping them, streams, and echoes a WebSocket.
"""

import asyncio
import base64
import hashlib
import os
import socket

PORT = int(os.environ.get("PORT", "8080"))
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split()[1].partition("?")[0]
            lines = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
            named = {name.lower(): value for name, value in lines}
            if path == "/ws":
                await echo(reader, writer, named["sec-websocket-key"])
            elif path == "/stream":
                await stream(writer)
            else:
                size = await swallow(reader, int(named.get("content-length", 0)))
                await answer(writer, f"{socket.gethostname()} {size}".encode())
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def swallow(reader, length):
    left = length
    while left and (part := await reader.read(min(left, 65536))):
        left -= len(part)
    return length - left


async def answer(writer, body):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def stream(writer):
    """Server-sent events, numbered, until nobody hears them."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    number = 0
    while True:
        event = b"data: %d\n\n" % number
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))
        await writer.drain()
        await asyncio.sleep(0.1)
        number += 1


async def echo(reader, writer, key):
    """Say each short text back."""
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    writer.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
    )
    while True:
        first, second = await reader.readexactly(2)
        mask = await reader.readexactly(4)
        masked = await reader.readexactly(second & 127)
        said = bytes(byte ^ mask[n % 4] for n, byte in enumerate(masked))
        writer.write(bytes([first, len(said)]) + said)
        await writer.drain()


async def main():
    server = await asyncio.start_server(serve, "", PORT)
    await server.serve_forever()


asyncio.run(main())
