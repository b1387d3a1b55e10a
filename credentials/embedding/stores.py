"""What clients of stores read: aws and other SDKs of S3, those of Google Cloud, rclone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from credentials.choices import CredentialKind
from credentials.embedding.items import FOLDER, MEMORY, Item, sections, yes
from credentials.kinds import gcs as google

AWS_CONFIG, AWS_KEYS = "aws-config", "aws-credentials"
# Checksums that newer SDKs add unasked are refused by many stores that are not Amazon's.
_CALM = "when_required"


def s3_env(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    found = {
        "AWS_CONFIG_FILE": f"{FOLDER}/{AWS_CONFIG}",
        "AWS_SHARED_CREDENTIALS_FILE": f"{FOLDER}/{AWS_KEYS}",
        "AWS_SDK_LOAD_CONFIG": "1",
        "AWS_EC2_METADATA_DISABLED": "true",  # never the identity of the machine
    }
    first = items[0].public
    if len(items) == 1:
        found |= {"AWS_REGION": first["region"], "AWS_DEFAULT_REGION": first["region"]}
    if endpoint := _endpoint(items[0]):
        found["S3_ENDPOINT_URL"] = endpoint  # s5cmd reads no endpoint from a file
        if len(items) == 1:
            found |= {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ENDPOINT_URL_S3": endpoint,
                "AWS_REQUEST_CHECKSUM_CALCULATION": _CALM,
                "AWS_RESPONSE_CHECKSUM_VALIDATION": _CALM,
            }
    return found


def s3_secret_env(items: Sequence[Item]) -> dict[str, str]:
    if len(items) != 1:
        return {}
    found = {
        "AWS_ACCESS_KEY_ID": items[0].public["access_key"],
        "AWS_SECRET_ACCESS_KEY": items[0].secret["secret_key"],
    }
    if token := items[0].secret.get("session_token"):
        found["AWS_SESSION_TOKEN"] = token
    return found


def s3_files(items: Sequence[Item]) -> dict[str, str]:
    """Write the two files with one profile each; the first is the default too."""
    if not items:
        return {}
    first = items[0]
    config = [("default", _aws_config(first))]
    config += [(f"profile {item.alias}", _aws_config(item)) for item in items]
    keys = [("default", _aws_keys(first)), *((item.alias, _aws_keys(item)) for item in items)]
    return {AWS_CONFIG: sections(config), AWS_KEYS: sections(keys)}


def _endpoint(item: Item) -> str:
    return str(item.public["endpoint"]) if item.kind == CredentialKind.S3_COMPATIBLE else ""


def _aws_config(item: Item) -> dict[str, Any]:
    found: dict[str, Any] = {"region": item.public["region"]}
    if endpoint := _endpoint(item):
        found["endpoint_url"] = endpoint
        found["request_checksum_calculation"] = _CALM
        found["response_checksum_validation"] = _CALM
        if item.public.get("path_style"):
            found["s3"] = {"addressing_style": "path"}
    return found


def _aws_keys(item: Item) -> Mapping[str, object]:
    return {
        "aws_access_key_id": item.public["access_key"],
        "aws_secret_access_key": item.secret["secret_key"],
        "aws_session_token": item.secret.get("session_token", ""),
    }


# What gcloud, gsutil, gcsfs and the other clients of Google Cloud read.
#
# gsutil keeps a copy of the key where it keeps its state, which is the home if nobody says
# otherwise: there it would outlive the credential, so its state lies in memory.


GSUTIL = "boto"
PLACED = (GSUTIL,)  # it takes its key by an absolute path and from no variable


def gcs_env(items: Sequence[Item]) -> dict[str, str]:
    """The first is the one of Application Default Credentials."""
    if not items:
        return {}
    path = f"{FOLDER}/{_gcs_file(items[0])}"
    project = str(items[0].public["project_id"])
    found = {
        "GOOGLE_APPLICATION_CREDENTIALS": path,
        "GOOGLE_CLOUD_PROJECT": project,
        "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE": path,
        "CLOUDSDK_CORE_PROJECT": project,
        "BOTO_CONFIG": f"{FOLDER}/{GSUTIL}",
        # never the identity of the machine
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "NO_GCE_CHECK": "true",
    }
    if settings.BERTH_GCS_ENDPOINT:
        # not STORAGE_EMULATOR_HOST: with it Google's own library forgets who it is
        found["API_ENDPOINT_OVERRIDE"] = google.endpoint()
        found["FSSPEC_GCS_ENDPOINT_URL"] = google.endpoint()
        found["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # asks by gRPC, which only Google has
        found["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] = f"{google.endpoint()}/storage/v1/"
    return found


def gcs_files(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    found = {_gcs_file(item): json.dumps(_gcs_key(item), indent=2) + "\n" for item in items}
    return {**found, GSUTIL: _gsutil(items[0])}


def in_one_line(item: Item) -> str:
    return json.dumps(_gcs_key(item), separators=(",", ":"))


def _gcs_key(item: Item) -> dict[str, str]:
    return google.key_file(item.public, item.secret)


def _gsutil(item: Item) -> str:
    made: list[tuple[str, dict[str, object]]] = [
        ("Credentials", {"gs_service_key_file": f"{FOLDER}/{_gcs_file(item)}", **_own_address()}),
        ("Boto", {"https_validate_certificates": yes(True)}),
        (
            "GSUtil",
            {"default_project_id": item.public["project_id"], "state_dir": f"{MEMORY}/gsutil"},
        ),
        ("OAuth2", {"provider_token_uri": google.token_uri()}),  # it reads none from the key
    ]
    return sections(made)


def _own_address() -> dict[str, object]:
    """Return the operator's place for trials. gsutil speaks https only, also to it."""
    if not settings.BERTH_GCS_ENDPOINT:
        return {}
    parts = urlsplit(google.endpoint())
    port = str(parts.port or "")
    return {"gs_json_host": parts.netloc.removesuffix(f":{port}"), "gs_json_port": port}


def _gcs_file(item: Item) -> str:
    return f"gcs-{item.alias}.json"


RCLONE_CONFIG = "rclone.conf"


def rclone_env(items: Sequence[Item]) -> dict[str, str]:
    return {"RCLONE_CONFIG": f"{FOLDER}/{RCLONE_CONFIG}"} if items else {}


def rclone_files(items: Sequence[Item]) -> dict[str, str]:
    remotes = [(item.alias, _remote(item)) for item in items]
    return {RCLONE_CONFIG: sections(remotes)} if remotes else {}


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
        "service_account_credentials": in_one_line(item),
        "bucket_policy_only": "true",
        "no_check_bucket": "true",
        "endpoint": f"{google.endpoint()}/storage/v1/" if settings.BERTH_GCS_ENDPOINT else "",
    }
