"""Opening secrets: for work that starts, for loads and for tests. Never for an answer.

Called in the worker and in the gate only; nothing here is reached from a page or the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import Invalid
from credentials.choices import STORES, CredentialKind, Use
from credentials.kinds import gcs
from credentials.sealing import unseal
from credentials.services import credential_note_use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from credentials.models import Credential


_NAMED = (CredentialKind.HDFS, CredentialKind.MLFLOW)


def opened(row: Credential) -> dict[str, str]:
    """Return the secret, or raise Unavailable where no known key opens it."""
    return unseal(row.uid, row.sealed)


def opened_all(rows: Iterable[Credential], purpose: Use) -> list[tuple[Credential, dict[str, str]]]:
    """Open several for one purpose, and remember that."""
    found = [(row, opened(row)) for row in rows]
    credential_note_use(uids=[row.pk for row, _secret in found], purpose=purpose)
    return found


def store_of(credential: Credential, *, purpose: Use = Use.LOAD) -> dict[str, Any]:
    """Return how to reach a store: the part of a load's plan without bucket and objects."""
    if credential.kind not in STORES:
        raise Invalid(_("“%(name)s” opens no store.") % {"name": credential.name})
    ((row, secret),) = opened_all([credential], purpose)
    said = row.public
    store: dict[str, Any] = {
        "kind": row.kind,
        "endpoint": said.get("endpoint", ""),
        "region": said.get("region", ""),
        "path_style": bool(said.get("path_style", False)),
        "anonymous": False,
        "access_key": said.get("access_key", ""),
        "secret_key": secret.get("secret_key", ""),
        "session_token": secret.get("session_token", ""),
        "service_account": None,
        "user": row.username if row.kind in _NAMED else "",
        "token": secret.get("delegation_token", "") or secret.get("password", ""),
    }
    if row.kind == CredentialKind.GCS:
        store["service_account"] = gcs.key_file(said, secret)
    return store
