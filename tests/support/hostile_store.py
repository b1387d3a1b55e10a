"""An S3 server that a test tells how to misbehave, on loopback, in this process.

It speaks what the engine asks (list, head, get with ranges, put, parts) and counts bytes of
objects that really went out. A ``trick`` sees each call first and may answer it.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dataplane.copy import checksums

BLOCK = 64 * 1024
BUCKET = "bucket"


@dataclass
class Thing:
    """One object. ``sums``: headers of checksums; ``etag`` as it is without quotes."""

    body: bytes
    etag: str = ""
    sums: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    size: str = ""  # as a listing says it, where that is not true
    modified: str = "2023-11-14T22:13:20.000Z"  # as a listing says it

    def __post_init__(self) -> None:
        self.etag = self.etag or hashlib.md5(self.body).hexdigest()


@dataclass
class Call:
    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    status: int = 0
    sent: int = 0  # bytes of the body that went out
    at: float = field(default_factory=time.monotonic)


Trick = Callable[["Handler", Call], bool]


class HostileS3:
    """``things`` by raw key; ``tricks`` are asked in order, the first that answers True did."""

    def __init__(self, things: dict[bytes, Thing] | None = None, *, tls: Any = None) -> None:
        self.things: dict[bytes, Thing] = things or {}
        self.tricks: list[Trick] = []
        self.calls: list[Call] = []
        self.page = 1000
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        outer = self

        class Bound(Handler):
            store = outer

        self._server = Quiet(("127.0.0.1", 0), Bound)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._tls = tls
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def put(self, key: str | bytes, body: bytes, **more: Any) -> Thing:
        raw = key.encode() if isinstance(key, str) else key
        self.things[raw] = Thing(body, **more)
        return self.things[raw]

    def read(self) -> int:
        """How many bytes of objects went out."""
        return sum(c.sent for c in self.calls if c.method == "GET" and c.key)

    def be_busy(self, times: int) -> None:
        """Ask for fewer calls as often as ``times``, whatever object is asked for."""
        left = iter(range(times))

        def slow_down(handler: Handler, call: Call) -> bool:
            if not call.key or next(left, None) is None:
                return False
            handler.error(503, "SlowDown")
            return True

        self.tricks.append(slow_down)

    def place(self, prefix: str = "", **more: Any) -> dict[str, Any]:
        return {
            "kind": "s3-compatible",
            "bucket": BUCKET,
            "prefix": prefix,
            "objects": None,
            "endpoint": self.url,
            "region": "us-east-1",
            "path_style": True,
            "anonymous": False,
            "access_key": "KEYOFTHETEST",
            "secret_key": "secretofthetest",
            **more,
        }

    def outbound(self) -> dict[str, Any]:
        host = f"127.0.0.1:{self.port}"
        return {"allow": [f"127.0.0.0/8:{self.port}"], "ports": [443], "insecure_hosts": [host]}


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_args: Any) -> None: ...


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: HostileS3
    disable_nagle_algorithm = True

    def log_message(self, *_args: Any) -> None: ...

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key = unquote(parts.path.removeprefix(f"/{BUCKET}").removeprefix("/"), errors="replace")
        call = Call(
            self.command,
            key,
            dict(parse_qsl(parts.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
        )
        with self.store.lock:
            self.store.calls.append(call)
        self.call = call
        self.raw_key = _raw(parts.path)
        if any(trick(self, call) for trick in list(self.store.tricks)):
            return
        getattr(self, f"on_{self.command.lower()}")(call)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names

    # --- reading ----------------------------------------------------------------------------

    def on_get(self, call: Call) -> None:
        if "uploadId" in call.query:
            self.parts(call)
        elif call.key:
            self.give()
        else:
            self.listing(call)

    def on_head(self, call: Call) -> None:
        thing = self.store.things.get(self.raw_key)
        if thing is None:
            self.say(404, b"")
            return
        self.say(200, b"", {**described(thing), "Content-Length": str(len(thing.body))})

    def give(self, thing: Thing | None = None, **wrong: Any) -> None:
        """Give an object, or what ``wrong`` makes of it: cut, length, pause, extra, headers.

        ``framing`` is no lie: "chunked", or "closed" where the end of the connection ends it.
        """
        thing = thing or self.store.things.get(self.raw_key)
        if thing is None:
            self.error(404, "NoSuchKey")
            return
        wanted = self.call.headers.get("if-match", "").strip('"')
        if wanted and wanted != thing.etag:
            self.error(412, "PreconditionFailed")
            return
        status, body, headers = 200, thing.body, described(thing)
        span = self.call.headers.get("range", "").removeprefix("bytes=")
        if span and not wrong.get("no_ranges"):
            first, last = (int(part) for part in span.split("-"))
            body = thing.body[first : last + 1]
            status = 206
            headers["Content-Range"] = f"bytes {first}-{last}/{len(thing.body)}"
            headers = {k: v for k, v in headers.items() if not k.startswith("x-amz-checksum")}
        headers["Content-Length"] = str(wrong.get("length", len(body)))
        headers |= wrong.get("headers", {})
        framing = wrong.get("framing", "length")
        if framing != "length":
            del headers["Content-Length"]
            headers |= {"Transfer-Encoding": "chunked"} if framing == "chunked" else {}
            self.close_connection = framing == "closed"
        self.start(status, headers)
        if framing == "chunked":
            self.chunked(body[: wrong.get("cut", len(body))] + wrong.get("extra", b""))
            return
        self.pour(body[: wrong.get("cut", len(body))], wrong.get("pause", 0.0), wrong.get("step"))
        if "cut" in wrong or "length" in wrong:
            self.close_connection = True

    def pour(self, body: bytes, pause: float = 0.0, step: int | None = None) -> None:
        step = step or BLOCK
        for at in range(0, len(body), step):
            self.wfile.write(body[at : at + step])
            self.call.sent += len(body[at : at + step])
            if pause:
                time.sleep(pause)

    def chunked(self, body: bytes, step: int = 100_003) -> None:
        for at in range(0, len(body), step):
            piece = body[at : at + step]
            self.wfile.write(b"%x;name=value\r\n%b\r\n" % (len(piece), piece))
            self.call.sent += len(piece)
        self.wfile.write(b"0\r\nX-Trailer: told\r\n\r\n")

    def listing(self, call: Call) -> None:
        prefix = call.query.get("prefix", "").encode()
        keys = sorted(key for key in self.store.things if key.startswith(prefix))
        after = base64.b64decode(call.query.get("continuation-token", ""))
        after = after or call.query.get("start-after", "").encode()
        keys = [key for key in keys if key > after] if after else keys
        page = min(self.store.page, int(call.query.get("max-keys", 1000)))
        more = len(keys) > page
        rows = "".join(row_xml(key, self.store.things[key]) for key in keys[:page])
        token = base64.b64encode(keys[page - 1]).decode() if more else ""
        self.say(200, list_xml(rows, token))

    # --- writing ----------------------------------------------------------------------------

    def on_put(self, call: Call) -> None:
        body = self.rfile.read(int(call.headers.get("content-length", 0)))
        wanted = call.headers.get("content-md5")
        if wanted and base64.b64decode(wanted) != hashlib.md5(body).digest():
            self.error(400, "BadDigest")
            return
        if "uploadId" in call.query:
            upload = self.store.uploads.get(call.query["uploadId"])
            if upload is None:
                self.error(404, "NoSuchUpload")
                return
            upload[int(call.query["partNumber"])] = body
        else:
            self.store.put(self.raw_key, body)
        self.say(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def on_post(self, call: Call) -> None:
        body = self.rfile.read(int(call.headers.get("content-length", 0)))
        if "uploads" in call.query:
            name = f"upload-{len(self.store.uploads)}"
            self.store.uploads[name] = {}
            answer = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
            self.say(200, f"{answer}</InitiateMultipartUploadResult>".encode())
            return
        upload = self.store.uploads.pop(call.query["uploadId"])
        assert body.count(b"<Part>") == len(upload)
        digests = b"".join(hashlib.md5(upload[n]).digest() for n in sorted(upload))
        etag = f"{hashlib.md5(digests).hexdigest()}-{len(upload)}"
        self.store.put(self.raw_key, b"".join(upload[n] for n in sorted(upload)), etag=etag)
        answer = f"<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag>"
        self.say(200, f"{answer}</CompleteMultipartUploadResult>".encode())

    def parts(self, call: Call) -> None:
        upload = self.store.uploads.get(call.query["uploadId"])
        if upload is None:
            self.error(404, "NoSuchUpload")
            return
        rows = "".join(
            f"<Part><PartNumber>{n}</PartNumber><ETag>{hashlib.md5(b).hexdigest()}</ETag></Part>"
            for n, b in sorted(upload.items())
        )
        self.say(200, f"<ListPartsResult>{rows}</ListPartsResult>".encode())

    def on_delete(self, call: Call) -> None:
        if "uploadId" in call.query:
            self.store.uploads.pop(call.query["uploadId"], None)
        else:
            self.store.things.pop(self.raw_key, None)
        self.say(204, b"")

    # --- answers ----------------------------------------------------------------------------

    def start(self, status: int, headers: dict[str, str]) -> None:
        self.call.status = status
        self.send_response_only(status)
        for name, value in ({"Date": formatdate(usegmt=True)} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.start(status, {"Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        if self.command == "PUT":
            self.close_connection = True
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self.say(status, body, headers)


def _raw(path: str) -> bytes:
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(path).removeprefix(f"/{BUCKET}".encode()).removeprefix(b"/")


def described(thing: Thing) -> dict[str, str]:
    sums = {f"x-amz-checksum-{name}": value for name, value in thing.sums.items()}
    when = formatdate(1_700_000_000, usegmt=True)
    return {"ETag": f'"{thing.etag}"', "Last-Modified": when, **sums, **thing.headers}


def row_xml(key: bytes, thing: Thing) -> str:
    return (
        f"<Contents><Key>{quote(key)}</Key><LastModified>{thing.modified}</LastModified>"
        f"<ETag>&quot;{thing.etag}&quot;</ETag><Size>{thing.size or len(thing.body)}</Size></Contents>"
    )


def list_xml(rows: str, token: str = "") -> bytes:
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}"
        f"<EncodingType>url</EncodingType>{rows}</ListBucketResult>"
    ).encode()


def with_crc(body: bytes, name: str = "crc32c") -> dict[str, str]:
    """The checksum that a newer store gives beside an ETag that says nothing."""
    return {name: checksums.text_of(name, checksums.updater(name)(body, 0))}
