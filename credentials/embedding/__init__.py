"""What work gets so that aws, gcloud, rclone, s5cmd, git, ssh and their libraries just work.

``embed`` opens nothing by itself: ``env`` holds paths and names, the two callables open the
secrets when a driver really writes them. Of several of a kind the first is the default, and
each is a profile, a remote or a file by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from credentials.choices import EMBEDDED, STORES, CredentialKind, Use
from credentials.decrypt import opened_all
from credentials.embedding import stores, tools
from credentials.embedding.items import FOLDER, FOLDER_VARIABLE, Item, aliases
from credentials.models import Credential

if TYPE_CHECKING:
    from credentials.kinds import Given

_S3 = (CredentialKind.S3, CredentialKind.S3_COMPATIBLE)


@dataclass(frozen=True)
class Embedded:
    """``{secrets}`` stands for the folder of the files in ``env``, and in ``placed_files``."""

    env: Mapping[str, str]
    secret_env: Callable[[], Mapping[str, str]]
    secret_files: Callable[[], Mapping[str, str]]
    placed_files: tuple[str, ...] = ()


def embed(rows: Sequence[Credential], *, purpose: Use = Use.WORK) -> Embedded:
    """Return what a workload with these credentials is given, in this order."""
    chosen = [row for row in rows if row.kind in EMBEDDED]
    named = dict(zip((row.pk for row in chosen), aliases(chosen), strict=True))

    @cache
    def items() -> list[Item]:
        """Those that are still there, opened."""
        fresh = Credential.objects.in_bulk(list(named))
        known = [fresh[pk] for pk in named if pk in fresh]
        return [_item(row, named[row.pk], secret) for row, secret in opened_all(known, purpose)]

    return Embedded(
        env=_env([_item(row, named[row.pk], {}) for row in chosen]),
        secret_env=lambda: _secret_env(items()),
        secret_files=lambda: _files(items()),
        placed_files=stores.PLACED,
    )


def _item(row: Credential, alias: str, secret: Given) -> Item:
    return Item(alias, row.kind, row.public, secret)


def _of(items: Sequence[Item], *kinds: str) -> list[Item]:
    return [item for item in items if item.kind in kinds]


def _env(items: Sequence[Item]) -> dict[str, str]:
    """Names that Berth gives a meaning win over those of other secrets."""
    if not items:
        return {}
    return {
        **tools.generic_env(_of(items, CredentialKind.GENERIC)),
        FOLDER_VARIABLE: FOLDER,
        **stores.s3_env(_of(items, *_S3)),
        **stores.gcs_env(_of(items, CredentialKind.GCS)),
        **stores.rclone_env(_of(items, *STORES)),
        **tools.git_env(_of(items, CredentialKind.GIT)),
        **tools.ssh_env(_of(items, CredentialKind.SSH)),
    }


def _secret_env(items: Sequence[Item]) -> dict[str, str]:
    other = tools.generic_secret_env(_of(items, CredentialKind.GENERIC))
    plain = _env(items)
    return {
        **{name: value for name, value in other.items() if name not in plain},
        **stores.s3_secret_env(_of(items, *_S3)),
    }


def _files(items: Sequence[Item]) -> dict[str, str]:
    return {
        **stores.s3_files(_of(items, *_S3)),
        **stores.gcs_files(_of(items, CredentialKind.GCS)),
        **stores.rclone_files(_of(items, *STORES)),
        **tools.git_files(_of(items, CredentialKind.GIT)),
        **tools.ssh_files(_of(items, CredentialKind.SSH)),
        **tools.generic_files(_of(items, CredentialKind.GENERIC)),
    }


__all__ = ["Embedded", "embed"]
