"""Sending files to S3: small ones at one go, large ones in parts that survive a kill."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dataplane.copy import checksums
from dataplane.copy.checksums import LENGTH, MULTIPART, combine
from dataplane.copy.engine import Engine
from dataplane.copy.http1 import Head
from dataplane.copy.journal import Partial
from dataplane.copy.problems import Code, Trouble, trouble_of
from dataplane.copy.stores.s3 import S3, version_of
from dataplane.copy.uploads import (
    CHANGED,
    SMALL,
    WRONG,
    Book,
    Local,
    Sent,
    Slice,
    Uploader,
    unchanged,
)

TINY = 128 * 1024  # is sent without the library
PART = 16 * 1024 * 1024
PARTS_MOST = 9_000


@dataclass
class Part:
    number: int
    start: int
    end: int
    etag: str = ""
    sums: dict[str, str] = field(default_factory=dict)


@dataclass
class Upload:
    """One large file on its way."""

    local: Local
    fd: int
    id: str
    parts: list[Part]
    left: int = 0
    trouble: Trouble | None = None


class S3Uploader(Uploader):
    def __init__(self, engine: Engine, store: S3, book: Book | None) -> None:
        super().__init__(engine, book)
        self._store = store
        self._open: set[int] = set()

    async def send(self, local: Local, fd: int) -> None:
        if local.size > SMALL:
            await self._begin(local, fd)
            return
        try:
            if local.size <= TINY:
                head, sums = await self._tiny(local, fd)
            else:
                sums = await self._sums(fd, 0, local.size)
                said = await self._put("put_object", local.key, fd, (0, local.size), sums)
                head = Head(200, said["ResponseMetadata"]["HTTPHeaders"])
            unchanged(local, fd)
            etag = self._store.state_of(head)
            version = head.fields.get("x-amz-version-id", "").replace("null", "")
            verified = await self._verified(local, head, sums)
            self._book.sent(local, Sent(etag, version, sums["crc32c"], verified))
        finally:
            os.close(fd)

    # --- at one go --------------------------------------------------------------------------

    async def _tiny(self, local: Local, fd: int) -> tuple[Head, dict[str, str]]:
        """Send over a connection of ours: the library takes twice as long."""
        body = await self._engine.threaded(os.pread, fd, local.size, 0)
        if len(body) != local.size:
            raise Trouble(Code.CHANGED, CHANGED)
        sums = {"crc32c": checksums.text_of("crc32c", checksums.crc32c(body))}
        if self._store.compatible:
            sums["md5"] = hashlib.md5(body, usedforsecurity=False).hexdigest()
        if wait := self._engine.hands.bucket.take(len(body)):
            await asyncio.sleep(wait)
        store, calls = self._store, self._calls
        answer = await calls.tried(
            lambda: calls.once(lambda: store.put_question(local.key, body, sums))
        )
        self._engine.progress.read(len(body))
        return answer.head, sums

    async def _verified(self, local: Local, head: Head, sums: dict[str, str]) -> str:
        """Say how we know that the store has what was sent."""
        has = self._store.sums(head)
        for name in ("crc32c", "md5"):
            if name in has and name in sums:
                if has[name] != sums[name]:
                    raise Trouble(Code.CHECKSUM, WRONG)
                return name
        await self._look(local, self._store.state_of(head))
        return LENGTH

    async def _look(self, local: Local, etag: str) -> None:
        """Ask for what is there now, where the answer to sending says too little."""
        item = await self._calls.tried(lambda: self._store.described(self._calls, local.key))
        if item.size != local.size or (etag and item.etag != etag):
            raise Trouble(Code.LENGTH, WRONG)

    async def _sums(self, fd: int, start: int, end: int) -> dict[str, str]:
        # MD5 is the one sum that everything that speaks S3 knows
        names = ("crc32c", "md5") if self._store.compatible else ("crc32c",)
        return await self._engine.threaded(checksums.of_file, fd, names, start, end)

    async def _put(
        self,
        act: str,
        key: str,
        fd: int,
        span: tuple[int, int],
        sums: dict[str, str],
        **part: int | str,
    ) -> Any:
        named = {"ChecksumCRC32C": sums["crc32c"], "ContentLength": span[1] - span[0], **part}
        if "md5" in sums:
            named["ContentMD5"] = base64.b64encode(bytes.fromhex(sums["md5"])).decode()
        return await self._asked(
            act, key, lambda: {**named, "Body": Slice(self._engine, fd, *span)}
        )

    async def _asked(self, act: str, key: str, named: Callable[[], dict[str, Any]] = dict) -> Any:
        """Let boto3 do something with one key, as often as that may help."""
        store = self._store

        def once() -> Any:
            return getattr(store.client, act)(Bucket=store.bucket, Key=key, **named())

        return await self._calls.tried(lambda: self._calls.made(once))

    # --- in parts ---------------------------------------------------------------------------

    async def _begin(self, local: Local, fd: int) -> None:
        try:
            upload = await self._resumed(local, fd) or await self._new(local, fd)
        except BaseException:
            os.close(fd)
            raise
        self._open.add(fd)
        todo = [part for part in upload.parts if not part.etag]
        upload.left = len(todo) or 1
        if not todo:
            await self._ended(upload)
            return
        self._engine.work.put_first([partial(self.fetch, upload, part) for part in todo])

    async def _new(self, local: Local, fd: int) -> Upload:
        sums = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        said = await self._asked(
            "create_multipart_upload", local.key, lambda: {} if self._store.compatible else sums
        )
        upload_id = said.get("UploadId")
        if not upload_id:
            raise Trouble(Code.IO, "The store does not begin an upload in parts.")
        size = max(PART, -(-local.size // PARTS_MOST // 2**20) * 2**20)
        self._engine.state.journal.begin(
            Partial(local.path, local.key, local.size, local.state, size, upload_id)
        )
        return Upload(local, fd, upload_id, _parts(local.size, size))

    async def _resumed(self, local: Local, fd: int) -> Upload | None:
        """Take up an upload that an earlier run began, with the parts that the store has."""
        known = self._engine.state.journal.partial(local.path)
        if known is None:
            return None
        partial, marks = known
        there = None
        if partial.upload and local.is_of(partial):
            there = await self._there(local.key, partial.upload)
        if there is None:
            if partial.upload:
                await self._let_go(partial.path, partial.key, partial.upload)
            return None
        upload = Upload(local, fd, partial.upload, _parts(local.size, partial.piece))
        for part in upload.parts:
            length, noted = marks.get(part.start, (0, "{}"))
            sums = json.loads(noted)
            if length == part.end - part.start and there.get(part.number) == sums.get("etag", ""):
                part.etag, part.sums = sums["etag"], sums
        return upload

    async def _there(self, key: str, upload: str) -> dict[int, str] | None:
        """Return the parts that the store has; None when it will never tell."""
        try:
            found: dict[int, str] = {}
            marker = 0
            while True:
                at = {"UploadId": upload, **({"PartNumberMarker": marker} if marker else {})}
                said = await self._asked("list_parts", key, lambda at=at: at)  # type: ignore[misc]
                rows = said.get("Parts", ())
                try:
                    found.update((row["PartNumber"], row["ETag"].strip('"')) for row in rows)
                except KeyError:
                    raise Trouble(Code.IO, "The store's list of parts can't be read.") from None
                following = said.get("NextPartNumberMarker")
                if not said.get("IsTruncated") or not rows or following == marker:
                    return found
                marker = following
        except Trouble as trouble:
            if trouble.again:  # the store is away: its parts are for a later run
                raise
            return None

    async def _let_go(self, path: str, key: str, upload: str) -> None:
        """Give up an upload. What the store keeps stays noted, to be given up later."""
        if await self.abandon(key, upload):
            self._engine.state.journal.finish(path)
        else:
            self._engine.state.journal.set_aside(path)

    async def fetch(self, upload: Upload, part: Part) -> None:
        try:
            if upload.trouble is None:
                await self._part(upload, part)
        except Trouble as trouble:
            upload.trouble = upload.trouble or trouble
        except OSError as error:
            upload.trouble = upload.trouble or trouble_of(error)
        await self._ended(upload)

    async def _part(self, upload: Upload, part: Part) -> None:
        span = (part.start, part.end)
        sums = await self._sums(upload.fd, *span)
        named: dict[str, int | str] = {"PartNumber": part.number, "UploadId": upload.id}
        said = await self._put("upload_part", upload.local.key, upload.fd, span, sums, **named)
        if not _etag(said):
            raise Trouble(Code.IO, "The store does not say what it has of a part.")
        if said.get("ChecksumCRC32C") and said["ChecksumCRC32C"] != sums["crc32c"]:
            raise Trouble(Code.CHECKSUM, WRONG)
        part.etag, part.sums = _etag(said), {**sums, "etag": _etag(said)}
        row = (upload.local.path, part.start, part.end - part.start, json.dumps(part.sums))
        self._engine.state.journal.pieces([row])

    async def _ended(self, upload: Upload) -> None:
        upload.left -= 1
        if upload.left:
            return
        try:
            if upload.trouble is None:
                sent = await self._complete(upload)
                self._engine.state.journal.finish(upload.local.path)
                self._book.sent(upload.local, sent)
        except Trouble as trouble:
            upload.trouble = trouble
        finally:
            self._open.discard(upload.fd)
            os.close(upload.fd)
        if upload.trouble is not None:
            if not upload.trouble.again:
                await self._let_go(upload.local.path, upload.local.key, upload.id)
            self._book.failed(upload.local, upload.trouble)

    async def _complete(self, upload: Upload) -> Sent:
        unchanged(upload.local, upload.fd)
        crc, whole = _joined(upload.parts), not self._store.compatible
        parts = [
            {"PartNumber": part.number, "ETag": f'"{part.etag}"'}
            | ({"ChecksumCRC32C": part.sums["crc32c"]} if whole else {})
            for part in upload.parts
        ]
        named = {"UploadId": upload.id, "MultipartUpload": {"Parts": parts}}
        if whole:
            named |= {"ChecksumCRC32C": crc, "ChecksumType": "FULL_OBJECT"}
        said = await self._asked("complete_multipart_upload", upload.local.key, lambda: named)
        verified = await self._joined_verified(upload, said, crc)
        return Sent(_etag(said), version_of(said), crc, verified)

    async def _joined_verified(self, upload: Upload, answer: dict[str, Any], crc: str) -> str:
        said = answer.get("ChecksumCRC32C")
        if said and "-" not in said:
            if said != crc:
                raise Trouble(Code.CHECKSUM, WRONG)
            return "crc32c"
        if all("md5" in part.sums for part in upload.parts):
            whole = checksums.hasher("md5")
            for part in upload.parts:
                whole.update(bytes.fromhex(part.sums["md5"]))
            if _etag(answer) == f"{whole.hexdigest()}-{len(upload.parts)}":
                return MULTIPART
        await self._look(upload.local, _etag(answer))
        return LENGTH

    # --- other ------------------------------------------------------------------------------

    async def delete(self, key: str) -> None:
        await self._asked("delete_object", key)

    async def abandon(self, key: str, upload: str) -> bool:
        try:
            await self._asked("abort_multipart_upload", key, lambda: {"UploadId": upload})
        except Trouble as trouble:
            return trouble.code is Code.GONE
        return True

    async def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open.clear()


def _etag(said: dict[str, Any]) -> str:
    return str(said.get("ETag", "")).removeprefix("W/").strip('"')


def _parts(size: int, each: int) -> list[Part]:
    starts = range(0, size, each)
    return [Part(n, start, min(start + each, size)) for n, start in enumerate(starts, 1)]


def _joined(parts: list[Part]) -> str:
    total = 0
    for part in parts:
        value = checksums.crc_of("crc32c", part.sums["crc32c"]) or 0
        total = combine("crc32c", total, value, part.end - part.start)
    return checksums.text_of("crc32c", total)
