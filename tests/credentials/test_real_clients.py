"""The unmodified clients, with nothing but what work is given: environment and files.

Each runs as a program of its own with an empty home against a real server. Nothing here names
an endpoint, a key or a profile of the first credential: that is what ``embed`` is for.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from credentials.models import Credential
from credentials.probe import credential_test
from tests.credentials.test_embedding import written
from tests.support.store_certificates import Authority
from tests.support.store_front import Front
from tests.support.stores import GoogleStore, RcloneS3, S3Store

pytestmark = [pytest.mark.real, pytest.mark.django_db]
CANARY = "CANARYOFSOMEBODYELSE"


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]


@pytest.fixture
def s3_row(keep: Any, settings: Any) -> Callable[..., Credential]:
    """The key pair of a store, as somebody stores it."""

    def make(store: S3Store, name: str = "our store", **more: Any) -> Credential:
        known = settings.BERTH_INSECURE_STORES
        settings.BERTH_INSECURE_STORES = [*known, f"127.0.0.1:{store.port}"]
        fields = {"access_key": store.keys.access, "secret_key": store.keys.secret}
        row: Credential = keep(
            "s3-compatible", name, **{"endpoint": store.url, "session_token": "", **fields, **more}
        )
        return row

    return make


@pytest.fixture
def gcs_row(keep: Any, settings: Any, google_store: GoogleStore) -> Credential:
    given = google_store.outbound()
    settings.BERTH_GCS_ENDPOINT = given["gcs_endpoint"]
    settings.BERTH_GCS_TOKEN_URI = given["gcs_token_uri"]
    row: Credential = keep("gcs", "our bucket", key=json.dumps(google_store.account.document()))
    return row


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run a client of the stores' environment as work does: ``run(rows, "aws", "s3", "ls")``."""
    from tests.support.store_programs import stores_bin

    home = tmp_path / "home"
    home.mkdir()
    numbers = iter(range(100))

    def start(rows: list[Credential], program: str, *words: str, **more: str) -> str:
        given = written(rows, tmp_path / f"secrets-{next(numbers)}")
        env = {"PATH": f"{stores_bin()}:{os.environ['PATH']}", "HOME": str(home), **given, **more}
        done = subprocess.run(
            [stores_bin() / program, *words],
            env=env,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{program} {words}: {done.stdout} {done.stderr}"
        return done.stdout

    return start


# --- S3 -----------------------------------------------------------------------------------------


@pytest.fixture(params=["versity_s3", "rclone_s3"])
def s3(request: pytest.FixtureRequest) -> S3Store:
    found: S3Store = request.getfixturevalue(request.param)
    return found


def named(store: S3Store) -> str:
    import secrets
    import time

    bucket = store.make_bucket(f"work-{secrets.token_hex(4)}")
    if isinstance(store, RcloneS3):
        time.sleep(1.2)  # it looks at its folders once a second
    return bucket


def test_aws_writes_lists_and_reads(s3: S3Store, s3_row: Any, run: Any, tmp_path: Path) -> None:
    rows, bucket = [s3_row(s3)], named(s3)
    (tmp_path / "a.txt").write_text("hello")
    run(rows, "aws", "s3", "cp", str(tmp_path / "a.txt"), f"s3://{bucket}/dir/a.txt")
    assert "a.txt" in run(rows, "aws", "s3", "ls", f"s3://{bucket}/dir/")
    run(rows, "aws", "s3", "cp", f"s3://{bucket}/dir/a.txt", str(tmp_path / "b.txt"))
    assert (tmp_path / "b.txt").read_text() == "hello"
    assert bucket in run(rows, "aws", "s3", "ls", "--profile", "our-store")


def test_s5cmd_rclone_and_boto3_see_the_same(
    s3: S3Store, s3_row: Any, run: Any, tmp_path: Path
) -> None:
    rows, bucket = [s3_row(s3)], named(s3)
    (tmp_path / "a.txt").write_text("hello")
    run(rows, "s5cmd", "cp", str(tmp_path / "a.txt"), f"s3://{bucket}/a.txt")
    assert "a.txt" in run(rows, "s5cmd", "ls", f"s3://{bucket}/")
    assert run(rows, "rclone", "lsf", f"our-store:{bucket}").split() == ["a.txt"]
    run(rows, "rclone", "copyto", str(tmp_path / "a.txt"), f"our-store:{bucket}/b.txt")
    code = (
        "import boto3, sys; c = boto3.client('s3');"
        "print([o['Key'] for o in c.list_objects_v2(Bucket=sys.argv[1])['Contents']]);"
        "c.put_object(Bucket=sys.argv[1], Key='c.txt', Body=b'x');"
        "print(c.get_object(Bucket=sys.argv[1], Key='c.txt')['Body'].read())"
    )
    assert run(rows, "python", "-c", code, bucket) == "['a.txt', 'b.txt']\nb'x'\n"


def test_of_two_stores_each_is_asked_with_its_own_key(
    versity_s3: S3Store,
    rclone_s3: S3Store,
    s3_row: Any,
    run: Any,
    tmp_path: Path,
) -> None:
    rows = [s3_row(versity_s3, "one"), s3_row(rclone_s3, "two")]
    first, second = named(versity_s3), named(rclone_s3)
    assert first in run(rows, "aws", "s3", "ls")
    assert first in run(rows, "aws", "s3", "ls", "--profile", "one")
    listed = run(rows, "aws", "s3", "ls", "--profile", "two")
    assert (first in listed, second in listed) == (False, True)
    assert second in run(rows, "aws", "s3", "ls", AWS_PROFILE="two")
    assert f"{second}/" in run(rows, "rclone", "lsf", "two:").split()
    assert first in run(rows, "s5cmd", "ls")
    address = ("--endpoint-url", rclone_s3.url, "--profile", "two")
    assert second in run(rows, "s5cmd", *address, "ls")
    code = "import boto3; print(boto3.Session(profile_name='two').client('s3').list_buckets())"
    assert second in run(rows, "python", "-c", code)


def test_obstore_takes_the_environment(
    versity_s3: S3Store,
    s3_row: Any,
    run: Any,
) -> None:
    """A client that reads no file: with one key pair the variables are enough."""
    bucket = named(versity_s3)
    code = (
        "import obstore, sys; from obstore.store import S3Store;"
        "s = S3Store(sys.argv[1], client_options={'allow_http': True});"
        "obstore.put(s, 'a', b'x'); print(bytes(obstore.get(s, 'a').bytes()))"
    )
    assert run([s3_row(versity_s3)], "python", "-c", code, bucket) == "b'x'\n"


@pytest.mark.parametrize("change", ["right", "wrong secret", "unknown key", "bucket", "no bucket"])
def test_a_test_says_what_a_real_store_says(
    s3: S3Store, s3_row: Any, alice: Any, principal: Any, change: str
) -> None:
    bucket = named(s3)
    more = {
        "right": {},
        "wrong secret": {"secret_key": "another-secret-key-1234"},
        "unknown key": {"access_key": "AKUNKNOWN1234567"},
        "bucket": {"bucket": bucket},
        "no bucket": {"bucket": "there-is-none-of-this-name"},
    }[change]
    row = s3_row(s3, **more)
    found = credential_test(principal=principal(alice), credential=row)
    good = change in {"right", "bucket"}
    assert found.ok is good, found.message
    word = {
        "right": "accepts",
        "wrong secret": "does not belong",
        "unknown key": "does not know",
        "bucket": bucket,
        "no bucket": "no bucket",
    }[change]
    assert word in found.message


# --- Google -------------------------------------------------------------------------------------


def test_googles_own_library_writes_and_reads(
    google_store: GoogleStore,
    gcs_row: Credential,
    run: Any,
) -> None:
    bucket = google_store.make_bucket("work-own")
    code = (
        "import sys; from google.cloud import storage; c = storage.Client();"
        "b = c.bucket(sys.argv[1]); b.blob('a').upload_from_string('x');"
        "print(c.project, b.blob('a').download_as_bytes(), type(c._credentials).__module__)"
    )
    said = run([gcs_row], "python", "-c", code, bucket)
    assert said == "berth-test b'x' google.oauth2.service_account\n"


def test_rclone_reads_googles_bucket(
    google_store: GoogleStore,
    gcs_row: Credential,
    run: Any,
    tmp_path: Path,
) -> None:
    bucket = google_store.make_bucket("work-rclone")
    (tmp_path / "a.txt").write_text("hello")
    run([gcs_row], "rclone", "copyto", str(tmp_path / "a.txt"), f"our-bucket:{bucket}/a.txt")
    assert run([gcs_row], "rclone", "cat", f"our-bucket:{bucket}/a.txt") == "hello"


def test_gcsfs_reads_and_writes(
    google_store: GoogleStore,
    gcs_row: Credential,
    run: Any,
) -> None:
    bucket = google_store.make_bucket("work-gcsfs")
    code = (
        "import sys, gcsfs; f = gcsfs.GCSFileSystem();"
        "f.pipe(f'{sys.argv[1]}/a', b'x'); print(f.cat(f'{sys.argv[1]}/a'))"
    )
    assert run([gcs_row], "python", "-c", code, bucket) == "b'x'\n"


@pytest.fixture
def gsutil() -> str:
    from tests.support.locked_environments import MissingError
    from tests.support.store_programs import gsutil

    try:
        return str(gsutil())
    except MissingError as why:
        pytest.skip(f"no gsutil: {why}")


@pytest.fixture
def google_by_tls(google_store: GoogleStore, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The same store by https, which gsutil insists on, and the authority to be believed."""
    authority = Authority(tmp_path)
    port = urlsplit(google_store.url).port
    assert port
    with Front(port, tls=authority.context()) as front:
        yield front.url, authority.certificate


def test_gsutil_writes_lists_and_reads_and_leaves_no_key_behind(
    google_store: GoogleStore,
    gcs_row: Credential,
    google_by_tls: tuple[str, Path],
    gsutil: str,
    settings: Any,
    run: Any,
    tmp_path: Path,
) -> None:
    settings.BERTH_GCS_ENDPOINT, authority = google_by_tls
    bucket = google_store.make_bucket("work-gsutil")
    rows = [gcs_row]
    # whom a program believes is a matter of its image: the only thing that is said here
    command = (gsutil, "-o", f"Boto:ca_certificates_file={authority}")
    (tmp_path / "home/.boto").write_text("[Credentials]\ngs_oauth2_refresh_token = of another\n")
    (tmp_path / "a.bin").write_bytes(os.urandom(9 << 20))  # above what it sends in one piece
    run(rows, *command, "cp", str(tmp_path / "a.bin"), f"gs://{bucket}/dir/a.bin")
    assert run(rows, *command, "ls", f"gs://{bucket}/dir/").split() == [f"gs://{bucket}/dir/a.bin"]
    run(rows, *command, "cp", f"gs://{bucket}/dir/a.bin", str(tmp_path / "b.bin"))
    assert (tmp_path / "b.bin").read_bytes() == (tmp_path / "a.bin").read_bytes()
    assert f"gs://{bucket}/" in run(rows, *command, "ls").split()  # of the key's project
    assert [path.name for path in (tmp_path / "home").rglob("*")] == [".boto"]
    kept = json.loads(next(tmp_path.glob("secrets-*/gsutil/credstore2")).read_text())
    copies = [base64.b64decode(text).decode() for text in kept["credentials"].values()]
    assert ["PRIVATE KEY" in text for text in copies] == [True]  # what must not lie in a home


def test_a_test_says_what_google_says(
    google_store: GoogleStore,
    gcs_row: Credential,
    keep: Any,
    alice: Any,
    principal: Any,
) -> None:
    who = principal(alice)
    found = credential_test(principal=who, credential=gcs_row)
    assert (found.ok, found.message) == (True, "Google accepts this key.")
    other = keep("gcs", "another")  # a key that this account never had
    found = credential_test(principal=who, credential=other)
    assert (found.ok, "deleted" in found.message) == (False, True)
