"""What gcloud, gcsfs and the other clients of Google Cloud read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django.conf import settings

from credentials.embedding.items import FOLDER, Item
from credentials.kinds import gcs as keys


def env(items: Sequence[Item]) -> dict[str, str]:
    """The first is the one of Application Default Credentials."""
    if not items:
        return {}
    path = f"{FOLDER}/{_file(items[0])}"
    project = str(items[0].public["project_id"])
    found = {
        "GOOGLE_APPLICATION_CREDENTIALS": path,
        "GOOGLE_CLOUD_PROJECT": project,
        "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE": path,
        "CLOUDSDK_CORE_PROJECT": project,
        # never the identity of the machine
        "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
        "NO_GCE_CHECK": "true",
    }
    if settings.BERTH_GCS_ENDPOINT:
        # not STORAGE_EMULATOR_HOST: with it Google's own library forgets who it is
        found["API_ENDPOINT_OVERRIDE"] = keys.endpoint()
        found["FSSPEC_GCS_ENDPOINT_URL"] = keys.endpoint()
        found["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # asks by gRPC, which only Google has
        found["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] = f"{keys.endpoint()}/storage/v1/"
    return found


def files(items: Sequence[Item]) -> dict[str, str]:
    return {_file(item): json.dumps(_key(item), indent=2) + "\n" for item in items}


def in_one_line(item: Item) -> str:
    return json.dumps(_key(item), separators=(",", ":"))


def _key(item: Item) -> dict[str, str]:
    return keys.key_file(item.public, item.secret)


def _file(item: Item) -> str:
    return f"gcs-{item.alias}.json"
