"""CSV that a spreadsheet shows and never runs (B3)."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse

_ACTIVE = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: Any) -> str:
    """Return text that no spreadsheet takes for a formula; numbers stay numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    text = "" if value is None else str(value)
    text = text.replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_ACTIVE) else text


def lines(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the file line by line; a byte order mark lets Excel read UTF-8."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    yield "\ufeff"
    writer.writerow(head)
    for row in rows:
        writer.writerow([cell(v) for v in row])
        if buffer.tell() > 1 << 15:
            yield _drain(buffer)
    yield _drain(buffer)


def _drain(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def download(
    name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """Return the streamed file as a download."""
    response = StreamingHttpResponse(lines(head, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
