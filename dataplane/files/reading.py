"""A file as it is, or a part of it (RFC 9110: Range, If-Range, ETag)."""

from __future__ import annotations

import os
import re
from email.message import Message
from email.utils import formatdate
from urllib.parse import quote

from dataplane.files import names
from dataplane.files.http import Sent
from dataplane.files.refusals import Refusal
from dataplane.files.tree import Tree, open_file

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


def download(tree: Tree, path: str, headers: Message) -> Sent:
    with tree.opened() as top:
        fd, info = open_file(top, path)
    mark = f'"{info.st_ino:x}-{info.st_size:x}-{info.st_mtime_ns:x}"'
    name = quote(names.readable(names.split(path)[1]), safe="")
    told = {
        "ETag": mark,
        "Last-Modified": formatdate(max(0, info.st_mtime), usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if headers.get("If-None-Match", "") == mark:
        os.close(fd)
        return Sent(status=304, headers=told)
    told["Content-Type"] = "application/octet-stream"
    told["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
    size = info.st_size
    wanted = headers.get("Range", "")
    if not wanted or headers.get("If-Range", mark) != mark:
        return Sent(file=fd, length=size, headers=told)
    try:
        part = _part(wanted, size)
    except Refusal:
        os.close(fd)
        return Sent(
            {"code": "range", "detail": "There is no such part of the file."},
            416,
            headers={"Content-Range": f"bytes */{size}"},
        )
    if part is None:
        return Sent(file=fd, length=size, headers=told)
    start, end = part
    told["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Sent(status=206, file=fd, start=start, length=end - start, headers=told)


def _part(wanted: str, size: int) -> tuple[int, int] | None:
    """Return (start, end) of the one part that is asked for.

    None: all of it, which answers a question for several parts, or in other units.
    """
    found = _RANGE.match(wanted)
    if not found and (not wanted.startswith("bytes=") or "," in wanted):
        return None
    if not found or found.group(0) == "bytes=-":
        raise Refusal(416, "range", "There is no such part of the file.")
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise Refusal(416, "range", "There is no such part of the file.")
    return start, end
