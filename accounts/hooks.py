"""What other apps add to the life of an account; most are called inside its transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from django.conf import settings

from common.hooks import Hook

if TYPE_CHECKING:
    from django.http import HttpRequest

    from accounts.models import ApiToken, User
    from accounts.principal import Principal


# What is cut when a person is disabled (tokens of notebooks, sockets …).
user_disabled: Hook[["User", "Principal | None"], None] = Hook()
# What ends with portal sessions; it gets the person and the session keys.
sessions_ended: Hook[["User", Sequence[str]], None] = Hook()
# What ends with an API token: whatever was made with it.
token_revoked: Hook[["ApiToken", "Principal"], None] = Hook()
# (uid, name) of the projects that a token of the person may be limited to.
project_choices: Hook[["User"], Sequence[tuple[str, str]]] = Hook()
# Host, port and fingerprint of the server that SSH keys open, None where there is none.
ssh_servers: Hook[[], Mapping[str, str] | None] = Hook()


# Groups of a person by the identity provider, known at each sign-in: roles follow them.
groups_known: Hook[["User", list[str]], None] = Hook()

_YES = (True, "true", "True")
MAX_GROUPS = 500
_log = structlog.get_logger(__name__)


def groups_in(claims: Mapping[str, Any]) -> list[str] | None:
    """Return the groups that claims about a person name; None where they say nothing of groups.

    Many providers leave the claim out for whoever is in no group, so without it there are none.
    It says nothing where the provider marks that there were too many to send, and where the
    setting names no claim: this provider never sends any.
    """
    claim = settings.BERTH_OIDC_GROUPS_CLAIM
    if not claim:
        return None
    if claim in claims:
        return clean_groups(claims[claim])
    elsewhere = claims.get("_claim_names")  # OpenID Connect Core 5.6.2; Entra ID for over 200
    if (isinstance(elsewhere, dict) and claim in elsewhere) or claims.get("hasgroups") in _YES:
        _log.warning("oidc_groups_left_out", sub=str(claims.get("sub", "")))
        return None
    return []


def clean_groups(claim: object) -> list[str]:
    """Return group names of a claim: a list of words, or one word; anything else is none."""
    values = [claim] if isinstance(claim, str) else claim
    if not isinstance(values, list):
        return []
    words = [v.strip()[:120] for v in values if isinstance(v, str) and v.strip()]
    return sorted(set(words))[:MAX_GROUPS]


def sync_groups(user: "User", groups: list[str] | None) -> None:
    """Make roles follow the groups; None: nothing was said of them, roles stay as they are."""
    if groups is not None:
        groups_known(user, groups)


# Who may make an account although sign-up is closed: the holder of an invitation.
#
# The app that owns invitations registers a gate. ``permit`` looks at the request (usually at a
# secret kept in its session) and names the invited address; ``accept`` uses the invitation up,
# in the transaction that makes the account, and raises Conflict when it is used up already.


@dataclass(frozen=True)
class Permit:
    """``email`` was reached by the invitation's mail, so it counts as verified."""

    email: str


class Gate(Protocol):
    def permit(self, request: "HttpRequest") -> Permit | None: ...
    def accept(self, request: "HttpRequest", user: "User") -> None: ...


_gates: list[Gate] = []


def register_gate(gate: Gate) -> None:
    _gates.append(gate)


def permit_of(request: "HttpRequest") -> Permit | None:
    for gate in _gates:
        if permit := gate.permit(request):
            return permit
    return None


def accept_invitation(request: "HttpRequest", user: "User") -> None:
    for gate in _gates:
        if gate.permit(request):
            gate.accept(request, user)
