"""What lets a page of the portal through the gate: a ticket for one thing, good for a minute.

The gate may lie at another host than the portal, and whoever listens there is never to see the
portal's cookie. So a page asks the portal for a ticket. It names the session it came from, sealed,
and stands only while that session does.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass

from accounts import crypto

AGE_S = 60
_PURPOSE = b"berth gate ticket v1"


@dataclass(frozen=True)
class Ticket:
    session_key: str
    user_pk: int
    name: str  # the workspace or volume that it is for, as the gate's addresses have it


def issue(ticket: Ticket) -> str:
    return crypto.seal(json.dumps(astuple(ticket)), purpose=_PURPOSE)


def read(sealed: str) -> Ticket | None:
    """Return it; None when it is not ours or too old. Whether its session stands is not asked."""
    text = crypto.unseal(sealed, purpose=_PURPOSE, max_age_s=AGE_S)
    return Ticket(*json.loads(text)) if text else None
