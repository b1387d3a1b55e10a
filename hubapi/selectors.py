"""Who a notebook token stands for, and how a workload is used."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from common.clock import now
from hubapi import oauth, registry, services, sessions
from hubapi.activity import FRESH
from hubapi.models import Activity, Client, NotebookToken, TokenKind
from hubapi.registry import AccessLevel, WorkloadInfo
from hubapi.services import access_scope
from metrics.selectors import quiet_since

_USE_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class Holder:
    """A token that is good now: whose, for which workload, and as what."""

    token: NotebookToken
    user: User
    info: WorkloadInfo

    @property
    def kind(self) -> TokenKind:
        return TokenKind(self.token.kind)


def holder_of(secret: str) -> Holder | None:
    """Return whom a token stands for at this moment; everything is asked again."""
    if not secret:
        return None
    token = (
        NotebookToken.objects.select_related("user")
        .filter(digest=services.digest(secret), revoked_at=None)
        .first()
    )
    if token is None:
        return None
    info = registry.by_uid(token.uid)
    if info is None or not is_good(token, info):
        return None
    at = now()  # noted once a minute: a read stays a read the rest of the time
    if token.last_used_at is None or at - token.last_used_at >= _USE_NOTED_EVERY:
        NotebookToken.objects.filter(pk=token.pk).update(last_used_at=at)
    return Holder(token, token.user, info)


def is_good(token: NotebookToken, info: WorkloadInfo) -> bool:
    """Whether an unrevoked token is worth anything: its launch, its session, its right."""
    if token.expires_at is not None and token.expires_at <= now():
        return False
    standing = Client.objects.filter(uid=token.uid, launch=token.launch, revoked_at=None)
    if not token.user.is_active or not standing.exists():
        return False
    if token.kind != TokenKind.USER:
        return token.user_id == info.owner_pk
    if not sessions.stands_for(token.session_key, token.user):
        return False
    level = registry.access(token.user, token.uid)
    if level == AccessLevel.VISITOR:
        return oauth.has_consented(token.user, info.workload_uid, info.owner_pk)
    return level == AccessLevel.OWNER


def scopes_of(holder: Holder) -> list[str]:
    """Return JupyterHub scopes. They mean something to this one server and nowhere else."""
    owner = holder.info.owner_username
    access = access_scope(owner, holder.info.short_id)
    if holder.kind == TokenKind.SERVICE:
        return [access]
    if holder.kind == TokenKind.SERVER:
        return [access, f"users:activity!user={owner}"]
    return [access, f"read:users:name!user={holder.user.username}"]


def identity_of(holder: Holder) -> dict[str, Any]:
    """Return the model that a notebook server reads.

    Never ``user_info.name``: Lab would build its restart link from it.
    """
    if holder.kind == TokenKind.SERVICE:
        return {"kind": "service", "name": "berth", "admin": False, "scopes": scopes_of(holder)}
    return {
        "kind": "user",
        "name": holder.user.username,
        "admin": False,
        "groups": [],
        "scopes": scopes_of(holder),
        "session_id": None,
        "user_info": {"display_name": holder.user.label},
    }


@dataclass(frozen=True)
class Idle:
    """How a workload is used. ``since``: all is quiet since then; None: in use, or not known."""

    words: str
    since: datetime | None
    known: bool = True
    busy_kernels: int = 0
    kernels: int = 0
    terminals: int = 0
    connections: int = 0


def idle_state(uid: UUID) -> Idle:
    """Return whether a workload is in use. A busy kernel that prints nothing is in use."""
    return idle_states([uid])[uid]


def idle_states(uids: list[UUID]) -> dict[UUID, Idle]:
    """Return the same for many, in two queries."""
    rows = {row.uid: row for row in Activity.objects.filter(uid__in=uids)}
    quiet = quiet_since(uids)
    return {uid: _idle(rows.get(uid), quiet.get(uid)) for uid in uids}


def _idle(row: Activity | None, quiet: datetime | None) -> Idle:
    """``quiet``: since when processor and GPUs do nothing; None: not known."""
    at = now()
    fresh = row is not None and row.polled_at is not None and at - row.polled_at < FRESH
    if row is None or not fresh:
        return Idle(words=_("Its use is not known yet."), since=None, known=False)
    counted = Idle(
        words="",
        since=None,
        busy_kernels=row.busy_kernels,
        kernels=row.kernels,
        terminals=row.terminals,
        connections=row.connections,
    )
    if row.busy_kernels:
        words = ngettext(
            "%(n)d kernel is computing.", "%(n)d kernels are computing.", row.busy_kernels
        )
        return replace(counted, words=words % {"n": row.busy_kernels})
    if quiet is None:
        words = _("Its kernels are quiet. Whether anything else in it computes is not known.")
        return replace(counted, words=words)
    since = max(t for t in (row.last_activity, row.last_busy_at, quiet) if t)
    minutes = max(0, int((at - since).total_seconds() // 60))
    if minutes == 0:
        return replace(counted, words=_("In use."))
    words = ngettext(
        "Nothing happened for %(n)d minute.", "Nothing happened for %(n)d minutes.", minutes
    )
    return replace(counted, words=words % {"n": minutes}, since=since)


@dataclass(frozen=True)
class Use:
    """What is known of people and kernels in a workload.

    ``busy_kernels`` None: there is no server in it that could be asked. ``used_at``: the last time
    that a kernel, a terminal, SSH or a transfer was seen at work.
    """

    busy_kernels: int | None = None
    answered: bool = False
    used_at: datetime | None = None


def uses(uids: Collection[UUID]) -> dict[UUID, Use]:
    """Return that of each; two queries."""
    at, found = now(), {uid: Use() for uid in uids}
    asked = set(
        Client.objects.filter(uid__in=uids, revoked_at=None, parent_uid=None).values_list(
            "uid", flat=True
        )
    )
    for row in Activity.objects.filter(uid__in=uids):
        found[row.uid] = Use(
            busy_kernels=row.busy_kernels if row.uid in asked else None,
            answered=row.polled_at is not None and at - row.polled_at < FRESH,
            used_at=max((t for t in (row.last_activity, row.last_busy_at) if t), default=None),
        )
    return found
