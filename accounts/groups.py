"""Groups of the identity provider: who wants to know them at each sign-in."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounts.models import User

Sync = Callable[["User", list[str]], None]

_syncs: list[Sync] = []
MAX_GROUPS = 500


def register(sync: Sync) -> Sync:
    """Register ``sync(user, groups)``; it makes roles follow the groups, adding and removing."""
    if sync not in _syncs:
        _syncs.append(sync)
    return sync


def clean(claim: object) -> list[str]:
    """Return group names of a claim: a list of words, or one word; anything else is none."""
    values = [claim] if isinstance(claim, str) else claim
    if not isinstance(values, list):
        return []
    words = [v.strip()[:120] for v in values if isinstance(v, str) and v.strip()]
    return sorted(set(words))[:MAX_GROUPS]


def sync(user: "User", groups: list[str]) -> None:
    for callback in _syncs:
        callback(user, groups)
