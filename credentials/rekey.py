"""Sealing everything again after a new key: in small steps, so that it may be cut anywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cryptography.fernet import InvalidToken
from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.models import JSONField, Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast

from common.errors import Unavailable
from credentials.models import Credential
from credentials.sealing import Sealed, SealedMapping, ring, sealed

if TYPE_CHECKING:
    from collections.abc import Iterable

Column = tuple[type[Model], str]
STEP = 1000


def columns() -> list[Column]:
    """Return every column of sealed mappings, of whichever app."""
    return [
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields  # noqa: SLF001
        if isinstance(field, SealedMapping)
    ]


def left() -> int:
    """Return how many secrets are not sealed with the newest key."""
    key = ring().name
    mappings = sum(_held(*one).exclude(_by(key)).count() for one in columns())
    return Credential.objects.exclude(sealed_with=key).count() + mappings


def locked() -> int:
    """Return how many secrets are sealed with a key that is not known here."""
    names = ring().names
    known = Q(text__startswith="{")
    for name in names:
        known |= _by(name)
    mappings = sum(_held(*one).exclude(known).count() for one in columns())
    return Credential.objects.exclude(sealed_with__in=names).count() + mappings


def again() -> tuple[int, int]:
    """Seal with the newest key what is not; return (how many, how many no key opens)."""
    key = ring().name
    found = [_credentials_again()]
    found += [_mappings_again(one[1], _held(*one).exclude(_by(key))) for one in columns()]
    return sum(done for done, _ in found), sum(lost for _, lost in found)


def seal_plain(wanted: Iterable[Column] | None = None) -> int:
    """Seal what a version that did not seal has written; nothing where there is no key yet."""
    if not settings.BERTH_CREDENTIAL_KEYS:
        return 0
    found = columns() if wanted is None else wanted
    plain = [(name, _held(model, name).filter(text__startswith="{")) for model, name in found]
    return sum(_mappings_again(*one)[0] for one in plain)


def _credentials_again() -> tuple[int, int]:
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
                    text = keys.box.rotate(row.sealed.encode()).decode()
                except InvalidToken:
                    lost += 1
                    continue
                fresh.append((text, keys.name, row.pk, row.sealed_with))
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


def _held(model: type[Model], name: str) -> QuerySet[Any]:
    """Return the rows whose mapping is not empty, with ``text``: the JSON as it is stored."""
    rows = model._base_manager.annotate(text=Cast(name, TextField()))  # noqa: SLF001
    return rows.exclude(Q(text="{}") | Q(text=None))


def _by(key: str) -> Q:
    return Q(text__startswith=f'"{key}.')


def _mappings_again(name: str, wanted: QuerySet[Any]) -> tuple[int, int]:
    """Seal the column ``name`` of ``wanted`` with the newest key: plain ones too."""
    done = lost = after = 0
    while True:
        with transaction.atomic():
            if connection.vendor == "sqlite":  # its file, and so a copy of it, keeps no remains
                connection.cursor().execute("PRAGMA secure_delete = ON")
            rows = wanted.filter(pk__gt=after).order_by("pk").select_for_update()
            found = list(rows.values_list("pk", "text")[:STEP])
            if not found:
                return done, lost
            after = found[-1][0]
            for pk, text in found:
                held = json.loads(text)
                try:
                    fresh = sealed(Sealed(held) if isinstance(held, str) else held).text
                except Unavailable:
                    lost += 1
                    continue
                # Not what somebody wrote meanwhile: the newest key has sealed that.
                same = wanted.filter(pk=pk, text=text)
                done += same.update(**{name: Value(fresh, JSONField())})
