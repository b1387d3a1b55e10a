"""What the engine needs of a store, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dataplane.copy.connector import Endpoint
from dataplane.copy.http1 import Head
from dataplane.copy.problems import Code, Trouble

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls, Client

NO_SUMS: Mapping[str, str] = {}
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


class Plain:
    """What most stores do alike: one address, sums with each answer, a listing that is flat."""

    names_ranges = True
    tells_later = False

    def fresh(self) -> bool:
        return True

    async def renew(self, client: Client) -> None:
        del client

    def stale(self) -> bool:
        return False

    def close(self) -> None:
        return

    async def later(self, calls: Calls, prefix: str, before: str, last: str) -> Page:
        raise NotImplementedError(calls, prefix, before, last)

    def onward(self, head: Head) -> Onward | None:
        del head
        return None

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        del prefix, token, trouble
        return None

    async def summed(self, calls: Calls, item: Item) -> Item:
        del calls
        return item

    async def multipart(self, calls: Calls, item: Item) -> Multipart | None:
        del calls, item
        return None

    def meant(self, error: Exception) -> Exception:
        return error

    def skewed(self, at: float | None) -> bool:
        del at
        return False


class Reading(Protocol):
    """What copying from a store needs.

    Bodies are read over connections of ours: for them a store makes the question and reads the
    head of the answer. Everything else it does itself, once: who asks tries again.
    """

    endpoint: Endpoint
    names_ranges: bool  # whether an answer says which bytes of the object it brings
    tells_later: bool  # whether its listing is sorted and can begin at a key

    def fresh(self) -> bool:
        """Whether it can be asked now; else ``renew`` comes first."""

    async def renew(self, client: Client) -> None:
        """Get what questions are signed with."""

    def stale(self) -> bool:
        """Forget what questions were signed with; False when a new one would not help."""

    def close(self) -> None: ...

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = 1000, alone: bool = False
    ) -> Page:
        """List one page."""

    async def later(self, calls: Calls, prefix: str, before: str, last: str) -> Page:
        """List the page that begins with ``last``; ``before`` is the key before that one."""

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        """Return the page that names what could not be listed; None: nothing can be."""

    async def described(self, calls: Calls, key: str) -> Item:
        """Ask what an object is now."""

    async def summed(self, calls: Calls, item: Item) -> Item:
        """Ask for the checksum of an object, where answers for it do not carry one."""

    async def multipart(self, calls: Calls, item: Item) -> Multipart | None:
        """Tell how an object was stored: by its first part, else by a guess."""

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        """Ask for bytes ``start`` to ``end`` (exclusive) of exactly this state of the object."""

    def onward(self, head: Head) -> Onward | None:
        """Return where the answer itself is to be had, if this one says so; once, no further."""

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        """Return the checksums of the whole object, as an answer for it (and a listing) says."""

    def state_of(self, head: Head) -> str:
        """Return what an answer says of the object's state, as in ``Item.etag``; "" if nothing."""

    def trouble(self, head: Head, body: memoryview) -> Exception:
        """Return what an answer that is no success means."""

    def meant(self, error: Exception) -> Exception:
        """Return what an error of the store's library means."""

    def skewed(self, at: float | None) -> bool:
        """Correct the clock by the store's; False when that was done before."""
