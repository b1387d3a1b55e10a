"""Talking to the supervisor: one short connection for each request, so any thread may ask."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runtime.drivers.local.json_lines import HEARTBEAT_S, encode
from runtime.protocol import Denied, DriverError, InvalidSpec, NoCapacity, NotYet, Unreachable

_TIMEOUT_S = 30.0
_STOP_CHECK_S = 1.0
_SILENCE_S = HEARTBEAT_S * 2.5

_KINDS: dict[str, type[DriverError]] = {
    "invalid-spec": InvalidSpec,
    "denied": Denied,
    "no-capacity": NoCapacity,
}


class Client:
    """Blocking client of the supervisor's socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(str(self.path))
        except OSError as problem:
            connection.close()
            raise Unreachable(
                f"the workload supervisor does not answer ({problem.strerror})",
                reason="unreachable",
            ) from problem
        return connection

    def ask(self, verb: str, **fields: Any) -> Any:
        """Ask once; raise what the answer says."""
        with self._connect() as connection:
            try:
                connection.sendall(encode({"verb": verb, **fields}))
                with connection.makefile("rb") as lines:
                    line = lines.readline()
            except OSError as problem:
                raise Unreachable(
                    "the workload supervisor went away", reason="unreachable"
                ) from problem
        if not line.endswith(b"\n"):
            raise Unreachable("the workload supervisor went away", reason="unreachable")
        return _result(json.loads(line))

    def follow(self, *, stop: Callable[[], bool]) -> Iterator[list[dict[str, Any]]]:
        """Yield the lists of ``watch`` until ``stop``; raise Unreachable when it breaks."""
        with self._connect() as connection:
            buffer, silent = b"", 0.0
            connection.settimeout(_STOP_CHECK_S)
            try:
                connection.sendall(encode({"verb": "watch"}))
                while not stop():
                    try:
                        data = connection.recv(1 << 18)
                    except TimeoutError:
                        silent += _STOP_CHECK_S
                        if silent > _SILENCE_S:
                            break
                        continue
                    if not data:
                        break
                    silent = 0.0
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        yield json.loads(line)["items"]
            except OSError as problem:
                raise Unreachable("the watch broke", reason="unreachable") from problem
        if not stop():
            raise Unreachable("the watch broke", reason="unreachable")


def _result(answer: dict[str, Any]) -> Any:
    kind = answer.get("error")
    if kind is None:
        return answer["result"]
    message, reason = str(answer.get("message", "")), str(answer.get("reason", ""))
    if kind == "not-yet":
        raise NotYet(message, retry_in=float(answer.get("retry_in") or 1.0))
    raise _KINDS.get(kind, DriverError)(message, reason=reason)
