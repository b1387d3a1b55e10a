"""What aws, boto3, s5cmd and the other SDKs of AWS read.

With one key pair everything is in the environment as well, for programs that read nothing else.
With several only the files are written: a variable would win over the profile that somebody
names, and one store would be asked with another's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from credentials.choices import CredentialKind
from credentials.embedding.items import FOLDER, Item, sections

CONFIG, KEYS = "aws-config", "aws-credentials"
# Checksums that newer SDKs add unasked are refused by many stores that are not Amazon's.
_CALM = "when_required"


def env(items: Sequence[Item]) -> dict[str, str]:
    if not items:
        return {}
    found = {
        "AWS_CONFIG_FILE": f"{FOLDER}/{CONFIG}",
        "AWS_SHARED_CREDENTIALS_FILE": f"{FOLDER}/{KEYS}",
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


def secret_env(items: Sequence[Item]) -> dict[str, str]:
    if len(items) != 1:
        return {}
    found = {
        "AWS_ACCESS_KEY_ID": items[0].public["access_key"],
        "AWS_SECRET_ACCESS_KEY": items[0].secret["secret_key"],
    }
    if token := items[0].secret.get("session_token"):
        found["AWS_SESSION_TOKEN"] = token
    return found


def files(items: Sequence[Item]) -> dict[str, str]:
    """Write the two files with one profile each; the first is the default too."""
    if not items:
        return {}
    first = items[0]
    config = [("default", _config(first))]
    config += [(f"profile {item.alias}", _config(item)) for item in items]
    keys = [("default", _keys(first)), *((item.alias, _keys(item)) for item in items)]
    return {CONFIG: sections(config), KEYS: sections(keys)}


def _endpoint(item: Item) -> str:
    return str(item.public["endpoint"]) if item.kind == CredentialKind.S3_COMPATIBLE else ""


def _config(item: Item) -> dict[str, Any]:
    found: dict[str, Any] = {"region": item.public["region"]}
    if endpoint := _endpoint(item):
        found["endpoint_url"] = endpoint
        found["request_checksum_calculation"] = _CALM
        found["response_checksum_validation"] = _CALM
        if item.public.get("path_style"):
            found["s3"] = {"addressing_style": "path"}
    return found


def _keys(item: Item) -> Mapping[str, object]:
    return {
        "aws_access_key_id": item.public["access_key"],
        "aws_secret_access_key": item.secret["secret_key"],
        "aws_session_token": item.secret.get("session_token", ""),
    }
