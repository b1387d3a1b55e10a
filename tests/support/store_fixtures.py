"""Fixtures of the real object stores: started when first asked for, one of each for a whole run.

Tests that use them are marked ``real``.  What a machine can't have is skipped with the reason.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.store_programs import MissingError
from tests.support.stores import GoogleStore, RcloneS3, S3Store, Store, VersityS3

Start = Callable[[type[Store]], Store]


@pytest.fixture(scope="session")
def start_store() -> Iterator[Start]:
    """``start_store(VersityS3)``: the run's own; a test that breaks one makes another."""
    running: dict[type[Store], Store] = {}
    with ExitStack() as ends:

        def start(kind: type[Store]) -> Store:
            if kind not in running:
                running[kind] = ends.enter_context(begun(kind))
            return running[kind]

        yield start


def begun(kind: type[Store], **options: object) -> Store:
    """A store that can run here, not yet started; else the test is skipped with the reason."""
    from tests.support.store_programs import built, stores_bin

    try:
        stores_bin()
        if kind is VersityS3:
            built("versitygw")
        if kind is GoogleStore:
            built("fake-gcs-server")
    except MissingError as why:
        pytest.skip(f"no {kind.__name__}: {why}")
    return kind(**options)


@pytest.fixture(scope="session")
def rclone_s3(start_store: Start) -> RcloneS3:
    return start_store(RcloneS3)


@pytest.fixture(scope="session")
def versity_s3(start_store: Start) -> VersityS3:
    return start_store(VersityS3)


@pytest.fixture(scope="session")
def google_store(start_store: Start) -> GoogleStore:
    return start_store(GoogleStore)


# A second implementation of S3, with the first one beside it.
RCLONE = pytest.param(
    RcloneS3,
    marks=pytest.mark.long(
        "another S3 with its own words; versitygw beside it: dataplane/test_real_stores.py"
    ),
)


@pytest.fixture(params=[RCLONE, VersityS3], ids=["rclone", "versity"])
def s3_store(request: pytest.FixtureRequest, start_store: Start) -> S3Store:
    """Each S3 implementation in turn."""
    return start_store(request.param)


@pytest.fixture(params=[RCLONE, VersityS3, GoogleStore], ids=["rclone", "versity", "google"])
def any_store(request: pytest.FixtureRequest, start_store: Start) -> Store:
    """All three in turn."""
    return start_store(request.param)


@pytest.fixture
def bucket_of() -> Callable[[Store], str]:
    """A bucket of the test's own."""
    return lambda store: store.make_bucket(f"test-{secrets.token_hex(5)}")
