"""Clients that keep nothing: how fast the server and this machine are without anybody's work.

Run by the stores' Python:  loads_null.py get|list < {"endpoint", "bucket", "prefix", …}
Standard output: the seconds. URLs are signed before the clock starts.
"""

import json
import os
import re
import socket
import sys
import time
from typing import Any
from urllib.parse import urlsplit

PROCESSES = 8
RANGE = 64 * 2**20
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
NEXT = re.compile(rb"<NextContinuationToken>([^<]+)<")
Want = tuple[str, str]  # the address and what of it ("" is all)


def client(about: dict[str, Any]) -> Any:
    from boto3.session import Session
    from botocore.config import Config

    return Session().client(
        "s3",
        endpoint_url=about["endpoint"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )


class Line:
    """One kept connection that throws away what it reads."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self.host = parts.netloc
        self.socket = socket.create_connection((str(parts.hostname), parts.port or 80))
        self.buffer = memoryview(bytearray(2**20))

    def get(self, url: str, span: str = "", *, keep: bool = False) -> bytes:
        parts = urlsplit(url)
        more = f"Range: {span}\r\n" if span else ""
        ask = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {self.host}\r\n{more}\r\n"
        self.socket.sendall(ask.encode())
        head = b""
        while (end := head.find(b"\r\n\r\n")) < 0:
            block = self.socket.recv(65536)
            if not block:
                raise ConnectionError
            head += block
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(head[:2000].decode(errors="replace"))
        found = LENGTH.search(head[:end])
        body = head[end + 4 :]
        left = int(found[1]) - len(body) if found else 0
        if keep:
            while left:
                block = self.socket.recv(65536)
                body, left = body + block, left - len(block)
            return body
        while left:
            left -= self.socket.recv_into(self.buffer, min(left, len(self.buffer)))
        return b""


def wanted(about: dict[str, Any]) -> list[Want]:
    if "urls" in about:
        return [(url, "") for url in about["urls"]]
    store = client(about)
    found: list[Want] = []
    pages = store.get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=about["bucket"], Prefix=about["prefix"]):
        for item in page.get("Contents", ()):
            key = {"Bucket": about["bucket"], "Key": item["Key"]}
            url = store.generate_presigned_url("get_object", Params=key)
            size = item["Size"]
            spans = range(0, size, RANGE) if size > RANGE else ()
            found += [(url, f"bytes={s}-{min(s + RANGE, size) - 1}") for s in spans]
            if not spans:
                found.append((url, ""))
    return found


def get(about: dict[str, Any]) -> float:
    wants = wanted(about)
    begin_r, begin_w = os.pipe()
    children = []
    for number in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            line = Line(about["endpoint"])
            os.close(begin_w)
            os.read(begin_r, 1)  # until all are there
            for url, span in wants[number::PROCESSES]:
                line.get(url, span)
            os._exit(0)
        children.append(pid)
    os.close(begin_r)
    time.sleep(0.5)
    begin = time.perf_counter()
    os.close(begin_w)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    seconds = time.perf_counter() - begin
    if any(codes):
        raise RuntimeError(f"null clients ended with {codes}")
    return seconds


def listed(about: dict[str, Any]) -> float:
    """One page after the other, as listing has to go."""
    store, line = client(about), Line(about["endpoint"])
    ask = {"Bucket": about["bucket"], "Prefix": about["prefix"]}
    seconds, count = 0.0, 0
    while True:
        url = store.generate_presigned_url("list_objects_v2", Params=ask)
        begin = time.perf_counter()
        page = line.get(url, keep=True)
        more = NEXT.search(page)
        count += page.count(b"<Key>")
        seconds += time.perf_counter() - begin
        if more is None:
            break
        ask["ContinuationToken"] = more[1].decode()
    if count != about["count"]:
        raise RuntimeError(f"{count} listed, not {about['count']}")
    return seconds


if __name__ == "__main__":
    print({"get": get, "list": listed}[sys.argv[1]](json.load(sys.stdin)))
