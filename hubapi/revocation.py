"""Making a revocation felt at once: what a dead token still holds open is cut at the proxy.

The rows are the intent (``cut_due_at``), the worker acts. A token is cut twice: at once, and
again when no server can still believe an old answer about it, because JupyterLab reconnects
within that time.
"""

import time
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

import structlog
from django.conf import settings

from clusters.registry import router
from common.clock import now
from hubapi import registry, sessions
from hubapi.models import Client, Code, NotebookToken, TokenKind
from hubapi.registry import route_key
from hubapi.selectors import is_good
from hubapi.services import CACHE_AGE_S, revoke_tokens
from runtime.protocol import DriverError

log = structlog.get_logger(__name__)
_SETTLED_AFTER = timedelta(seconds=CACHE_AGE_S + 2)
_KEPT = timedelta(days=1)
_IN_USE = timedelta(minutes=5)


def cut_due() -> int:
    """Cut what is due; return how many connections fell. What fails stays due."""
    due = (
        NotebookToken.objects.filter(cut_due_at__lte=now())
        .order_by("uid")
        .values_list("uid", "pk", "digest", "revoked_at")
    )
    return sum(_cut(uid, list(rows)) for uid, rows in groupby(due, key=lambda row: row[0]))


def _cut(uid: UUID, rows: list[tuple[UUID, int, str, datetime | None]]) -> int:
    short_id = Client.objects.filter(uid=uid).values_list("short_id", flat=True).first()
    count = 0
    try:
        for _uid, pk, digest, revoked_at in rows:
            at = now()
            if short_id:
                count += router().cut(route_key(short_id), visitor=digest)
            settled = (revoked_at or at) + _SETTLED_AFTER
            again = settled if at < settled else None
            NotebookToken.objects.filter(pk=pk).update(cut_due_at=again)
    except DriverError as error:
        log.warning("hubapi.cut_failed", uid=str(uid), error=str(error))
    return count


def sweep_tokens(*, after: int = 0, limit: int = 200) -> int:
    """Revoke tokens that have lost their ground with nobody telling: an expired session, a
    changed password, a member who left.

    Looks at ``limit`` tokens behind ``after`` and returns where to go on (0: from the start),
    so that a pass costs the same however many there are.
    """
    tokens = list(
        NotebookToken.objects.filter(kind=TokenKind.USER, revoked_at=None, pk__gt=after)
        .select_related("user")
        .order_by("pk")[:limit]
    )
    infos = {uid: registry.by_uid(uid) for uid in {token.uid for token in tokens}}
    groundless = [t.pk for t in tokens if (i := infos[t.uid]) is None or not is_good(t, i)]
    revoke_tokens(groundless)
    return tokens[-1].pk if len(tokens) == limit else 0


def sweep_sessions() -> None:
    """Ask about the sessions behind tokens in use: somebody may work in JupyterLab all day and
    never come to a page, where single sign-on is asked.
    """
    if not settings.BERTH_OIDC_ISSUER:
        return
    used = NotebookToken.objects.filter(
        kind=TokenKind.USER, revoked_at=None, last_used_at__gt=now() - _IN_USE
    ).select_related("user")
    people = {token.session_key: token.user for token in used.iterator(500)}
    for session_key, user in people.items():
        sessions.end_if_over(session_key, user)


def clean_up() -> None:
    """Forget codes and visitors' tokens that are over since a day."""
    old = now() - _KEPT
    Code.objects.filter(expires_at__lt=old).delete()
    dead = NotebookToken.objects.filter(kind=TokenKind.USER, cut_due_at=None)
    dead.filter(revoked_at__lt=old).delete()
    dead.filter(expires_at__lt=old).delete()


class Keeper:
    """A duty of the worker, called every two seconds: one indexed read when quiet."""

    EVERY_S = 2.0
    SWEEP_S = 20.0
    CLEAN_S = 3600.0

    def __init__(self) -> None:
        self._swept = self._cleaned = float("-inf")
        self._at = 0  # where the sweep goes on

    def tick(self) -> None:
        at = time.monotonic()
        if at - self._swept >= self.SWEEP_S:
            self._swept = at
            sweep_sessions()
            self._at = sweep_tokens(after=self._at)
        if at - self._cleaned >= self.CLEAN_S:
            self._cleaned = at
            clean_up()
        cut_due()
