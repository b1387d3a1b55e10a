"""Sending files to S3: small ones at one go, large ones in parts that survive a kill."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from dataplane.copy import checksums
from dataplane.copy.checksums import LENGTH, MULTIPART, combine
from dataplane.copy.engine import Engine
from dataplane.copy.head import Head, number_of
from dataplane.copy.http1 import Answer
from dataplane.copy.journal import Partial
from dataplane.copy.problems import Code, Stop, Trouble, of_os
from dataplane.copy.stores import s3xml
from dataplane.copy.stores.base import Question
from dataplane.copy.stores.s3 import S3
from dataplane.copy.stores.sigv4 import UNSIGNED
from dataplane.copy.uploads import SMALL, WRONG, Body, Book, Local, Nobody, Sent, unchanged
from dataplane.copy.work import Unit

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


class S3Uploader:
    def __init__(self, engine: Engine, store: S3, book: Book | None) -> None:
        self._engine = engine
        self._calls = engine.calls
        self._store = store
        self._book = book or Nobody()
        self._open: set[int] = set()

    async def send(self, local: Local, fd: int) -> None:
        if local.size > SMALL:
            await self._begin(local, fd)
            return
        try:
            self._book.sent(local, await self._whole(local, fd))
        finally:
            os.close(fd)

    # --- at one go --------------------------------------------------------------------------

    async def _whole(self, local: Local, fd: int) -> Sent:
        sums = await self._sums(fd, 0, local.size)
        answer = await self._put(local.key, {}, fd, 0, local.size, sums)
        unchanged(local, fd)
        etag = self._store.state_of(answer.head)
        version = answer.head.fields.get("x-amz-version-id", "").replace("null", "")
        verified = await self._verified(local, answer.head, sums, etag)
        return Sent(etag, version, sums["crc32c"], verified)

    async def _verified(self, local: Local, head: Head, sums: dict[str, str], etag: str) -> str:
        """Say how we know that the store has what was sent."""
        said = self._store.sums(head)
        for name in ("crc32c", "md5"):
            if name in said and name in sums:
                if said[name] != sums[name]:
                    raise Trouble(Code.CHECKSUM, WRONG)
                return name
        await self._look(local, etag)
        return LENGTH

    async def _look(self, local: Local, etag: str) -> None:
        """Ask for what is there now, where the answer to sending says too little."""
        answer = await self._calls.tried(
            lambda: self._calls.once(lambda: self._store.head_question(local.key))
        )
        item = self._store.described(local.key, answer.head, answer.body)
        if item.size != local.size or (etag and item.etag != etag):
            raise Trouble(Code.LENGTH, WRONG)

    async def _sums(self, fd: int, start: int, end: int) -> dict[str, str]:
        names = ["crc32c"]
        if self._store.compatible:
            names.append("md5")  # the one sum that everything that speaks S3 knows
        if not self._store.endpoint.tls:
            names.append("sha256")  # signs the body where nothing else protects it
        return await self._engine.threaded(checksums.of_file, fd, tuple(names), start, end)

    async def _put(
        self, key: str, query: dict[str, str], fd: int, start: int, end: int, sums: dict[str, str]
    ) -> Answer:
        headers = {"content-length": str(end - start), "x-amz-checksum-crc32c": sums["crc32c"]}
        if "md5" in sums:
            headers["content-md5"] = base64.b64encode(bytes.fromhex(sums["md5"])).decode()
        payload = base64.b64decode(sums["sha256"]).hex() if "sha256" in sums else UNSIGNED

        def ask() -> Question:
            return self._store.question("PUT", key, query, headers, payload)

        body = Body(self._engine, fd, start, end)
        return await self._calls.tried(lambda: self._calls.once(ask, body=body))

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
        self._engine.work.put_first([_unit(self, upload, part) for part in todo])

    async def _new(self, local: Local, fd: int) -> Upload:
        headers = {}
        if not self._store.compatible:
            headers = {"x-amz-checksum-algorithm": "CRC32C", "x-amz-checksum-type": "FULL_OBJECT"}
        headers["content-length"] = "0"
        answer = await self._calls.tried(
            lambda: self._calls.once(
                lambda: self._store.question("POST", local.key, {"uploads": ""}, headers)
            )
        )
        upload_id = s3xml.text(answer.body, "UploadId")
        if not upload_id:
            raise Trouble(Code.IO, "The store does not begin an upload in parts.")
        size = _part_size(local.size)
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
            return await self._listed(key, upload)
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

    async def _listed(self, key: str, upload: str) -> dict[int, str]:
        found: dict[int, str] = {}
        marker = ""
        while True:
            query = {"uploadId": upload, **({"part-number-marker": marker} if marker else {})}
            answer = await self._calls.tried(
                lambda query=query: self._calls.once(  # type: ignore[misc]
                    lambda: self._store.question("GET", key, query)
                )
            )
            rows = s3xml.rows(answer.body, "Part")
            found.update(map(_listed_part, rows))
            following = s3xml.text(answer.body, "NextPartNumberMarker")
            more = s3xml.text(answer.body, "IsTruncated") == "true"
            if not more or not rows or following == marker:
                return found
            marker = following

    async def fetch(self, upload: Upload, part: Part) -> None:
        try:
            if upload.trouble is None:
                await self._part(upload, part)
        except Trouble as trouble:
            upload.trouble = upload.trouble or trouble
        except OSError as error:
            meant = of_os(error)
            if isinstance(meant, Stop):
                raise meant from None
            upload.trouble = upload.trouble or meant
        await self._ended(upload)

    async def _part(self, upload: Upload, part: Part) -> None:
        sums = await self._sums(upload.fd, part.start, part.end)
        query = {"partNumber": str(part.number), "uploadId": upload.id}
        answer = await self._put(upload.local.key, query, upload.fd, part.start, part.end, sums)
        etag = self._store.state_of(answer.head)
        if not etag:
            raise Trouble(Code.IO, "The store does not say what it has of a part.")
        said = answer.head.fields.get("x-amz-checksum-crc32c")
        if said and said != sums["crc32c"]:
            raise Trouble(Code.CHECKSUM, WRONG)
        part.etag, part.sums = etag, {**sums, "etag": etag}
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
        crc = _joined(upload.parts)
        listed = "".join(
            _part_xml(part, with_sum=not self._store.compatible) for part in upload.parts
        )
        text = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        headers = {"content-length": str(len(text)), "content-type": "application/xml"}
        if not self._store.compatible:
            headers |= {"x-amz-checksum-crc32c": crc, "x-amz-checksum-type": "FULL_OBJECT"}
        payload = checksums.hasher("sha256")
        payload.update(text)

        def ask() -> Question:
            head = self._store.question(
                "POST", upload.local.key, {"uploadId": upload.id}, headers, payload.hexdigest()
            )
            return Question(head.method, head.raw + text)

        answer = await self._calls.tried(lambda: self._calls.once(ask))
        code, _ = s3xml.error(answer.body)
        if code:  # S3 may say 200 first and fail then
            raise Trouble(Code.IO, f"The store could not join the parts ({code}).")
        etag = s3xml.text(answer.body, "ETag").strip('"')
        verified = await self._joined_verified(upload, answer, etag, crc)
        version = answer.head.fields.get("x-amz-version-id", "").replace("null", "")
        return Sent(etag, version, crc, verified)

    async def _joined_verified(self, upload: Upload, answer: Answer, etag: str, crc: str) -> str:
        said = s3xml.text(answer.body, "ChecksumCRC32C")
        if said and "-" not in said:
            if said != crc:
                raise Trouble(Code.CHECKSUM, WRONG)
            return "crc32c"
        if all("md5" in part.sums for part in upload.parts):
            whole = checksums.hasher("md5")
            for part in upload.parts:
                whole.update(bytes.fromhex(part.sums["md5"]))
            if etag == f"{whole.hexdigest()}-{len(upload.parts)}":
                return MULTIPART
        await self._look(upload.local, etag)
        return LENGTH

    # --- other ------------------------------------------------------------------------------

    async def delete(self, key: str) -> None:
        await self._calls.tried(
            lambda: self._calls.once(lambda: self._store.question("DELETE", key))
        )

    async def abandon(self, key: str, upload: str) -> bool:
        try:
            await self._calls.tried(
                lambda: self._calls.once(
                    lambda: self._store.question("DELETE", key, {"uploadId": upload})
                )
            )
        except Trouble as trouble:
            return trouble.code is Code.GONE
        return True

    async def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open.clear()


def _unit(uploader: S3Uploader, upload: Upload, part: Part) -> Unit:
    return lambda: uploader.fetch(upload, part)


def _part_size(size: int) -> int:
    return max(PART, -(-size // PARTS_MOST // 2**20) * 2**20)


def _parts(size: int, each: int) -> list[Part]:
    starts = range(0, size, each)
    return [Part(n, start, min(start + each, size)) for n, start in enumerate(starts, 1)]


def _listed_part(row: dict[str, str]) -> tuple[int, str]:
    """Return number and ETag of a part as the store lists it."""
    number = number_of(row.get("PartNumber", ""))
    if number is None or "ETag" not in row:
        raise Trouble(Code.IO, "The store's list of parts can't be read.")
    return number, row["ETag"].strip('"')


def _joined(parts: list[Part]) -> str:
    total = 0
    for part in parts:
        value = checksums.crc_of("crc32c", part.sums["crc32c"]) or 0
        total = combine("crc32c", total, value, part.end - part.start)
    return checksums.text_of("crc32c", total)


def _part_xml(part: Part, *, with_sum: bool) -> str:
    sums = f"<ChecksumCRC32C>{part.sums['crc32c']}</ChecksumCRC32C>" if with_sum else ""
    etag = escape(f'"{part.etag}"')
    return f"<Part><PartNumber>{part.number}</PartNumber><ETag>{etag}</ETag>{sums}</Part>"
