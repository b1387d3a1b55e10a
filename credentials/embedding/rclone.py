"""One remote of rclone for each store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from credentials.choices import CredentialKind
from credentials.embedding import gcs
from credentials.embedding.items import FOLDER, Item, sections, yes
from credentials.kinds import gcs as google

CONFIG = "rclone.conf"


def env(items: Sequence[Item]) -> dict[str, str]:
    return {"RCLONE_CONFIG": f"{FOLDER}/{CONFIG}"} if items else {}


def files(items: Sequence[Item]) -> dict[str, str]:
    remotes = [(item.alias, _remote(item)) for item in items]
    return {CONFIG: sections(remotes)} if remotes else {}


def _remote(item: Item) -> dict[str, Any]:
    if item.kind == CredentialKind.GCS:
        return _google(item)
    said = item.public
    compatible = item.kind == CredentialKind.S3_COMPATIBLE
    return {
        "type": "s3",
        "provider": "Other" if compatible else "AWS",
        "env_auth": "false",
        "access_key_id": said["access_key"],
        "secret_access_key": item.secret["secret_key"],
        "session_token": item.secret.get("session_token", ""),
        "region": said["region"],
        "endpoint": said["endpoint"] if compatible else "",
        "force_path_style": yes(said.get("path_style")) if compatible else "",
        "no_check_bucket": "true",  # keys of work seldom may make buckets
    }


def _google(item: Item) -> dict[str, Any]:
    return {
        "type": "google cloud storage",
        "env_auth": "false",
        "project_number": item.public["project_id"],
        "service_account_credentials": gcs.in_one_line(item),
        "bucket_policy_only": "true",
        "no_check_bucket": "true",
        "endpoint": f"{google.endpoint()}/storage/v1/" if settings.BERTH_GCS_ENDPOINT else "",
    }
