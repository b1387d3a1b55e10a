"""What gcloud, gsutil, gcsfs and the other clients of Google Cloud read.

gsutil keeps a copy of the key where it keeps its state, which is the home if nobody says
otherwise: there it would outlive the credential, so its state lies in memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import urlsplit

from django.conf import settings

from credentials.embedding.items import FOLDER, MEMORY, Item, sections, yes
from credentials.kinds import gcs as keys

GSUTIL = "boto"
PLACED = (GSUTIL,)  # it takes its key by an absolute path and from no variable


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
        "BOTO_CONFIG": f"{FOLDER}/{GSUTIL}",
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
    if not items:
        return {}
    found = {_file(item): json.dumps(_key(item), indent=2) + "\n" for item in items}
    return {**found, GSUTIL: _gsutil(items[0])}


def in_one_line(item: Item) -> str:
    return json.dumps(_key(item), separators=(",", ":"))


def _key(item: Item) -> dict[str, str]:
    return keys.key_file(item.public, item.secret)


def _gsutil(item: Item) -> str:
    made: list[tuple[str, dict[str, object]]] = [
        ("Credentials", {"gs_service_key_file": f"{FOLDER}/{_file(item)}", **_own_address()}),
        ("Boto", {"https_validate_certificates": yes(True)}),
        (
            "GSUtil",
            {"default_project_id": item.public["project_id"], "state_dir": f"{MEMORY}/gsutil"},
        ),
        ("OAuth2", {"provider_token_uri": keys.token_uri()}),  # it reads none from the key
    ]
    return sections(made)


def _own_address() -> dict[str, object]:
    """Return the operator's place for trials. gsutil speaks https only, also to it."""
    if not settings.BERTH_GCS_ENDPOINT:
        return {}
    parts = urlsplit(keys.endpoint())
    port = str(parts.port or "")
    return {"gs_json_host": parts.netloc.removesuffix(f":{port}"), "gs_json_port": port}


def _file(item: Item) -> str:
    return f"gcs-{item.alias}.json"
