"""The stores that tests rely on do what the tests believe: keys are checked, faults are faults."""

import base64
from collections.abc import Callable

import pytest

from tests.support.store_certificates import Authority
from tests.support.store_rules import wrong_clock
from tests.support.stores import (
    TOKEN_PATH,
    GoogleStore,
    Keys,
    RcloneS3,
    S3Store,
    Store,
    VersityS3,
    run_client,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("guards the stores"),
]
BucketOf = Callable[[Store], str]
KEY = "folder/with blank/ü.txt"


def put(bucket: str, content: bytes = b"hello") -> dict[str, str]:
    body = base64.b64encode(content).decode()
    return {"do": "put", "bucket": bucket, "key": KEY, "body": body}


def listed(bucket: str) -> list[dict[str, str]]:
    return [{"do": "listed", "bucket": bucket}]


def test_what_a_reference_client_put_it_gets_again(any_store: Store, bucket_of: BucketOf) -> None:
    bucket = bucket_of(any_store)
    get = {"do": "get", "bucket": bucket, "key": KEY}
    _, names, body = run_client(any_store, [put(bucket), *listed(bucket), get])
    assert names == {KEY: 5}
    assert base64.b64decode(body) == b"hello"


def test_a_wrong_secret_key_is_refused(s3_store: S3Store, bucket_of: BucketOf) -> None:
    bucket, true = bucket_of(s3_store), s3_store.keys
    try:
        s3_store.keys = Keys(true.access, "x" * 40)
        with pytest.raises(RuntimeError, match=r"SignatureDoesNotMatch"):
            run_client(s3_store, listed(bucket))
    finally:
        s3_store.keys = true


def test_a_removed_user_is_refused(versity_s3: VersityS3, bucket_of: BucketOf) -> None:
    bucket, root = bucket_of(versity_s3), versity_s3.keys
    user = versity_s3.user()
    try:
        versity_s3.keys = user
        assert run_client(versity_s3, listed(bucket)) == [{}]
        versity_s3.keys = root
        versity_s3.revoke(user)
        versity_s3.keys = user
        with pytest.raises(RuntimeError, match="InvalidAccessKeyId"):
            run_client(versity_s3, listed(bucket))
    finally:
        versity_s3.keys = root


def test_a_revoked_service_account_is_refused() -> None:
    with GoogleStore() as store:
        bucket = store.make_bucket("data")
        assert run_client(store, listed(bucket)) == [{}]
        assert TOKEN_PATH in {request.path for request in store.requests}
        store.revoke()
        with pytest.raises(RuntimeError, match="invalid_grant"):
            run_client(store, listed(bucket))


def test_a_front_counts_and_has_a_clock_of_its_own(
    rclone_s3: RcloneS3, bucket_of: BucketOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = bucket_of(rclone_s3)
    run_client(rclone_s3, [put(bucket, b"x" * 100_000)])
    with rclone_s3.front() as front:
        monkeypatch.setattr(RcloneS3, "url", front.url)
        get = {"do": "get", "bucket": bucket, "key": KEY}
        run_client(rclone_s3, [get, get])
        assert front.bodies() == 200_000
        front.rules.append(wrong_clock(3600))
        with pytest.raises(RuntimeError, match="RequestTimeTooSkewed"):
            run_client(rclone_s3, [get])


@pytest.mark.parametrize("kind", [RcloneS3, VersityS3])
def test_certificates_of_a_store_with_tls_are_checked(kind: type[S3Store]) -> None:
    with kind(tls=True) as store:
        bucket = store.make_bucket("data")
        assert run_client(store, [put(bucket), *listed(bucket)])[1] == {KEY: 5}
        store.authority = Authority(store.folder)  # another one's certificate
        with pytest.raises(RuntimeError, match="certificate verify failed"):
            run_client(store, listed(bucket))
