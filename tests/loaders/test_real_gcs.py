"""A load from a Google Cloud Storage into a volume and back, by API: the server checks each token."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import pytest

from tests.loaders.test_real_load import Loads, portal_open_to
from tests.support.store_fixtures import begun
from tests.support.stores import GoogleStore, run_client

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
FILES, SIZE = 6, 64 * 1024
KEYS = [f"images/{number}.bin" for number in range(FILES)]


@pytest.fixture(scope="module")
def store() -> Iterator[GoogleStore]:
    server = begun(GoogleStore)
    assert isinstance(server, GoogleStore)
    with server:
        yield server


@pytest.fixture(scope="module")
def loads(store: GoogleStore) -> Iterator[Loads]:
    """Of a portal whose loads may go to that store; it has the store's key as ``lake``."""
    with portal_open_to(store.outbound()) as portal, portal.api(portal.token("admin")) as api:
        key = json.dumps(store.account.document())
        body = {"kind": "gcs", "name": "lake", "key": key}
        made = api.post("projects/demo/credentials", json=body)
        assert made.status_code == 201, made.text
        yield Loads(api, portal)


def test_a_bucket_of_google_is_loaded_into_a_volume_and_brought_back(
    loads: Loads, store: GoogleStore
) -> None:
    bucket = store.make_bucket("lake")
    body = base64.b64encode(os.urandom(SIZE)).decode()
    run_client(store, [{"do": "put", "bucket": bucket, "key": key, "body": body} for key in KEYS])
    row = loads.create(url=f"gs://{bucket}/images", credential="lake", folder="set")
    done = loads.until(row, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    assert loads.files(done) == dict.fromkeys(KEYS, SIZE)
    assert done["status"]["verified"] == {"crc32c": FILES}
    back = {"url": f"gs://{bucket}/back", "credential": "lake", "folder": "set"}
    out = loads.until(loads.create(**back, direction="out"), "done", "failed", "partial")
    assert out["status"]["state"] == "done", out["status"]
    (there,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": "back/"}])
    assert there == {f"back/{key}": SIZE for key in KEYS}
