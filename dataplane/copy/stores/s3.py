"""S3 and what speaks like it: boto3 asks, but for bodies, and here its answers are understood."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from dataplane.copy.checksums import CRCS
from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Broken, Head, now
from dataplane.copy.plan import StorePlan
from dataplane.copy.problems import Code, Final, Skewed, Stop, Trouble, shown
from dataplane.copy.stores.base import (
    NOT_TEXT,
    PAGE,
    Item,
    LibraryStore,
    Multipart,
    NoStore,
    Page,
    of_status,
    seconds_of,
    size_of,
)
from dataplane.copy.stores.sigv4 import EMPTY, UNSIGNED, Signer, quoted
from dataplane.copy.transport import ELSEWHERE, Transport
from dataplane.sending import Received

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls

DEFAULT_REGION = "us-east-1"
SKEW_S = 2.0
_MD5 = re.compile(r"\A[0-9a-f]{32}\Z")
_PARTS = re.compile(r"\A[0-9a-f]{32}-([0-9]{1,5})\Z")
_DNS = re.compile(r"\A[a-z0-9][a-z0-9-]{1,61}[a-z0-9]\Z")
_REGION = re.compile(r"\A[a-z0-9-]{1,40}\Z")
_CODE = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")

_USUAL_PARTS = (8, 5, 16, 10, 15, 20, 25, 32, 50, 64, 100, 128, 256, 512)  # MiB

_WRONG_KEY = {
    "InvalidAccessKeyId": "The store does not know this access key.",
    "SignatureDoesNotMatch": "The secret key does not fit the access key.",
    "ExpiredToken": "The credential has expired.",
    "ExpiredTokenException": "The credential has expired.",
    "TokenRefreshRequired": "The credential has expired.",
    "InvalidToken": "The session token of the credential is not valid.",
    "InvalidSecurity": "The credential is not valid.",
    "AccountProblem": "The store has closed the account of this credential.",
    "AllAccessDisabled": "The store has closed this bucket for everybody.",
    "NotSignedUp": "The account of this credential does not use S3.",
    "AuthorizationQueryParametersError": "The credential is not valid.",
}
_NO_STORE = "The endpoint does not answer as an S3 store."
_SLOW = frozenset({"SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "Throttling"})
_AGAIN = frozenset({"InternalError", "RequestTimeout", "OperationAborted", "BadDigest"})


class S3(LibraryStore):
    """One bucket."""

    def __init__(self, plan: StorePlan, dialer: Dialer) -> None:
        self._region = plan.region or DEFAULT_REGION
        if not _REGION.match(self._region):
            raise Stop(Final.BAD_PLAN, "The region is not the name of a region.")
        self._plan = plan
        self.bucket = plan.bucket
        self.compatible = plan.kind != "s3"
        tail = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        self._base = dialer.endpoint(plan.endpoint or f"https://s3.{self._region}.{tail}")
        is_address = ":" in self._base.host or self._base.host.replace(".", "").isdigit()
        own_name = not plan.path_style and _DNS.match(plan.bucket) and not is_address
        self.endpoint = (
            self._base.beside(f"{plan.bucket}.{self._base.host}") if own_name else self._base
        )
        self._root = "/" if own_name else f"/{quoted(plan.bucket, '')}/"
        self._host = self.endpoint.header()
        self._skew = 0.0
        self._corrected_at = 0.0
        self._signer = None
        if not plan.anonymous:
            self._signer = Signer(
                plan.access_key,
                plan.secret_key,
                self._region,
                session_token=plan.session_token,
                clock=self._clock,
            )
        super().__init__(Transport(dialer, self.endpoint))

    def _made(self) -> Any:
        from dataplane.s3_client import Keys, s3_client  # takes a fifth of a second

        plan = self._plan
        keys = Keys(plan.access_key, plan.secret_key, plan.session_token)
        return s3_client(
            None if plan.anonymous else keys,
            self._sent,
            endpoint=f"{'https' if self._base.tls else 'http'}://{self._base.header()}",
            region=self._region,
            path_style=self._root != "/",
            clock=self._clock,
        )

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        got = super()._sent(method, url, headers, body)
        if b"<!" in got.body[:4096]:  # no document types, so no entities
            raise NoStore(_NO_STORE)
        return got

    def _clock(self) -> float:
        return time.time() + self._skew

    # --- what the library asks --------------------------------------------------------------

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = PAGE, alone: bool = False
    ) -> Page:
        at = {"ContinuationToken": token} if token else {}
        return await calls.made(lambda: self._listed(prefix, most, at), alone=alone)

    async def later(self, calls: Calls, prefix: str, before: str, last: str) -> Page:
        del last  # a listing begins after a key, never with it
        return await calls.made(lambda: self._listed(prefix, PAGE, {"StartAfter": before}))

    def _listed(self, prefix: str, most: int, at: dict[str, str]) -> Page:
        from botocore.parsers import ResponseParserError

        asked = {"Bucket": self.bucket, "EncodingType": "url", "MaxKeys": most, **at}
        try:
            said = self.client.list_objects_v2(**asked, **({"Prefix": prefix} if prefix else {}))
        except (ResponseParserError, ValueError):
            raise NoStore(_NO_STORE) from None
        if "IsTruncated" not in said and "Contents" not in said and "Name" not in said:
            raise NoStore(_NO_STORE)
        token = str(said.get("NextContinuationToken", "")) if said.get("IsTruncated") else ""
        if said.get("IsTruncated") and not token:
            raise Broken("The store's listing goes on without saying where.")
        encoded = said.get("EncodingType") == "url"
        items: list[Item] = []
        bad: list[tuple[str, Trouble]] = []
        for entry in said.get("Contents", ()):
            key, raw = entry.get("Key"), None
            if key is None:
                raise Broken("The store's listing can't be read.")
            if encoded and ("%" in key or "+" in key):
                # A blank comes as “+” (S3) or “%20”; a plus as “%2B” always.
                raw = unquote_to_bytes(key.replace("+", " "))
            try:
                key = key if raw is None else raw.decode()
            except UnicodeDecodeError:
                bad.append((shown(raw or b""), Trouble(Code.BAD_KEY, NOT_TEXT)))
                continue
            etag = entry.get("ETag", "").strip('"')
            try:
                size = size_of(entry.get("Size"))
            except Trouble as trouble:
                bad.append((shown(key), trouble))
                continue
            items.append(
                Item(key, size, etag, "", seconds_of(entry.get("LastModified", "")), md5_of(etag))
            )
        return Page(items, bad, token)

    async def described(self, calls: Calls, key: str) -> Item:
        said = await calls.made(lambda: self.head(key))
        if "ContentLength" not in said:  # an empty object has a length too
            raise Broken("The store does not say how long the object is.", Code.LENGTH)
        fields = Head(200, said["ResponseMetadata"]["HTTPHeaders"])
        return Item(
            key,
            size_of(said["ContentLength"]),
            self.state_of(fields),
            version_of(said),
            int(_date(fields.fields, "last-modified") or 0),
            self.sums(fields),
        )

    def head(self, key: str, **part: int) -> Any:
        """Ask for the head of an object; in a thread."""
        return self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED", **part)

    async def multipart(self, calls: Calls, item: Item) -> Multipart | None:
        """Read the size of the first part: it is the length of the answer for it.

        Where the store does not answer for parts, the sizes that clients use are tried.
        """
        found = _PARTS.match(item.etag)
        if found is None:
            return None
        count = int(found[1])
        try:
            said = await calls.tried(lambda: calls.made(lambda: self.head(item.key, PartNumber=1)))
        except Trouble:
            said = {}
        first = said.get("ContentLength")
        if first and -(-item.size // first) == count:
            return Multipart(first, count)
        usual = (size * 2**20 for size in _USUAL_PARTS)
        fitting = [size for size in usual if -(-item.size // size) == count]
        return Multipart(fitting[0], count, sure=False) if fitting else None

    # --- bodies -----------------------------------------------------------------------------

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        fields = {"x-amz-checksum-mode": "ENABLED"}
        if item.etag:
            fields["if-match"] = f'"{item.etag}"'
        if end is not None:
            fields["range"] = f"bytes={start}-{end - 1}"
        return self._question("GET", item.key, fields, EMPTY)

    def put_question(self, key: str, body: bytes, sums: Mapping[str, str]) -> bytes:
        """Send a small object at one go, in the question itself."""
        fields = {"content-length": str(len(body)), "x-amz-checksum-crc32c": sums["crc32c"]}
        if "md5" in sums:
            fields["content-md5"] = base64.b64encode(bytes.fromhex(sums["md5"])).decode()
        payload = UNSIGNED if self.endpoint.tls else hashlib.sha256(body).hexdigest()
        return self._question("PUT", key, fields, payload) + body

    def _question(self, method: str, key: str, fields: dict[str, str], payload: str) -> bytes:
        path = self._root + quoted(key)
        fields = {"host": self._host, **fields}
        if self._signer is not None:
            fields = self._signer.signed(path, fields, method, payload)
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        return f"{method} {path} HTTP/1.1\r\n{lines}user-agent: berth/1\r\n\r\n".encode()

    def sums(self, head: Head, item: Item | None = None) -> dict[str, str]:
        del item  # a listing's ETag may look like an MD5 and be none
        found = sums_of(head)
        if not found and _etag_is_md5(head):
            return md5_of(head.fields.get("etag", "").strip('"'))
        return found

    def state_of(self, head: Head) -> str:
        return head.fields.get("etag", "").removeprefix("W/").strip('"')

    # --- troubles ---------------------------------------------------------------------------

    def trouble(self, head: Head, body: memoryview) -> Exception:
        found = _CODE.search(bytes(body[:65536]))
        return self._of(head.status, found[1].decode() if found else "", "", head.fields)

    def meant(self, error: Exception) -> Exception:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError):
            said, about = error.response["Error"], error.response["ResponseMetadata"]
            code = "" if said["Code"].isdigit() else said["Code"]  # of an answer without a body
            return self._of(
                about["HTTPStatusCode"], code, said.get("Region", ""), about["HTTPHeaders"]
            )
        if isinstance(error, (BotoCoreError, ValueError, KeyError)):
            return Trouble(Code.IO, "The store's answer can't be read.")
        return error

    def _of(self, status: int, code: str, region: str, fields: Mapping[str, str]) -> Exception:
        if code in _WRONG_KEY:
            return Stop(Final.DENIED, _WRONG_KEY[code])
        if code == "RequestTimeTooSkewed":
            return Skewed(_date(fields, "date"))
        if code == "NoSuchBucket":
            return Stop(Final.NO_BUCKET, f"There is no bucket “{self.bucket}”.")
        region = region or fields.get("x-amz-bucket-region", "")
        if region and region != self._region and status in {301, 307, 400}:
            return Stop(
                Final.BAD_PLAN,
                f"The bucket “{self.bucket}” is in the region {shown(region, 40)}, "
                f"and the credential says {self._region}.",
            )
        if status // 100 == 3:  # noqa: PLR2004 - redirects
            return Stop(Final.REFUSED_ADDRESS, ELSEWHERE)
        status = 403 if status == 401 else status  # noqa: PLR2004 - a store of S3 says either
        trouble = of_status(status, code, slow=code in _SLOW, again=code in _AGAIN)
        if code == "InvalidObjectState" and not trouble.again:
            text = "The object is archived; restore it at the store first."
            trouble = Trouble(Code.DENIED, text)
        return trouble

    def skewed(self, at: float | None) -> bool:
        if at is None or self._signer is None:
            return False
        if self._corrected_at:  # what was signed before may still come back
            return now() - self._corrected_at < SKEW_S
        self._skew = at - time.time()
        self._corrected_at = now()
        return True


def version_of(said: Mapping[str, Any]) -> str:
    return str(said.get("VersionId", "")).replace("null", "")


def sums_of(head: Head) -> dict[str, str]:
    """Return the checksums of the whole object that an answer carries, ours to compare."""
    sums = {}
    for name in (*CRCS, "sha256", "sha1"):
        value = head.fields.get(f"x-amz-checksum-{name}")
        if value and "-" not in value:  # with it: a checksum of checksums
            sums[name] = value
    if head.fields.get("x-amz-checksum-type", "").upper() == "COMPOSITE":
        return {}
    return sums


def md5_of(etag: str) -> dict[str, str]:
    return {"md5": etag} if _MD5.match(etag) else {}


def _etag_is_md5(head: Head) -> bool:
    """With a key of KMS or of the customer the ETag only looks like an MD5."""
    kind = head.fields.get("x-amz-server-side-encryption", "")
    customer = "x-amz-server-side-encryption-customer-algorithm" in head.fields
    return not customer and not kind.startswith("aws:")


def _date(fields: Mapping[str, str], name: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(fields[name]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None
