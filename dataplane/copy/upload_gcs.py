"""Sending files to Google Cloud Storage: small ones at one go, large ones by a session."""

from __future__ import annotations

import json
import os
import secrets
from urllib.parse import quote, urlsplit

from dataplane.copy import checksums
from dataplane.copy.calls import OK
from dataplane.copy.checksums import LENGTH
from dataplane.copy.engine import Engine
from dataplane.copy.head import number_of
from dataplane.copy.http1 import Answer
from dataplane.copy.journal import Partial
from dataplane.copy.problems import Code, Trouble
from dataplane.copy.stores.base import Question
from dataplane.copy.stores.gcs import Gcs, json_of
from dataplane.copy.uploads import SMALL, WRONG, Body, Book, Local, Nobody, Sent, unchanged

_GOES_ON = 308
_WITH_308 = OK | {_GOES_ON, 201}
_FIELDS = "name,size,generation,crc32c,md5Hash"


class GcsUploader:
    def __init__(self, engine: Engine, store: Gcs, book: Book | None) -> None:
        self._engine = engine
        self._calls = engine.calls
        self._store = store
        self._book = book or Nobody()
        self._root = f"/upload/storage/v1/b/{quote(store.bucket, safe='-._~')}/o"

    async def send(self, local: Local, fd: int) -> None:
        try:
            sums = await self._engine.threaded(checksums.of_file, fd, ("crc32c",), 0, local.size)
            if local.size > SMALL:
                answer = await self._session(local, fd, sums["crc32c"])
            else:
                answer = await self._whole(local, fd, sums["crc32c"])
            unchanged(local, fd)
            self._book.sent(local, _sent(answer, local, sums["crc32c"]))
            if local.size > SMALL:
                self._engine.state.journal.finish(local.path)
        finally:
            os.close(fd)

    async def _whole(self, local: Local, fd: int, crc: str) -> Answer:
        """Send description and content at once; the store checks the CRC before it keeps it."""
        mark = secrets.token_hex(16)
        described = json.dumps({"name": local.key, "crc32c": crc})
        before = (
            f"--{mark}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{described}\r\n"
            f"--{mark}\r\ncontent-type: application/octet-stream\r\n\r\n"
        ).encode()
        body = Body(self._engine, fd, 0, local.size, (before, f"\r\n--{mark}--\r\n".encode()))
        headers = {
            "content-type": f"multipart/related; boundary={mark}",
            "content-length": str(body.length),
        }
        target = f"{self._root}?uploadType=multipart&fields={quote(_FIELDS, safe='')}"
        return await self._calls.tried(
            lambda: self._calls.once(
                lambda: self._store.question("POST", target, headers), body=body
            )
        )

    # --- a session --------------------------------------------------------------------------

    async def _session(self, local: Local, fd: int, crc: str) -> Answer:
        target, fresh = await self._known(local), False
        backoff, had = self._calls.client.backoff(), 0
        while True:
            try:
                if not target:
                    target, fresh = await self._new(local, crc), True
                start, answer = (0, None) if fresh else await self._asked(target, local)
                if start > had:
                    backoff.fresh()
                had, fresh = start, False
                answer = answer or await self._rest(target, local, fd, start)
                if answer.head.status != _GOES_ON:
                    return answer
            except Trouble as trouble:
                lost = trouble.code in {Code.GONE, Code.IO} and not trouble.again
                if lost:  # the session has ended; another one begins from the start
                    target = ""
                again = Trouble(trouble.code, trouble.message, again=True)
                await self._calls.after(again if lost else trouble, backoff)

    async def _known(self, local: Local) -> str:
        known = self._engine.state.journal.partial(local.path)
        if known is None:
            return ""
        partial = known[0]
        if local.is_of(partial):
            return partial.upload
        if partial.upload:  # of other content; if it is kept nevertheless, it ends in a week
            await self.abandon(partial.key, partial.upload)
        return ""

    async def _new(self, local: Local, crc: str) -> str:
        described = json.dumps({"name": local.key, "crc32c": crc}).encode()
        headers = {
            "content-type": "application/json; charset=utf-8",
            "content-length": str(len(described)),
            "x-upload-content-length": str(local.size),
            "x-upload-content-type": "application/octet-stream",
        }

        def ask() -> Question:
            head = self._store.question("POST", f"{self._root}?uploadType=resumable", headers)
            return Question(head.method, head.raw + described)

        answer = await self._calls.tried(lambda: self._calls.once(ask, good=_WITH_308))
        # Only path and query are taken from it: where to connect to stays what was checked.
        parts = urlsplit(answer.head.fields.get("location", ""))
        if not parts.query or not parts.path.startswith("/"):
            raise Trouble(Code.IO, "The store does not begin an upload.")
        target = f"{parts.path}?{parts.query}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise Trouble(Code.IO, "The store does not begin an upload.")
        self._engine.state.journal.begin(
            Partial(local.path, local.key, local.size, local.state, local.size, target)
        )
        return target

    async def _asked(self, target: str, local: Local) -> tuple[int, Answer | None]:
        """Ask how much the store has; an answer when it has all."""
        headers = {"content-length": "0", "content-range": f"bytes */{local.size}"}
        answer = await self._calls.once(
            lambda: self._store.question("PUT", target, headers), good=_WITH_308
        )
        if answer.head.status != _GOES_ON:
            return local.size, answer
        span = answer.head.fields.get("range", "")
        last = number_of(span.rpartition("-")[2])
        return (0 if last is None else last + 1), None

    async def _rest(self, target: str, local: Local, fd: int, start: int) -> Answer:
        headers = {
            "content-length": str(local.size - start),
            "content-range": f"bytes {start}-{local.size - 1}/{local.size}",
        }
        body = Body(self._engine, fd, start, local.size)
        return await self._calls.once(
            lambda: self._store.question("PUT", target, headers), body=body, good=_WITH_308
        )

    # --- other ------------------------------------------------------------------------------

    async def delete(self, key: str) -> None:
        await self._calls.tried(
            lambda: self._calls.once(
                lambda: self._store.question("DELETE", self._store.target(key))
            )
        )

    async def abandon(self, key: str, upload: str) -> bool:
        del key
        try:
            await self._calls.once(
                lambda: self._store.question("DELETE", upload, {"content-length": "0"}),
                good=OK | {410, 499},  # given up, or ended by itself
            )
        except Trouble as trouble:
            return trouble.code is Code.GONE
        return True

    async def close(self) -> None:
        return


def _sent(answer: Answer, local: Local, crc: str) -> Sent:
    data = json_of(answer.body) or {}
    if number_of(str(data.get("size", ""))) != local.size:
        raise Trouble(Code.LENGTH, WRONG)
    generation = str(data.get("generation", ""))
    said = data.get("crc32c")
    if said and said != crc:
        raise Trouble(Code.CHECKSUM, WRONG)
    return Sent(generation, generation, crc, "crc32c" if said else LENGTH)
