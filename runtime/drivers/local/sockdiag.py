"""Who listens on a port, asked of the kernel by netlink (sock_diag(7)). Linux only."""

import socket
import struct
import sys
from collections.abc import Iterator

FAMILIES = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST_DUMP = 0x1 | 0x300
_LISTEN_ONLY = 1 << 10
_HEADER = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ID = struct.Struct("!HH16s16s")  # ports and addresses, as on the wire
_INTERFACE = struct.Struct("=III")
_TOLD = struct.Struct("=BBBB")
_NUMBERS = struct.Struct("=IIIII")  # expires, received, sent, uid, inode
_ANSWER_S = 2.0


def in_words(address: bytes) -> str:
    """Spell an address as /proc/net does: 32-bit words in this machine's byte order."""
    words = (address[i : i + 4] for i in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def listeners(family: int, port: int) -> list[tuple[str, int, int]]:
    """Return (address in words, uid, inode) of every socket that listens on ``port``.

    OSError when the kernel cannot tell.
    """
    any_peer = _ID.pack(port, 0, b"", b"") + _INTERFACE.pack(0, 0xFFFFFFFF, 0xFFFFFFFF)
    body = _ASK.pack(family, socket.IPPROTO_TCP, 0, _LISTEN_ONLY) + any_peer
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        return [_socket(told, family) for told in _messages(kernel) if _port(told) == port]


def _messages(kernel: socket.socket) -> Iterator[bytes]:
    while True:
        data = kernel.recv(65536)
        while data:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = struct.unpack_from("=i", data, _HEADER.size)[0]
                raise OSError(-number, "the kernel does not tell who listens")
            yield data[_HEADER.size : length]
            data = data[(length + 3) & ~3 :]


def _port(told: bytes) -> int:
    return int(_ID.unpack_from(told, _TOLD.size)[0])


def _socket(told: bytes, family: int) -> tuple[str, int, int]:
    _, _, address, _ = _ID.unpack_from(told, _TOLD.size)
    *_, uid, inode = _NUMBERS.unpack_from(told, _TOLD.size + _ID.size + _INTERFACE.size)
    return in_words(address[: 4 if family == socket.AF_INET else 16]), uid, inode
