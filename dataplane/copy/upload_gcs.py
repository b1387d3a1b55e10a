"""Sending files to Google Cloud Storage: small ones at one go, large ones by a session.

The library begins a session but can't go on with one of an earlier process: the two requests
that do so are made here, over the library's own connection with its credentials.
"""

from __future__ import annotations

import asyncio
import io
import os
from urllib.parse import urlsplit

from requests import Response

from dataplane.copy import checksums
from dataplane.copy.checksums import LENGTH
from dataplane.copy.engine import Engine
from dataplane.copy.http1 import number_of
from dataplane.copy.journal import Partial
from dataplane.copy.problems import Code, Trouble
from dataplane.copy.stores.base import Item
from dataplane.copy.stores.gcs import Gcs, item_of
from dataplane.copy.uploads import WRONG, Book, Local, Sent, Slice, Uploader, unchanged

SMALL = 2 * 1024 * 1024  # the library has all of it in memory, twice
_GOES_ON = 308
_TYPE = "application/octet-stream"


class GcsUploader(Uploader):
    def __init__(self, engine: Engine, store: Gcs, book: Book | None) -> None:
        super().__init__(engine, book)
        self._store = store

    async def send(self, local: Local, fd: int) -> None:
        try:
            sums = await self._engine.threaded(checksums.of_file, fd, ("crc32c",), 0, local.size)
            crc = sums["crc32c"]
            if local.size > SMALL:
                item = await self._session(local, fd, crc)
            else:
                item = await self._whole(local, fd, crc)
            unchanged(local, fd)
            if item.size != local.size:
                raise Trouble(Code.LENGTH, WRONG)
            said = item.sums.get("crc32c")
            if said and said != crc:
                raise Trouble(Code.CHECKSUM, WRONG)
            self._book.sent(local, Sent(item.etag, item.version, crc, "crc32c" if said else LENGTH))
            if local.size > SMALL:
                self._engine.state.journal.finish(local.path)
        finally:
            os.close(fd)

    async def _whole(self, local: Local, fd: int, crc: str) -> Item:
        """Send description and content at once; the store checks the CRC before it keeps it."""

        def sent() -> Item:
            blob = self._store.blob(local.key)
            blob.crc32c = crc
            file = io.BytesIO(Slice(self._engine, fd, 0, local.size).readall() or b"")
            blob.upload_from_file(
                file, size=local.size, content_type=_TYPE, checksum=None, retry=None
            )
            return item_of(blob)

        if wait := self._engine.hands.bucket.take(local.size):
            await asyncio.sleep(wait)
        item = await self._calls.tried(lambda: self._calls.made(sent))
        self._engine.progress.read(local.size)
        return item

    # --- a session --------------------------------------------------------------------------

    async def _session(self, local: Local, fd: int, crc: str) -> Item:
        target, fresh = await self._known(local), False
        backoff, had = self._calls.client.backoff(), 0
        while True:
            try:
                if not target:
                    target, fresh = await self._new(local, crc), True
                start, item = (0, None) if fresh else await self._there(target, local)
                if start > had:
                    backoff.fresh()
                had, fresh = start, False
                item = item or await self._rest(target, local, fd, start)
                if item is not None:
                    return item
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
        def begun() -> str:
            blob = self._store.blob(local.key)
            blob.crc32c = crc
            url: str = blob.create_resumable_upload_session(
                content_type=_TYPE, size=local.size, checksum=None, retry=None
            )
            return url

        # Only path and query are taken from it: where to connect to stays what was checked.
        parts = urlsplit(await self._calls.tried(lambda: self._calls.made(begun)))
        target = f"{parts.path}?{parts.query}"
        plain = target.isascii() and target.isprintable() and " " not in target
        if not parts.query or not parts.path.startswith("/") or not plain:
            raise Trouble(Code.IO, "The store does not begin an upload.")
        self._engine.state.journal.begin(
            Partial(local.path, local.key, local.size, local.state, local.size, target)
        )
        return target

    async def _there(self, target: str, local: Local) -> tuple[int, Item | None]:
        """Ask how much the store has; an item when it has all."""

        def asked() -> tuple[int, Item | None]:
            answer = self._put(target, b"", f"bytes */{local.size}")
            if answer.status_code != _GOES_ON:
                return local.size, self._item(answer, local)
            last = number_of(answer.headers.get("range", "").rpartition("-")[2])
            return (0 if last is None else last + 1), None

        return await self._calls.made(asked)

    async def _rest(self, target: str, local: Local, fd: int, start: int) -> Item | None:
        """Send what the store lacks; None when it wants more still."""

        def sent() -> Item | None:
            body = Slice(self._engine, fd, start, local.size)
            answer = self._put(target, body, f"bytes {start}-{local.size - 1}/{local.size}")
            return None if answer.status_code == _GOES_ON else self._item(answer, local)

        return await self._calls.made(sent)

    def _put(self, target: str, body: bytes | Slice, span: str) -> Response:
        session = self._store.client._http  # noqa: SLF001 - see above
        headers = {"content-range": span}
        answer: Response = session.put(self._store.at(target), data=body, headers=headers)
        self._store.checked(answer, _GOES_ON)
        return answer

    def _item(self, answer: Response, local: Local) -> Item:
        blob = self._store.blob(local.key)
        blob._set_properties(answer.json())  # noqa: SLF001 - as the library does itself
        return item_of(blob)

    # --- other ------------------------------------------------------------------------------

    async def delete(self, key: str) -> None:
        await self._calls.tried(
            lambda: self._calls.made(lambda: self._store.blob(key).delete(retry=None))
        )

    async def abandon(self, key: str, upload: str) -> bool:
        del key

        def given_up() -> None:
            session = self._store.client._http  # noqa: SLF001 - see above
            self._store.checked(session.delete(self._store.at(upload)), 410, 499)

        try:
            await self._calls.made(given_up)
        except Trouble as trouble:
            return trouble.code is Code.GONE
        return True
