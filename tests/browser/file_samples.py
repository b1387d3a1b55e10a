"""Files that the tests of the files page upload."""

from __future__ import annotations

import json
import struct
import zlib


def png(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + b"\x20\x80\xc0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", head)
        + part(b"IDAT", zlib.compress(rows))
        + part(b"IEND", b"")
    )


def notebook() -> bytes:
    html = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    outputs = [
        {"output_type": "stream", "text": "forty-two"},
        {"output_type": "display_data", "data": {"text/html": html}},
    ]
    cells = [
        {"cell_type": "markdown", "source": f"# A title\n{html}"},
        {"cell_type": "code", "execution_count": 1, "source": html, "outputs": outputs},
    ]
    return json.dumps({"cells": cells, "metadata": {}}).encode()
