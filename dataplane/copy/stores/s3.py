"""S3 and what speaks like it: questions, and how its answers are read."""

from __future__ import annotations

import email.utils
import re
from urllib.parse import unquote_to_bytes

from dataplane.copy.checksums import CRCS
from dataplane.copy.connector import Dialer, Endpoint
from dataplane.copy.head import Broken, Head, number_of
from dataplane.copy.http1 import now
from dataplane.copy.plan import StorePlan
from dataplane.copy.problems import Code, Denied, Final, Skewed, Stop, Trouble, shown
from dataplane.copy.stores import s3xml
from dataplane.copy.stores.base import Item, Multipart, Page, Plain, Question, size_of
from dataplane.copy.stores.sigv4 import EMPTY, Signer, query_of, quoted

DEFAULT_REGION = "us-east-1"
PAGE = 1000
SKEW_S = 2.0
_AGENT = "berth/1"
_MD5 = re.compile(r"\A[0-9a-f]{32}\Z")
_PARTS = re.compile(r"\A[0-9a-f]{32}-([0-9]{1,5})\Z")
_DNS = re.compile(r"\A[a-z0-9][a-z0-9-]{1,61}[a-z0-9]\Z")
_REGION = re.compile(r"\A[a-z0-9-]{1,40}\Z")
_TOKEN = re.compile(rb"<NextContinuationToken>([^<&]{1,4096})</NextContinuationToken>")

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
_SLOW = frozenset({"SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "Throttling"})
_AGAIN = frozenset({"InternalError", "RequestTimeout", "OperationAborted", "BadDigest"})
_SLOW_STATUS = frozenset({429, 503})
_AGAIN_STATUS = frozenset({408, 500, 502, 504})


class S3(Plain):
    """One bucket. Nothing here does input or output."""

    tells_later = True

    def __init__(self, plan: StorePlan, dialer: Dialer) -> None:
        self._region = plan.region or DEFAULT_REGION
        if not _REGION.match(self._region):
            raise Stop(Final.BAD_PLAN, "The region is not the name of a region.")
        self.bucket = plan.bucket
        self.compatible = plan.kind != "s3"
        endpoint = dialer.endpoint(plan.endpoint or _amazon(self._region))
        own_name = not plan.path_style and _DNS.match(plan.bucket) and not _is_address(endpoint)
        self.endpoint = endpoint.beside(f"{plan.bucket}.{endpoint.host}") if own_name else endpoint
        self._root = "/" if own_name else f"/{quoted(plan.bucket, '')}/"
        self._host = self.endpoint.header()
        self._signer = (
            None
            if plan.anonymous
            else Signer(
                plan.access_key,
                plan.secret_key,
                self._region,
                session_token=plan.session_token,
            )
        )
        self._corrected_at = 0.0

    # --- questions --------------------------------------------------------------------------

    def fresh(self) -> bool:
        return True

    async def renew(self) -> None:
        return

    def stale(self) -> bool:
        return False

    async def close(self) -> None:
        return

    def question(
        self,
        method: str,
        key: str,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        payload: str = EMPTY,
    ) -> Question:
        """Return a signed request of this bucket; an empty key means the bucket itself."""
        path = self._root + quoted(key)
        if not key and self._root != "/":
            path = self._root[:-1]
        asked = query_of(query) if query else ""
        fields = {"host": self._host, **(headers or {})}
        if self._signer is not None:
            fields = self._signer.signed(method, path, asked, fields, payload)
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        target = f"{path}?{asked}" if asked else path
        raw = f"{method} {target} HTTP/1.1\r\n{lines}user-agent: {_AGENT}\r\n\r\n"
        return Question(method, raw.encode())

    def list_question(self, prefix: str, token: str, most: int = PAGE) -> Question:
        return self._listing(prefix, most, "continuation-token", token)

    def later_question(self, prefix: str, before: str, last: str) -> Question:
        del last  # a listing begins after a key, never with it
        return self._listing(prefix, PAGE, "start-after", before)

    def _listing(self, prefix: str, most: int, where: str, at: str) -> Question:
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(most)}
        if prefix:
            query["prefix"] = prefix
        if at:
            query[where] = at
        return self.question("GET", "", query)

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> Question:
        headers = {"x-amz-checksum-mode": "ENABLED"}
        if item.etag:
            headers["if-match"] = f'"{item.etag}"'
        if end is not None:
            headers["range"] = f"bytes={start}-{end - 1}"
        return self.question("GET", item.key, None, headers)

    def head_question(self, key: str, part: int = 0) -> Question:
        query = {"partNumber": str(part)} if part else None
        return self.question("HEAD", key, query, {"x-amz-checksum-mode": "ENABLED"})

    # --- answers ----------------------------------------------------------------------------

    def next_token(self, body: memoryview) -> str | None:
        found = _TOKEN.search(body)
        return found[1].decode() if found else None

    def page(self, body: memoryview, prefix: str = "", token: str = "") -> Page:
        del prefix, token
        listing = s3xml.listing(body)
        items: list[Item] = []
        bad: list[tuple[str, Trouble]] = []
        for entry in listing.entries:
            raw, key = None, entry.key
            if listing.encoded and ("%" in key or "+" in key):
                # A blank comes as “+” (S3) or “%20”; a plus as “%2B” always.
                raw = unquote_to_bytes(key.replace("+", " "))
            try:
                key = key if raw is None else raw.decode()
            except UnicodeDecodeError:
                text = "The key can't be the name of a file: it is not valid text."
                bad.append((shown(raw or b""), Trouble(Code.BAD_KEY, text)))
                continue
            etag = entry.etag.strip('"')
            try:
                size = size_of(entry.size)
            except Trouble as trouble:
                bad.append((shown(key), trouble))
                continue
            items.append(Item(key, size, etag, "", entry.mtime, md5_of(etag)))
        return Page(items, bad, listing.token)

    def sums(self, head: Head, item: Item | None = None) -> dict[str, str]:
        del item  # a listing's ETag may look like an MD5 and be none
        found = sums_of(head)
        if not found and _etag_is_md5(head):
            return md5_of(head.fields.get("etag", "").strip('"'))
        return found

    def state_of(self, head: Head) -> str:
        return head.fields.get("etag", "").removeprefix("W/").strip('"')

    def described(self, key: str, head: Head, body: memoryview) -> Item:
        del body
        fields = head.fields
        size = number_of(fields.get("content-range", "").rpartition("/")[2])
        if size is None:
            size = number_of(fields.get("content-length", ""))
        if size is None:  # an empty object has a length too
            raise Broken("The store does not say how long the object is.", Code.LENGTH)
        return Item(
            key,
            size,
            self.state_of(head),
            fields.get("x-amz-version-id", "").replace("null", ""),
            int(_date(head, "last-modified") or 0),
            self.sums(head),
        )

    def multipart(self, item: Item, head: Head | None) -> Multipart | None:
        """Read the size of the first part: it is the length of the answer for it.

        Where the store does not answer for parts, the sizes that clients use are tried.
        """
        found = _PARTS.match(item.etag)
        if found is None:
            return None
        count = int(found[1])
        first = number_of(head.fields.get("content-length", "")) if head is not None else None
        if first and -(-item.size // first) == count:
            return Multipart(first, count)
        usual = (size * 2**20 for size in _USUAL_PARTS)
        fitting = [size for size in usual if -(-item.size // size) == count]
        return Multipart(fitting[0], count, sure=False) if fitting else None

    def trouble(self, head: Head, body: memoryview) -> Exception:
        code, region = s3xml.error(body)
        if code in _WRONG_KEY:
            return Stop(Final.DENIED, _WRONG_KEY[code])
        if code == "RequestTimeTooSkewed":
            return Skewed(_date(head, "date"))
        if code == "NoSuchBucket":
            return Stop(Final.NO_BUCKET, f"There is no bucket “{self.bucket}”.")
        region = region or head.fields.get("x-amz-bucket-region", "")
        if region and region != self._region and (head.status in {301, 307, 400}):
            return Stop(
                Final.BAD_PLAN,
                f"The bucket “{self.bucket}” is in the region {shown(region, 40)}, "
                f"and the credential says {self._region}.",
            )
        if head.status // 100 == 3:  # noqa: PLR2004 - redirects
            text = "The store sends elsewhere, and loads follow no redirects."
            return Stop(Final.REFUSED_ADDRESS, text)
        return _of_status(head.status, code)

    def skewed(self, at: float | None) -> bool:
        if at is None or self._signer is None:
            return False
        if self._corrected_at:  # what was signed before may still come back
            return now() - self._corrected_at < SKEW_S
        self._signer.skew = at - self._signer.now()
        self._corrected_at = now()
        return True


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


_BY_STATUS: dict[int, tuple[Code, str]] = {
    404: (Code.GONE, "The object is not there any more."),
    412: (Code.CHANGED, "The object changed while it was copied."),
    416: (Code.CHANGED, "The object changed while it was copied."),
}


def _of_status(status: int, code: str) -> Exception:
    if code in _SLOW or status in _SLOW_STATUS:
        return Trouble(Code.UNREACHABLE, "The store asks for fewer calls.", again=True, slow=True)
    if code in _AGAIN or status in _AGAIN_STATUS:
        return Trouble(Code.UNREACHABLE, "The store has an internal error.", again=True)
    if code == "InvalidObjectState":
        return Trouble(Code.DENIED, "The object is archived; restore it at the store first.")
    if status in {401, 403}:
        return Denied("The store refuses access.")
    if status in _BY_STATUS:
        return Trouble(*_BY_STATUS[status])
    said = f" ({shown(code, 60)})" if code else ""
    return Trouble(Code.IO, f"The store answers {status}{said}.")


def _date(head: Head, name: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(head.fields[name]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None


def _amazon(region: str) -> str:
    tail = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://s3.{region}.{tail}"


def _is_address(endpoint: Endpoint) -> bool:
    return ":" in endpoint.host or endpoint.host.replace(".", "").isdigit()
