"""HDFS by WebHDFS: the namenode lists and tells, the datanodes that it names bring the bytes.

A folder of it is no beginning of names, so the tree is walked, a thousand names a page. Where a
walk is, is its token: for each folder above, the folders of its latest page that are still to come,
and the name after which its next page begins. So a walk needs memory for one page a level.

An answer does not say of which state of a file it is: what was read is compared with the checksum
that HDFS gives of the whole file, asked for beforehand (``checksums.BlockSum``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from dataplane.copy import checksums
from dataplane.copy.connector import Dialer, Endpoint
from dataplane.copy.http1 import Broken, Head
from dataplane.copy.keys import is_text
from dataplane.copy.plan import StorePlan
from dataplane.copy.problems import Code, Denied, Final, Stop, Trouble, shown
from dataplane.copy.stores.base import NOT_TEXT, PAGE, Item, NoStore, Onward, Page, Store, size_of

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls

ROOT = "/webhdfs/v1"
FOLDER_MAX = 4096  # bytes of a path: what is deeper has no place in a volume
BLOCK_LEAST = 1024 * 1024  # HDFS makes no smaller ones
_AGENT = "berth/1"
_OPAQUE = "opaque"  # in an etag: its checksum is not that of the bytes we are given
_ONWARD = frozenset({301, 302, 303, 307, 308})
_AGAIN_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_WRITTEN = "%/?&=+;,:@!$'()*[]-._~"  # of an address that is quoted already
_TOKEN = "The namenode does not accept this delegation token: it has expired or is not its own."  # noqa: S105
_PROOF = "The namenode wants a proof of who asks: store a delegation token."
_STANDBY = "This namenode is on standby: give the address of the active one."


class Level(NamedTuple):
    folder: str
    names: list[str]  # folders in it that are still to come
    after: str  # its next page begins behind this name; "": there is none


class Step(NamedTuple):
    """What is listed now, and what is left when it was."""

    folder: str
    after: str
    left: list[Level]


def step(root: str, token: str) -> Step:
    """Return what the page of this token lists."""
    if not token:
        return Step(root, "", [])
    left = [Level(*level) for level in json.loads(token)]
    above = left.pop()
    if above.names:
        left.append(above._replace(names=above.names[1:]))
        return Step(below(above.folder, above.names[0]), "", _unfinished(left))
    return Step(above.folder, above.after, left)


def token_after(at: Step, folders: list[str], after: str) -> str:
    """Return the next page's token, when this one had these folders; "" when it was the last."""
    if after and after == at.after:
        raise Broken("The store's listing comes again to what it has listed.")
    left = _unfinished([*at.left, Level(at.folder, folders, after)])
    return json.dumps(left, ensure_ascii=False) if left else ""


def below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _unfinished(left: list[Level]) -> list[Level]:
    return [level for level in left if level.names or level.after]


class Hdfs(Store):
    """One file system."""

    names_ranges = False

    def __init__(self, plan: StorePlan, dialer: Dialer) -> None:
        self.endpoint = dialer.endpoint(plan.endpoint)
        self._dialer = dialer
        self._prefix = plan.prefix
        self._who = f"delegation={_quoted(plan.token)}" if plan.token else ""
        self._who = self._who or f"user.name={_quoted(plan.user)}"

    # --- questions --------------------------------------------------------------------------

    def question(self, key: str, act: str, **said: object) -> bytes:
        query = "".join(f"&{name}={_quoted(str(value))}" for name, value in said.items())
        path = quote(f"{ROOT}/{key}", safe="/-._~")
        return _question(self.endpoint, f"{path}?op={act}&{self._who}{query}")

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = PAGE, alone: bool = False
    ) -> Page:
        del most  # the namenode decides
        at = step(prefix.strip("/"), token)
        said = {"startAfter": at.after} if at.after else {}
        answer = await calls.once(
            lambda: self.question(at.folder, "LISTSTATUS_BATCH", **said), alone=alone
        )
        return self.page(answer.body, prefix, token)

    async def described(self, calls: Calls, key: str) -> Item:
        answer = await calls.once(lambda: self.question(key, "GETFILESTATUS"))
        entry = _object(answer.body, "FileStatus")
        if entry.get("type") != "FILE":
            raise Trouble(Code.BAD_KEY, "It is a folder, or a link, and no file.")
        return _item(key, entry)

    async def summed(self, calls: Calls, item: Item) -> Item:
        """Ask for the checksum of the whole; a file without one is copied all the same."""
        bodies = []
        for act in acts_of(item):
            ask = partial(self.question, item.key, act)
            try:
                answer = await calls.tried(partial(calls.once, ask))
            except Trouble as trouble:
                if trouble.again:
                    raise
                return item
            bodies.append(bytes(answer.body))
        return with_sum(item, bodies)

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        length = (item.size if end is None else end) - start
        return self.question(item.key, "OPEN", offset=start, length=length)

    def onward(self, head: Head) -> Onward | None:
        """Follow to a datanode, for the very call of WebHDFS only, and only to where we may go."""
        if head.status not in _ONWARD:
            return None
        parts = urlsplit(head.fields.get("location", ""))
        acts = parse_qs(parts.query).get("op", [])
        if not parts.path.startswith(f"{ROOT}/") or len(acts) != 1 or parts.fragment:
            raise Stop(Final.REFUSED_ADDRESS, "The store sends to what is no datanode of HDFS.")
        target = quote(f"{parts.path}?{parts.query}".encode("latin-1"), safe=_WRITTEN)
        where = self._dialer.onward(f"{parts.scheme}://{parts.netloc}", self.endpoint)
        return Onward(where, _question(where, target))

    # --- answers ----------------------------------------------------------------------------

    def page(self, body: memoryview, prefix: str = "", token: str = "") -> Page:
        at = step(prefix.strip("/"), token)
        entries, more = _entries(body)
        if len(entries) == 1 and not entries[0].get("pathSuffix") and not token:
            return self._root_file(entries[0], prefix)
        items: list[Item] = []
        bad: list[tuple[str, Trouble]] = []
        folders: list[str] = []
        for entry in entries:
            name = str(entry.get("pathSuffix") or "")
            key = below(at.folder, name)
            if (trouble := _odd(name, key, entry)) is not None:
                bad.append((shown(key), trouble))
            elif entry.get("type") == "DIRECTORY":
                folders.append(name)
            else:
                try:
                    items.append(_item(key, entry))
                except Trouble as odd:
                    bad.append((shown(key), odd))
        after = str(entries[-1].get("pathSuffix") or "") if more else ""
        if more and not after:
            raise Broken("The store's listing goes on without saying where.")
        return Page(items, bad, token_after(at, folders, after), len(folders))

    def _root_file(self, entry: dict[str, Any], prefix: str) -> Page:
        """Return what there is when the path itself is a file."""
        if prefix.endswith("/"):
            raise Stop(Final.NO_BUCKET, "The path is a file, and its end says folder.")
        key = prefix.strip("/")
        trouble = _odd(key.rpartition("/")[2], key, entry)
        try:
            return Page([], [(key, trouble)], "") if trouble else Page([_item(key, entry)], [], "")
        except Trouble as odd:
            return Page([], [(key, odd)], "")

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        """Name a folder that can't be listed, and go on beside it; not so the first one."""
        if not token or trouble.again:
            return None
        at = step(prefix.strip("/"), token)
        left = token_after(at, [], "")
        return Page([], [(f"{shown(at.folder)}/", trouble)], left, 1)

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        del head
        return item.sums if item is not None else {}

    def state_of(self, head: Head) -> str:
        del head
        return ""

    def trouble(self, head: Head, body: memoryview) -> Exception:
        name = str(_object(body, "RemoteException").get("exception", ""))
        if name == "StandbyException":
            return Stop(Final.UNREACHABLE, _STANDBY)
        if name.endswith("InvalidToken") or head.status == 401:  # noqa: PLR2004
            return Stop(Final.DENIED, _TOKEN if self._who.startswith("d") else _PROOF)
        if name in {"AccessControlException", "SecurityException"}:
            return Denied("HDFS refuses access.")
        if name == "FileNotFoundException" or head.status == 404:  # noqa: PLR2004
            return Trouble(Code.GONE, "The file is not there any more.")
        if name in {"RetriableException", "SafeModeException"} or head.status == 429:  # noqa: PLR2004
            return Trouble(Code.UNREACHABLE, "HDFS asks to wait.", again=True, slow=True)
        said = f" ({shown(name, 60)})" if name else ""
        # what a datanode can't do now is said as “forbidden”
        again = head.status in _AGAIN_STATUS or (bool(name) and head.status == 403)  # noqa: PLR2004
        return Trouble(Code.IO, f"HDFS answers {head.status}{said}.", again=again)


def acts_of(item: Item) -> tuple[str, ...]:
    """Return what is asked for the checksum of a file, where it has one of its bytes."""
    if not item.size or item.etag.endswith(_OPAQUE):
        return ()
    laid = ("GETFILEBLOCKLOCATIONS",) if item.size > BLOCK_LEAST else ()
    return "GETFILECHECKSUM", *laid


def with_sum(item: Item, bodies: list[bytes]) -> Item:
    """Return the item with the checksum that these answers tell, if they tell one."""
    told = _object(memoryview(bodies[0]), "FileChecksum") if bodies else {}
    text = checksums.block_text_of(str(told.get("algorithm", "")), str(told.get("bytes", "")))
    laid = len(bodies) < 2 or _even(_blocks(bodies[1]), checksums.block_of(text))  # noqa: PLR2004
    return item._replace(sums={checksums.BLOCKS: text}) if text and laid else item


def _question(endpoint: Endpoint, target: str) -> bytes:
    lines = f"host: {endpoint.header()}\r\nuser-agent: {_AGENT}\r\n"
    return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()


def _odd(name: str, key: str, entry: dict[str, Any]) -> Trouble | None:
    """Return why an entry can't be looked at further."""
    if not name or name in {".", ".."} or "/" in name:
        return Trouble(Code.BAD_KEY, "The key can't be the name of a file: it leads elsewhere.")
    if not is_text(key):
        return Trouble(Code.BAD_KEY, NOT_TEXT)
    if entry.get("type") not in {"FILE", "DIRECTORY"}:
        return Trouble(Code.BAD_KEY, "It is a link, and no file.")
    if entry.get("type") == "DIRECTORY" and len(key.encode()) > FOLDER_MAX:
        return Trouble(Code.BAD_KEY, "The key can't be the name of a file: it is too long.")
    return None


def _item(key: str, entry: dict[str, Any]) -> Item:
    try:
        size, at = size_of(entry["length"]), int(entry["modificationTime"])
        state = f"{int(entry['fileId'])}-{at}-{size}"
    except (KeyError, TypeError, ValueError):
        raise Broken("The store's listing can't be read.") from None
    if entry.get("encBit") or entry.get("ecBit"):
        state += f"-{_OPAQUE}"
    return Item(key, size, state, mtime=max(0, at) // 1000)


def _entries(body: memoryview) -> tuple[list[dict[str, Any]], bool]:
    listing = _object(body, "DirectoryListing")
    try:
        entries = listing["partialListing"]["FileStatuses"]["FileStatus"]
        more = int(listing["remainingEntries"]) > 0
    except (KeyError, TypeError, ValueError):
        raise NoStore("The endpoint does not answer as WebHDFS of Hadoop 3.") from None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise Broken("The store's listing can't be read.")
    return entries, more and bool(entries)


def _blocks(body: bytes) -> list[tuple[int, int]]:
    """Return where each block begins, and how long it is."""
    rows = _object(memoryview(body), "BlockLocations").get("BlockLocation")
    try:
        return [(int(row["offset"]), int(row["length"])) for row in rows or []]
    except (KeyError, TypeError, ValueError):
        return []


def _even(found: list[tuple[int, int]], block: int) -> bool:
    """Whether the blocks are as a checksum takes them: all of one length but the last."""
    if not block:
        return len(found) == 1
    whole = all((at, size) == (n * block, block) for n, (at, size) in enumerate(found[:-1]))
    return bool(found) and whole and found[-1][1] <= block


def _object(body: memoryview, name: str) -> dict[str, Any]:
    try:
        data = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return {}
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _quoted(text: str) -> str:
    return quote(text, safe="-._~")
