"""What the engine needs of a store, whichever it is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from dataplane.copy.connector import Endpoint
from dataplane.copy.http1 import Head
from dataplane.copy.problems import Code, Denied, Trouble, shown
from dataplane.copy.transport import Transport
from dataplane.sending import Received

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls, Client

NO_SUMS: Mapping[str, str] = {}
PAGE = 1000
NOT_TEXT = "The key can't be the name of a file: it is not valid text."
SIZE_MAX = 1 << 53  # bytes: eight thousand disks of a terabyte; sums of many still fit a column


class Item(NamedTuple):
    """One object as the store described it. ``sums``: name of a checksum → its text.

    ``etag`` is what ties all pieces to one state of the object; "" where there is none.
    """

    key: str
    size: int
    etag: str
    version: str = ""
    mtime: int = 0  # seconds, as the store says; 0 where it doesn't
    sums: Mapping[str, str] = NO_SUMS


def size_of(said: object) -> int:
    """Return the size of an object as a store said it; raise Trouble where no file can have it."""
    try:
        size = int(said)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        size = -1
    if not 0 <= size <= SIZE_MAX:
        raise Trouble(Code.LENGTH, "The store names a size that no file can have.")
    return int(size)


def seconds_of(value: str) -> int:
    """Read ``2026-01-02T03:04:05…`` as seconds; 0 where it is no time."""
    try:
        return int(datetime.fromisoformat(f"{value[:19]}+00:00").timestamp())
    except ValueError:
        return 0


class Page(NamedTuple):
    items: list[Item]
    bad: list[tuple[str, Trouble]]  # keys that can't even be read, as they can be shown
    token: str  # "" on the last page
    folders: int = 0  # that are listed by later pages


@dataclass(frozen=True)
class Multipart:
    """An object that was stored in parts: all of ``size`` but the last, ``count`` of them."""

    size: int
    count: int
    sure: bool = True  # a guess that does not fit proves nothing


class NoStore(Trouble):
    """What answers does not speak as this kind of store does."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.IO, message)


class Onward(NamedTuple):
    """Where a store sends us for the answer, and what to ask there."""

    endpoint: Endpoint
    question: bytes


class Store:
    """What copying from a store needs; what most of them do alike is done here.

    Bodies are read over connections of ours: for them a store makes the question and reads the
    head of the answer. Everything else it does itself, once: who asks tries again.
    """

    endpoint: Endpoint
    names_ranges = True  # whether an answer says which bytes of the object it brings
    tells_later = False  # whether its listing is sorted and can begin at a key

    def fresh(self) -> bool:
        """Whether it can be asked now; else ``renew`` comes first."""
        return True

    async def renew(self, client: Client) -> None:
        """Get what questions are signed with."""

    def stale(self) -> bool:
        """Forget what questions were signed with; False when a new one would not help."""
        return False

    def close(self) -> None: ...

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = PAGE, alone: bool = False
    ) -> Page:
        """List one page."""
        raise NotImplementedError

    async def later(self, calls: Calls, prefix: str, before: str, last: str) -> Page:
        """List the page that begins with ``last``; ``before`` is the key before that one."""
        raise NotImplementedError

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:  # noqa: ARG002
        """Return the page that names what could not be listed; None: nothing can be."""
        return None

    async def described(self, calls: Calls, key: str) -> Item:
        """Ask what an object is now."""
        raise NotImplementedError

    async def summed(self, calls: Calls, item: Item) -> Item:  # noqa: ARG002
        """Ask for the checksum of an object, where answers for it do not carry one."""
        return item

    async def multipart(self, calls: Calls, item: Item) -> Multipart | None:  # noqa: ARG002
        """Tell how an object was stored: by its first part, else by a guess."""
        return None

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        """Ask for bytes ``start`` to ``end`` (exclusive) of exactly this state of the object."""
        raise NotImplementedError

    def onward(self, head: Head) -> Onward | None:  # noqa: ARG002
        """Return where the answer itself is to be had, if this one says so; once, no further."""
        return None

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        """Return the checksums of the whole object, as an answer for it (and a listing) says."""
        raise NotImplementedError

    def state_of(self, head: Head) -> str:
        """Return what an answer says of the object's state, as in ``Item.etag``; "" if nothing."""
        raise NotImplementedError

    def trouble(self, head: Head, body: memoryview) -> Exception:
        """Return what an answer that is no success means."""
        raise NotImplementedError

    def meant(self, error: Exception) -> Exception:
        """Return what an error of the store's library means."""
        return error

    def skewed(self, at: float | None) -> bool:  # noqa: ARG002
        """Correct the clock by the store's; False when that was done before."""
        return False


class LibraryStore(Store):
    """A store that a library asks, but for bodies, over these connections."""

    tells_later = True

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._client: Any = None
        self._making = threading.Lock()

    @property
    def client(self) -> Any:
        """The library's client; made when it is needed first, in the thread that needs it."""
        with self._making:
            if self._client is None:
                self._client = self._made()
        return self._client

    def _made(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        self._transport.close()

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        return self._transport(method, url, headers, body)


def of_status(status: int, reason: str, *, slow: bool = False, again: bool = False) -> Trouble:
    """Return what an answer means that is no success; ``slow``, ``again``: by its reason."""
    if slow or status in {429, 503}:
        return Trouble(Code.UNREACHABLE, "The store asks for fewer calls.", again=True, slow=True)
    if again or status in {408, 500, 502, 504}:
        return Trouble(Code.UNREACHABLE, "The store has an internal error.", again=True)
    if status == 403:  # noqa: PLR2004
        return Denied("The store refuses access.")
    if status == 404:  # noqa: PLR2004
        return Trouble(Code.GONE, "The object is not there any more.")
    if status in {304, 412, 416}:
        return Trouble(Code.CHANGED, "The object changed while it was copied.")
    said = f" ({shown(reason, 60)})" if reason else ""
    return Trouble(Code.IO, f"The store answers {status}{said}.")
