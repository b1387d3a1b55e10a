"""What a gateway goes by: who may call which endpoint, and which replicas answer there.

A plain value, made anew at each change. Whoever makes it looks at rows; the gateway
compares it with the one before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62})")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ADDRESS = re.compile(r"(?:[0-9.]+|\[[0-9a-f:.]+\]):[0-9]{1,5}")
ORIGIN = re.compile(r"\*|https?://(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")
DIGEST = re.compile(r"[0-9a-f]{64}")
CANARY = "canary"


@dataclass(frozen=True)
class Row:
    """One version behind an endpoint: its main one, or its canary."""

    uid: str
    version: str
    replicas: tuple[str, ...] = ()  # host:port of each that is ready
    metrics: str = ""  # path of its figures; none: it publishes none

    def __post_init__(self) -> None:
        _check(WORD, self.uid, self.version)
        _check(ADDRESS, *self.replicas)
        if self.metrics and not re.fullmatch(r"/[\w./-]*", self.metrics):
            raise ValueError(f"{self.metrics!r} is no path of figures.")


@dataclass(frozen=True)
class Endpoint:
    """What answers below ``/e/PROJECT/NAME/``."""

    uid: str
    project: str
    name: str
    main: Row
    canary: Row | None = None
    canary_percent: int = 0
    wait_s: float = 120.0  # a request for a sleeping one waits so long at most
    waiting: int = 100  # so many wait for it at once at most
    stopped: str = ""  # why no request wakes it, for its callers
    origins: tuple[str, ...] = ()  # whose pages may call it in a browser

    def __post_init__(self) -> None:
        _check(NAME, self.project, self.name)
        _check(WORD, self.uid)
        _check(ORIGIN, *self.origins)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.main,) if self.canary is None else (self.main, self.canary)


@dataclass(frozen=True)
class Principal:
    """Who has a secret, and what may be called with it. Limits of 0 are none."""

    word: str  # of this secret
    caller: str  # whom its calls are counted for
    endpoints: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()  # every endpoint of these
    requests_per_s: int = 0
    concurrent: int = 0
    is_exhausted: bool = False  # for today
    expires_at: float | None = None

    def __post_init__(self) -> None:
        _check(WORD, self.word, self.caller, *self.endpoints)
        _check(NAME, *self.projects)


@dataclass(frozen=True)
class RoutingTable:
    endpoints: tuple[Endpoint, ...] = ()
    principals: dict[str, Principal] = field(default_factory=dict)  # by SHA-256 of the secret
    gateways: int = 1  # that carry together: each allows its part of a limit

    def __post_init__(self) -> None:
        for digest in self.principals:
            checked_digest(digest)

    def at(self, now: float) -> RoutingTable:
        """The same without whom it is too late for."""
        live = {
            digest: one
            for digest, one in self.principals.items()
            if one.expires_at is None or one.expires_at > now
        }
        return replace(self, principals=live)


def checked_digest(text: str) -> str:
    _check(DIGEST, text)
    return text


def _check(pattern: re.Pattern[str], *words: str) -> None:
    """All of it is written into commands of the program that routes."""
    for word in words:
        if not pattern.fullmatch(word):
            raise ValueError(f"{word!r} can't stand in a routing table.")
