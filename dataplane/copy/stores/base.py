"""What the engine needs of a store, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dataplane.copy.connector import Endpoint
from dataplane.copy.head import Head
from dataplane.copy.problems import Code, Trouble

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


class Question(NamedTuple):
    """The head of a request; its body, where there is one, is sent apart."""

    method: str
    raw: bytes


class Onward(NamedTuple):
    """Where a store sends us for the answer, and what to ask there."""

    endpoint: Endpoint
    question: Question


class Plain:
    """What most stores do alike: one address, sums with each answer, a listing that is flat."""

    names_ranges = True
    tells_later = False

    def later_question(self, prefix: str, before: str, last: str) -> Question:
        raise NotImplementedError(prefix, before, last)

    def onward(self, head: Head) -> Onward | None:
        del head
        return None

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        del prefix, token, trouble
        return None

    def sums_questions(self, item: Item) -> tuple[Question, ...]:
        del item
        return ()

    def summed(self, item: Item, bodies: list[bytes]) -> Item:
        del bodies
        return item


class Reading(Protocol):
    """What copying from a store needs. Only ``renew`` does input and output."""

    endpoint: Endpoint
    names_ranges: bool  # whether an answer says which bytes of the object it brings
    tells_later: bool  # whether its listing is sorted and can begin at a key

    def fresh(self) -> bool:
        """Whether questions can be signed now; else ``renew`` comes first."""

    async def renew(self) -> None:
        """Get what questions are signed with."""

    def stale(self) -> bool:
        """Forget what questions were signed with; False when a new one would not help."""

    async def close(self) -> None: ...

    def list_question(self, prefix: str, token: str, most: int = 1000) -> Question: ...

    def later_question(self, prefix: str, before: str, last: str) -> Question:
        """Ask for the page that begins with ``last``; ``before`` is the key before that one."""

    def page(self, body: memoryview, prefix: str = "", token: str = "") -> Page:
        """Read the answer to ``list_question`` of the same prefix and token."""

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        """Return the page that names what could not be listed; None: nothing can be."""

    def next_token(self, body: memoryview) -> str | None:
        """Find the next page's token quickly; None when only ``page`` can tell."""

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> Question:
        """Ask for bytes ``start`` to ``end`` (exclusive) of exactly this state of the object."""

    def head_question(self, key: str, part: int = 0) -> Question: ...

    def onward(self, head: Head) -> Onward | None:
        """Return where the answer itself is to be had, if this one says so; once, no further."""

    def sums_questions(self, item: Item) -> tuple[Question, ...]:
        """Ask for the checksum of an object, where answers for it do not carry one."""

    def summed(self, item: Item, bodies: list[bytes]) -> Item:
        """Return the item with the checksum that these answers tell."""

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        """Return the checksums of the whole object, as an answer for it (and a listing) says."""

    def state_of(self, head: Head) -> str:
        """Return what an answer says of the object's state, as in ``Item.etag``; "" if nothing."""

    def described(self, key: str, head: Head, body: memoryview) -> Item:
        """Read an object's description off the answer to ``head_question``."""

    def multipart(self, item: Item, head: Head | None) -> Multipart | None:
        """Read how it was stored off the answer for its first part; without one, guess."""

    def trouble(self, head: Head, body: memoryview) -> Exception:
        """Return what an answer that is no success means."""

    def skewed(self, at: float | None) -> bool:
        """Correct the clock by the store's; False when that was done before."""
