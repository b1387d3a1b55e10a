"""Sealing everything again after a new key: in small steps, so that it may be cut anywhere."""

from __future__ import annotations

from cryptography.fernet import InvalidToken
from django.db import connection, transaction

from credentials.models import Credential
from credentials.sealing import ring

STEP = 1000


def left() -> int:
    """Return how many secrets are not sealed with the newest key."""
    return Credential.objects.exclude(sealed_with=ring().name).count()


def again() -> tuple[int, int]:
    """Seal with the newest key what is not; return (how many, how many no key opens)."""
    keys = ring()
    done = lost = after = 0
    while True:
        with transaction.atomic():
            rows = list(
                Credential.objects.select_for_update()
                .exclude(sealed_with=keys.name)
                .filter(pk__gt=after)
                .only("pk", "sealed", "sealed_with")
                .order_by("pk")[:STEP]
            )
            if not rows:
                return done, lost
            after = rows[-1].pk
            fresh = []
            for row in rows:
                try:
                    sealed = keys.box.rotate(row.sealed.encode()).decode()
                except InvalidToken:
                    lost += 1
                    continue
                fresh.append((sealed, keys.name, row.pk, row.sealed_with))
            _write(fresh)
            done += len(fresh)


def _write(fresh: list[tuple[str, str, int, str]]) -> None:
    """Never through ``save``: ``updated_at`` is when somebody changed it. One call for many."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE credentials_credential SET sealed = %s, sealed_with = %s"
            " WHERE id = %s AND sealed_with = %s",
            fresh,
        )


def locked() -> int:
    """Return how many secrets are sealed with a key that is not known here."""
    return Credential.objects.exclude(sealed_with__in=ring().names).count()
