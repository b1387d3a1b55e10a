"""Reading accounts."""

import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.models import ApiToken, PlatformRole, ProviderGrant, SshKey, User
from accounts.principal import Principal
from common.clock import now
from common.errors import NotFound


@dataclass(frozen=True)
class SessionInfo:
    id: int
    ip: str
    device: str
    created_at: datetime
    last_seen_at: datetime
    is_current: bool


def sessions_of(who: Principal, current_key: str = "") -> list[SessionInfo]:
    """Return the person's live sessions, the current one first, then the latest seen."""
    rows = UserSession.objects.filter(user=who.user).order_by("-last_seen_at")[:200]
    live = set(
        Session.objects.filter(
            session_key__in=[r.session_key for r in rows], expire_date__gt=now()
        ).values_list("session_key", flat=True)
    )
    found = [
        SessionInfo(
            id=row.pk,
            ip=str(row.ip),
            device=device_of(row.user_agent),
            created_at=row.created_at,
            last_seen_at=row.last_seen_at,
            is_current=row.session_key == current_key,
        )
        for row in rows
        if row.session_key in live
    ]
    return sorted(found, key=lambda s: not s.is_current)


def tokens_of(who: Principal) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=who.user).order_by("-id")


def live_tokens_of(who: Principal) -> QuerySet[ApiToken]:
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now())
    return tokens_of(who).filter(alive, revoked_at__isnull=True)


def ssh_keys_of(who: Principal) -> QuerySet[SshKey]:
    return SshKey.objects.filter(user=who.user).order_by("-id")


def users_all(
    *, search: str = "", is_active: bool | None = None, platform_role: str | None = None
) -> QuerySet[User]:
    """Return people for operators and auditors; callers check the right."""
    users = User.objects.order_by("-id")
    if search:
        users = users.filter(
            Q(username__icontains=search)
            | Q(display_name__icontains=search)
            | Q(email__icontains=search)
        )
    if is_active is not None:
        users = users.filter(is_active=is_active)
    if platform_role is not None and platform_role in PlatformRole.values:
        users = users.filter(platform_role=platform_role)
    return users


def user_get(uid: UUID | str) -> User:
    try:
        found = User.objects.filter(uid=UUID(str(uid))).first()
    except ValueError:
        found = None
    if found is None:
        raise NotFound(_("There is no such person."))
    return found


def refusal_of(user: User) -> str:
    """Return what the identity provider said when it refused this person."""
    if user.is_active:
        return ""
    said = ProviderGrant.objects.filter(user=user).values_list("said", flat=True).first()
    return said or ""


_BROWSERS = {
    "Edg/": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
    "curl/": "curl",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


def device_of(user_agent: str) -> str:
    """Return "Firefox, Linux", or what the browser calls itself."""
    words = [_first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)]
    known = ", ".join(w for w in words if w)
    shown = known or user_agent[:60] or _("Unknown device")
    return "".join(c if c.isprintable() else "?" for c in shown)


def _first(table: Mapping[str, str], user_agent: str) -> str:
    return next((name for mark, name in table.items() if mark in user_agent), "")


_JUNK = re.compile(r"[^a-zA-Z0-9._@+-]+")
_NUMBERED = 100


def free_username(wanted: str) -> str:
    """Return ``wanted`` made valid, with a number behind it when somebody has it already."""
    plain = unicodedata.normalize("NFKD", wanted or "").encode("ascii", "ignore").decode()
    base = _JUNK.sub("-", plain).lstrip("._@+-").rstrip("-")[:56] or "user"
    taken = {
        name.lower()
        for name in User.objects.filter(username__istartswith=base).values_list(
            "username", flat=True
        )[:5000]
    }
    for number in range(1, _NUMBERED):
        name = base if number == 1 else f"{base}{number}"
        if name.lower() not in taken:
            return name
    return f"{base}-{secrets.token_hex(3)}"
