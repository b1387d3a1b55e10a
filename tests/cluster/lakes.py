"""People at a portal beside a store that pods reach, whose key their project has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.cluster.visitors import Person, portal_of_people
from tests.support.clustered import ClusteredPortal, ok
from tests.support.dataplane import settings_open_to
from tests.support.stores import VersityS3


@contextmanager
def portal_by_a_store(
    devcluster: Mapping[str, Any], store: VersityS3, word: str
) -> Iterator[ClusteredPortal]:
    """Its operator opened the store to loads (environment) and to the network of pods (cluster)."""
    opened = store.outbound()
    env = {"BERTH_LOCAL_CLUSTER": "no", **settings_open_to(opened)}
    options = {"allowed_cidrs": opened["allow"]}
    with portal_of_people(devcluster, word, env, options=options) as running:
        yield running


def owner_with_its_key(portal: ClusteredPortal, store: VersityS3) -> Person:
    """Return ann, the project's owner; the key is there as ``lake``."""
    person = Person(portal, "ann")
    body = {
        "kind": "s3-compatible",
        "name": "lake",
        "endpoint": store.url,
        "region": "us-east-1",
        "path_style": True,
        "access_key": store.keys.access,
        "secret_key": store.keys.secret,
    }
    ok(person.api.post("projects/demo/credentials", json=body))
    return person
