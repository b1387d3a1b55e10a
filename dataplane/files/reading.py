"""A file as it is, a part of it (RFC 9110: Range, If-Range, ETag), or its beginning for people.

A preview is text with its encoding guessed, a picture or a notebook. Nothing that could be run
leaves here: a notebook becomes plain cells and outputs (no HTML, no script, no SVG), a picture is
one of the kinds whose first bytes say so.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import os
import re
from email.message import Message
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from dataplane.files import memory, names
from dataplane.files.http import Sent
from dataplane.files.memory import Share
from dataplane.files.names import Refusal
from dataplane.files.tree import Tree, open_file
from dataplane.safepath import Folder

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")
MOST_TEXT = 256 * 1024
MOST_NOTEBOOK = 8 * 1024 * 1024
MOST_IMAGE = 32 * 1024 * 1024
_MOST_CELLS = 500
_MOST_OUTPUT = 20_000  # characters
_MOST_PICTURES = 4 * 1024 * 1024  # base64 characters of one notebook
_SNIFF = 32
_LEAST = 128 * 1024
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_JAPANESE = re.compile("[぀-ヿ一-鿿]")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


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


def preview(top: Folder, path: str, held: Share) -> dict[str, Any]:
    """``held`` is what it takes, until it was sent."""
    fd, info = open_file(top, path)
    with os.fdopen(fd, "rb") as file:
        size = info.st_size
        may_be_notebook, more = path.endswith(".ipynb") and size <= MOST_NOTEBOOK, 0
        if may_be_notebook:
            # All of it at once: who held a part and asked for the rest would be refused beside
            # others who do the same, and none of them would be served.
            parts = (file.read(memory.MIB) for _start in range(0, size, memory.MIB))
            more = sum(memory.json_more(part) for part in parts)
            may_be_notebook = more <= memory.MOST_MORE
            file.seek(0)
        if may_be_notebook:
            held.need(max(memory.LEAST_LARGE, memory.json_bytes(size) + more))
        else:
            held.need(_LEAST + 15 * min(size, MOST_TEXT))
        head = file.read(MOST_TEXT)
        if kind := image_type(head):
            return {"kind": "image", "type": kind, "size": size, "fits": size <= MOST_IMAGE}
        if may_be_notebook:
            file.seek(0)
            data = file.read(size)
            if memory.json_more(data) > more:  # another one by now
                raise memory.busy()
            found = notebook(data)
            if found is not None:
                return {"kind": "notebook", "size": size, **found}
    text = text_of(head, whole=size <= len(head))
    if text is None:
        return {"kind": "binary", "size": size, "head": head[:512].hex()}
    words, encoding = text
    truncated = size > len(head)
    return {
        "kind": "text",
        "size": size,
        "text": words,
        "encoding": encoding,
        "truncated": truncated,
    }


def image(top: Folder, path: str) -> tuple[int, int, str]:
    """Return (fd, size, content type) of a picture; refused when it is none."""
    fd, info = open_file(top, path)
    kind = image_type(os.pread(fd, _SNIFF, 0))
    if kind and info.st_size <= MOST_IMAGE:
        return fd, info.st_size, kind
    os.close(fd)
    if kind:
        raise Refusal(413, "too-large", "This picture is too large to be shown here.")
    raise Refusal(415, "not-image", "This is not a picture that can be shown.")


def image_type(head: bytes) -> str:
    """Return the kind by its first bytes; names and what they promise count for nothing."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind if magic != b"BM" or head[6:10] == b"\0\0\0\0" else ""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:12] in {b"ftypavif", b"ftypavis"}:
        return "image/avif"
    return ""


def text_of(head: bytes, *, whole: bool) -> tuple[str, str] | None:
    """Return (text, encoding), or None for what is no text."""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return head.decode(encoding, "replace"), encoding.removesuffix("-sig")
    if b"\0" in head:
        return None
    if (words := _decoded(head, "utf-8", whole=whole)) is not None:
        return words, "utf-8"
    guesses = [
        (len(_JAPANESE.findall(words)), words, encoding)
        for encoding in ("cp932", "euc_jp")
        if (words := _decoded(head, encoding, whole=whole)) is not None
    ]
    best = max(guesses, default=None, key=lambda guess: guess[0])
    if best is not None and best[0] * 4 > sum(ord(c) > 127 for c in best[1]):  # noqa: PLR2004
        return best[1], {"cp932": "shift_jis"}.get(best[2], best[2])
    if sum(c < 9 or 13 < c < 32 for c in head) * 20 > len(head):  # noqa: PLR2004 - control bytes
        return None
    return head.decode("cp1252", "replace"), "windows-1252"


def _decoded(head: bytes, encoding: str, *, whole: bool) -> str | None:
    """Decode strictly; a character that is cut at the end of a part is no error."""
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(head, final=whole)
    except UnicodeDecodeError:
        return None


# --- notebooks ----------------------------------------------------------------------------


def notebook(data: bytes) -> dict[str, Any] | None:
    """Return cells and outputs as plain values; None when it is no notebook."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = said.get("cells") if isinstance(said, dict) else None
    if not isinstance(cells, list):
        return None
    room = [_MOST_PICTURES]
    found = [_cell(cell, room) for cell in cells[:_MOST_CELLS] if isinstance(cell, dict)]
    meta = said.get("metadata")
    language = _word(_inside(_inside(meta, "language_info"), "name"))
    return {"cells": found, "language": language, "truncated": len(cells) > _MOST_CELLS}


def _cell(cell: dict[str, Any], room: list[int]) -> dict[str, Any]:
    kind = _word(cell.get("cell_type"))
    found: dict[str, Any] = {
        "type": kind if kind in {"code", "markdown"} else "raw",
        "source": _text(cell.get("source"), MOST_TEXT),
    }
    if kind == "code":
        count = cell.get("execution_count")
        outputs = cell.get("outputs")
        found["count"] = count if isinstance(count, int) else None
        found["outputs"] = [
            _output(one, room)
            for one in (outputs if isinstance(outputs, list) else [])[:100]
            if isinstance(one, dict)
        ]
    return found


def _output(output: dict[str, Any], room: list[int]) -> dict[str, Any]:
    kind = output.get("output_type")
    if kind == "stream":
        return {"type": "text", "text": _text(output.get("text"), _MOST_OUTPUT)}
    if kind == "error":
        lines = output.get("traceback")
        words = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
        words = words or f"{output.get('ename', '')}: {output.get('evalue', '')}"
        return {"type": "error", "text": _text(words, _MOST_OUTPUT)}
    data = output.get("data")
    data = data if isinstance(data, dict) else {}
    for mime in _PICTURES:
        if mime in data and (picture := _picture(data[mime], room)):
            return {"type": "image", "mime": mime, "data": picture}
    if "text/plain" in data:
        return {"type": "text", "text": _text(data["text/plain"], _MOST_OUTPUT)}
    return {"type": "omitted", "mime": ", ".join(sorted(str(m)[:60] for m in data)[:4])}


def _picture(value: Any, room: list[int]) -> str:
    """Return base64 of a picture that is one; "" beyond what a notebook may show."""
    text = "".join(_text(value, room[0] + 1).split())
    if not text or len(text) > room[0]:
        return ""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    if image_type(raw[:_SNIFF]) not in _PICTURES:
        return ""
    room[0] -= len(text)
    return text


def _text(value: Any, most: int) -> str:
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    return _ANSI.sub("", text[: most + 1])[:most]


def _inside(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _word(value: Any) -> str:
    return value[:40] if isinstance(value, str) else ""
