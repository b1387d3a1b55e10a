"""Groups of the identity provider: who wants to know them at each sign-in."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings

if TYPE_CHECKING:
    from accounts.models import User

Sync = Callable[["User", list[str]], None]

_YES = (True, "true", "True")
_syncs: list[Sync] = []
MAX_GROUPS = 500
_log = structlog.get_logger(__name__)


def register(sync: Sync) -> Sync:
    """Register ``sync(user, groups)``; it makes roles follow the groups, adding and removing."""
    if sync not in _syncs:
        _syncs.append(sync)
    return sync


def said_in(claims: Mapping[str, Any]) -> list[str] | None:
    """Return the groups that claims about a person name; None where they say nothing of groups.

    Many providers leave the claim out for whoever is in no group, so without it there are none.
    It says nothing where the provider marks that there were too many to send, and where the
    setting names no claim: this provider never sends any.
    """
    claim = settings.BERTH_OIDC_GROUPS_CLAIM
    if not claim:
        return None
    if claim in claims:
        return clean(claims[claim])
    elsewhere = claims.get("_claim_names")  # OpenID Connect Core 5.6.2; Entra ID for over 200
    if (isinstance(elsewhere, dict) and claim in elsewhere) or claims.get("hasgroups") in _YES:
        _log.warning("oidc_groups_left_out", sub=str(claims.get("sub", "")))
        return None
    return []


def clean(claim: object) -> list[str]:
    """Return group names of a claim: a list of words, or one word; anything else is none."""
    values = [claim] if isinstance(claim, str) else claim
    if not isinstance(values, list):
        return []
    words = [v.strip()[:120] for v in values if isinstance(v, str) and v.strip()]
    return sorted(set(words))[:MAX_GROUPS]


def sync(user: "User", groups: list[str] | None) -> None:
    """Make roles follow the groups; None: nothing was said of them, roles stay as they are."""
    if groups is None:
        return
    for callback in _syncs:
        callback(user, groups)
