"""Who may make an account although sign-up is closed: the holder of an invitation.

The app that owns invitations registers a gate. ``permit`` looks at the request (usually at a
secret kept in its session) and names the invited address; ``accept`` uses the invitation up,
in the transaction that makes the account, and raises Conflict when it is used up already.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from django.http import HttpRequest

    from accounts.models import User


@dataclass(frozen=True)
class Permit:
    """``email`` was reached by the invitation's mail, so it counts as verified."""

    email: str
    invited_to: str = ""


class Gate(Protocol):
    def permit(self, request: "HttpRequest") -> Permit | None: ...
    def accept(self, request: "HttpRequest", user: "User") -> None: ...


_gates: list[Gate] = []


def register(gate: Gate) -> None:
    if gate not in _gates:
        _gates.append(gate)


def permit_of(request: "HttpRequest") -> Permit | None:
    for gate in _gates:
        if permit := gate.permit(request):
            return permit
    return None


def accept(request: "HttpRequest", user: "User") -> None:
    for gate in _gates:
        if gate.permit(request):
            gate.accept(request, user)
