"""What a program tells among the lines of its log (``names.EVENTS``), read on where it was left.

A cursor is the id of a container and the stamp of the last line that was read of it. So a look
costs what was printed since the one before, whichever process looks, and a container that takes
another's place is read from its begin once the one before it is read to its end. The API counts
whole seconds: what was read of the last one comes again and is left out.

A line that is longer than an answer (a bar of progress ends none) is stepped over by seconds, twice
as many each time that there still is no end of it: their number stands last in the cursor then.

A stop keeps the newest in a Secret, in the same form, for their containers go with their pods.
"""

import base64
import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from runtime.capabilities.workloads import EventLines
from runtime.drivers.kubernetes import observe
from runtime.drivers.kubernetes.client import Object

KEY = "events.gz"  # of the Secret that keeps the end of the log
KEEP_BYTES = 192 * 1024
_MOST_S = 256  # of one step over a line without an end
_LINE = 4096  # a longer one is none of an event
_STAMP = re.compile(r"\A(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


class Source(NamedTuple):
    """One container of which the node still has the log."""

    pod: Object
    container: str
    previous: bool  # the one before the node's own restart


class Line(NamedTuple):
    container: str
    stamp: str
    text: bytes


def sources(pods: Iterable[Object]) -> list[Source]:
    """Return the main containers of these pods in their order."""
    found: dict[str, Source] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", ""))):
        status = observe.main_status(pod)
        ended = (status.get("lastState") or {}).get("terminated") or {}
        for previous, told in ((True, ended), (False, status)):
            if container := str(told.get("containerID") or ""):
                found.setdefault(container, Source(pod, container, previous))
    return list(found.values())


def stamped(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each line with its stamp; what is not whole yet is left out."""
    for line in text.split(b"\n")[:-1]:
        stamp, _, rest = line.partition(b" ")
        yield stamp.decode(errors="replace"), rest


def is_event(line: bytes) -> bool:
    text = line.strip()
    return len(line) <= _LINE and text[:1] == b"{" and text[-1:] == b"}" and b'_time"' in text


def order(stamp: str) -> tuple[str, str]:
    """Return what sorts, of one node: a fraction may lack its last zeros."""
    found = _STAMP.match(stamp)
    return (found[1], (found[2] or ".").ljust(10, "0")) if found else ("", "")


def second(stamp: str, *, after: int = 0) -> str:
    """Return the second of a stamp, from which to ask on; "": from the begin."""
    if (found := _STAMP.match(stamp)) is None:
        return ""
    at = datetime.fromisoformat(found[1]) + timedelta(seconds=after)
    return f"{at.isoformat()}{found[3]}"


def place(cursor: str) -> tuple[str, str, int]:
    """Return the container of a cursor, the stamp, and the seconds of the last step; 0: none."""
    container, _, rest = cursor.partition(" ")
    stamp, _, step = rest.partition(" ")
    return container, stamp, int(step) if step.isdecimal() else 0


def stepped(container: str, stamp: str, text: bytes, last: int) -> str:
    """Return the cursor beyond an answer without an end of line, from where its text begins."""
    first = text.partition(b" ")[0].decode(errors="replace")
    step = min(max(1, last * 2), _MOST_S)
    return f"{container} {second(max(stamp, first, key=order), after=step)} {step}"


def packed(containers: Sequence[str], lines: Sequence[Line]) -> str:
    """Return the newest as a Secret's value. The containers are named, also one without events."""
    room, kept = KEEP_BYTES, []
    for line in reversed(lines):
        row = f"{line.container} {line.stamp} ".encode() + line.text
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    whole = b"\n".join([" ".join(containers).encode(), *reversed(kept)])
    return base64.b64encode(gzip.compress(whole, 6)).decode()


def unpacked(value: str, cursor: str) -> EventLines:
    """Return what came after the cursor of what a stop kept."""
    try:
        head, *rows = gzip.decompress(base64.b64decode(value)).split(b"\n")
    except (OSError, EOFError, ValueError):
        return EventLines(b"", cursor)
    containers = head.decode().split()
    container, stamp, _step = place(cursor)
    at = containers.index(container) if container in containers else -1
    data = bytearray()
    for row in rows:
        its, when, text = row.split(b" ", 2)
        number = containers.index(its.decode())
        if number < at or (number == at and order(when.decode()) <= order(stamp)):
            continue
        data += text + b"\n"
        cursor = f"{its.decode()} {when.decode()}"
    return EventLines(bytes(data), cursor, read=len(value))
