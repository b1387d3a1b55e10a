"""The same loads over three real stores, with boto3 and google-cloud-storage on the other side."""

import base64
import hashlib
import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.copying import Copying
from tests.support.stores import GoogleStore, S3Store, Store, VersityS3, run_client

pytestmark = pytest.mark.real
BucketOf = Callable[[Store], str]
MIB = 2**20
PART = 8 * MIB
NAMES = {
    "raw/plain.txt": b"plain",
    "raw/with blank and +&%.txt": b"odd signs",
    "raw/ünï/日本語.bin": bytes(range(256)) * 40,
    "raw/empty": b"",
    "raw/deep/er/and/deeper.txt": b"deep",
    "other/not-asked-for.txt": b"other",
}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def put_all(store: Store, bucket: str, contents: dict[str, bytes]) -> None:
    orders = [
        {"do": "put", "bucket": bucket, "key": key, "body": encoded(content)}
        for key, content in contents.items()
    ]
    run_client(store, orders)


def got_all(store: Store, bucket: str, prefix: str = "") -> dict[str, bytes]:
    (names,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": prefix}])
    bodies = run_client(store, [{"do": "get", "bucket": bucket, "key": key} for key in names])
    return {key: base64.b64decode(body) for key, body in zip(names, bodies, strict=True)}


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".berth" not in path.parts
    }


# Else all is there before the first report, or while this process stands still.
UNHURRIED = {"bandwidth_bytes_s": 60_000}


def load(tmp_path: Path, store: Store, bucket: str, prefix: str = "raw/", **others: Any) -> Copying:
    return Copying(tmp_path, store.place(bucket, prefix), store.outbound(), **others)


def large_file(tmp_path: Path, size: int) -> Path:
    path = tmp_path / "large.bin"
    path.write_bytes(random.Random(size).randbytes(size))
    return path


# --- in -----------------------------------------------------------------------------------------


def test_what_reference_clients_put_arrives_whole(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    copying = load(tmp_path, any_store, bucket)
    done = copying.run()
    assert (done.code, done.final["code"]) == (0, "done"), done.output
    wanted = {key.removeprefix("raw/"): c for key, c in NAMES.items() if key.startswith("raw/")}
    assert files_below(copying.target) == wanted
    assert done.files["done"] == len(wanted)


@pytest.mark.parametrize("checksum", ["", "CRC32C", "SHA256"])
def test_an_object_put_in_parts_is_verified(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf, checksum: str
) -> None:
    if isinstance(any_store, GoogleStore) and checksum:
        pytest.skip("Google keeps its own checksum of each object, whatever the client sends")
    bucket, file = bucket_of(any_store), large_file(tmp_path, 3 * PART + 12345)
    put = {"do": "upload", "bucket": bucket, "key": "raw/large.bin", "file": str(file)}
    run_client(any_store, [{**put, "part": PART, "checksum": checksum}])
    copying = load(tmp_path, any_store, bucket)
    done = copying.run()
    assert done.code == 0, done.output
    assert (copying.target / "large.bin").read_bytes() == file.read_bytes()
    verified = done.reports[-1]["verified"]
    assert sum(verified.values()) == 1
    assert not verified.get("length")  # its length alone says nothing of its content


def test_a_second_run_reads_nothing(tmp_path: Path, any_store: Store, bucket_of: BucketOf) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    copying = load(tmp_path, any_store, bucket, mode="sync")
    assert copying.run().code == 0
    again = copying.run()
    assert again.code == 0
    assert (again.files["done"], again.files["unchanged"]) == (0, 5)
    assert again.reports[-1]["bytes"]["read"] == 0


def test_sync_takes_what_changed_and_deletes_only_when_asked(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, {"raw/a.txt": b"one", "raw/b.txt": b"two", "raw/c.txt": b"three"})
    copying = load(tmp_path, any_store, bucket, mode="sync")
    assert copying.run().code == 0
    put_all(any_store, bucket, {"raw/b.txt": b"another two"})
    run_client(any_store, [{"do": "delete", "bucket": bucket, "key": "raw/c.txt"}])
    assert copying.run().code == 0
    assert files_below(copying.target) == {
        "a.txt": b"one",
        "b.txt": b"another two",
        "c.txt": b"three",
    }
    copying.others = {"delete_extra": True}
    assert copying.run().code == 0
    assert files_below(copying.target) == {"a.txt": b"one", "b.txt": b"another two"}


def test_include_and_exclude_choose(tmp_path: Path, any_store: Store, bucket_of: BucketOf) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    others = {"include": ["*.txt"], "exclude": ["deep/**"]}
    copying = load(tmp_path, any_store, bucket, others=others)
    assert copying.run().code == 0
    assert set(files_below(copying.target)) == {"plain.txt", "with blank and +&%.txt"}


def test_one_named_object_comes_alone(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    place = any_store.place(bucket, "raw/", objects=["raw/plain.txt"])
    copying = Copying(tmp_path, place, any_store.outbound())
    assert copying.run().code == 0
    assert list(files_below(copying.target).values()) == [b"plain"]


def test_d7_a_killed_load_goes_on_with_the_rest(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    """No partial file under its final name; the second run asks only for what is not there."""
    bucket = bucket_of(any_store)
    contents = {f"raw/{i:04d}.bin": random.Random(i).randbytes(2000) for i in range(500)}
    source = tmp_path / "source"
    put_many(any_store, bucket, source, contents)
    with any_store.front() as front:
        place, outbound = through(any_store, front.url, bucket)
        copying = Copying(tmp_path, place, outbound, others=UNHURRIED)
        killed = copying.run(kill_when=lambda report: report["files"]["done"] >= 100)
        assert killed.code == -signal.SIGKILL, killed.output
        there = files_below(copying.target)
        assert 100 <= len(there) < 500
        assert all(contents[f"raw/{name}"] == body for name, body in there.items())
        before = front.bodies()
        copying.others = {}
        done = copying.run()
        assert done.code == 0, done.output
        read = front.bodies() - before
    assert files_below(copying.target) == {k.removeprefix("raw/"): v for k, v in contents.items()}
    assert read <= 1.02 * 2000 * (500 - len(there)) + listing_bytes(any_store)


def put_many(store: Store, bucket: str, source: Path, contents: dict[str, bytes]) -> None:
    source.mkdir()
    orders = []
    for number, (key, content) in enumerate(contents.items()):
        file = source / str(number)
        file.write_bytes(content)
        orders.append({"do": "upload", "bucket": bucket, "key": key, "file": str(file)})
    run_client(store, orders)


def through(store: Store, url: str, bucket: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The place and the outbound rules when the store is reached by a front."""
    if isinstance(store, GoogleStore):
        outbound = store.outbound(url)
        allow = [*outbound["allow"], *store.outbound()["allow"]]
        insecure = [*outbound["insecure_hosts"], *store.outbound()["insecure_hosts"]]
        ports = [*outbound["ports"], *store.outbound()["ports"]]
        more = {"allow": allow, "insecure_hosts": insecure, "ports": ports, "gcs_endpoint": url}
        return store.place(bucket, "raw/"), {**outbound, **more}
    return store.place(bucket, "raw/", endpoint=url), store.outbound(url)


def listing_bytes(store: Store) -> int:
    """Google's listings lie below a path that looks like an object's key."""
    return 2_000_000 if isinstance(store, GoogleStore) else 0


def test_sigterm_keeps_the_state_and_says_stopped(
    tmp_path: Path, versity_s3: VersityS3, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(versity_s3)
    contents = {f"raw/{i:04d}.bin": random.Random(i).randbytes(2000) for i in range(500)}
    put_many(versity_s3, bucket, tmp_path / "source", contents)
    copying = load(tmp_path, versity_s3, bucket, others=UNHURRIED)
    stopped = copying.run(
        kill_when=lambda report: report["files"]["done"] >= 70, sig=signal.SIGTERM
    )
    assert (stopped.code, stopped.final["code"]) == (5, "stopped"), stopped.output
    copying.others = {}
    done = copying.run()
    assert done.code == 0, done.output
    assert len(files_below(copying.target)) == 500


# --- out ----------------------------------------------------------------------------------------


def test_what_is_sent_out_reference_clients_read(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    copying = load(tmp_path, any_store, bucket, "results/run 1/", direction="out")
    contents = {key.removeprefix("raw/"): body for key, body in NAMES.items()}
    for name, body in contents.items():
        path = copying.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    done = copying.run()
    assert (done.code, done.final["code"]) == (0, "done"), done.output
    wanted = {f"results/run 1/{name}": body for name, body in contents.items()}
    assert got_all(any_store, bucket) == wanted


def test_a_large_file_goes_out_in_parts_and_comes_back(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    out = load(tmp_path / "out", any_store, bucket, direction="out")
    out.target.mkdir(parents=True)
    content = random.Random(7).randbytes(70 * MIB + 1)
    (out.target / "large.bin").write_bytes(content)
    assert out.run().code == 0
    (names,) = run_client(any_store, [{"do": "listed", "bucket": bucket}])
    assert names == {"raw/large.bin": len(content)}
    back = load(tmp_path / "in", any_store, bucket)
    done = back.run()
    assert done.code == 0, done.output
    digest = hashlib.sha256((back.target / "large.bin").read_bytes()).hexdigest()
    assert digest == hashlib.sha256(content).hexdigest()


def test_an_export_that_is_done_again_sends_nothing(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    copying = load(tmp_path, any_store, bucket, direction="out", mode="sync")
    copying.target.mkdir(parents=True)
    for number in range(20):
        (copying.target / f"{number}.txt").write_text(str(number))
    assert copying.run().code == 0
    again = copying.run()
    assert again.code == 0
    assert (again.files["done"], again.files["unchanged"]) == (0, 20)


# --- verify and dry run -------------------------------------------------------------------------


def test_verify_names_the_file_that_changed(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    copying = load(tmp_path, any_store, bucket)
    assert copying.run().code == 0
    assert {line["key"] for line in copying.manifest()} >= {"raw/plain.txt"}
    copying.mode = "verify"
    assert copying.run().code == 0
    (copying.target / "plain.txt").write_bytes(b"Plain")
    found = copying.run()
    assert found.code == 3, found.output
    assert list(found.errors) == ["raw/plain.txt"]


def test_a_dry_run_counts_and_writes_nothing(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(any_store)
    put_all(any_store, bucket, NAMES)
    copying = load(tmp_path, any_store, bucket, mode="dry-run")
    done = copying.run()
    assert done.code == 0, done.output
    last = done.reports[-1]
    assert (last["files"]["found"], last["bytes"]["found"]) == (5, 5 + 9 + 10240 + 4)
    assert not copying.target.exists() or not files_below(copying.target)


# --- refused ------------------------------------------------------------------------------------


def test_d9_a_key_that_is_removed_midway_ends_the_load_with_one_reason(
    tmp_path: Path, versity_s3: VersityS3, bucket_of: BucketOf
) -> None:
    bucket, root = bucket_of(versity_s3), versity_s3.keys
    contents = {f"raw/{i:04d}.bin": b"x" * 4000 for i in range(900)}
    put_many(versity_s3, bucket, tmp_path / "source", contents)
    user, before = versity_s3.user(), len(versity_s3.served())
    place = versity_s3.place(bucket, "raw/", access_key=user.access, secret_key=user.secret)
    # A limit, so that there is time to take the key away.
    copying = Copying(tmp_path, place, versity_s3.outbound(), others=UNHURRIED)
    gone = []

    def revoke(report: dict[str, Any]) -> bool:
        if not gone and report["files"]["done"] >= 30:
            gone.append(True)
            versity_s3.revoke(user)
        return False

    done = copying.run(kill_when=revoke)
    assert gone
    assert (done.code, done.final["code"]) == (4, "denied"), done.output
    refused = [entry for entry in versity_s3.served()[before:] if entry[2] == 403]
    assert 1 <= len(refused) <= 5 + 32  # those that were on their way, and no storm after
    assert versity_s3.keys == root
    assert user.secret not in done.output + json.dumps(done.reports)


def test_a_service_account_that_is_revoked_midway_is_denied(tmp_path: Path) -> None:
    with GoogleStore() as store:
        bucket = store.make_bucket("data")
        contents = {f"raw/{i:04d}.bin": b"x" * 4000 for i in range(300)}
        put_many(store, bucket, tmp_path / "source", contents)
        copying = load(tmp_path, store, bucket, others=UNHURRIED)

        def revoke(report: dict[str, Any]) -> bool:
            if report["files"]["done"] >= 15:
                store.revoke()
            return False

        done = copying.run(kill_when=revoke)
        assert (done.code, done.final["code"]) == (4, "denied"), done.output


@pytest.mark.parametrize("what", ["bucket", "key"])
def test_what_is_not_there_is_said_so(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf, what: str
) -> None:
    bucket = bucket_of(any_store)
    if what == "bucket":
        done = load(tmp_path, any_store, "nothing-here").run()
        assert (done.code, done.final["code"]) == (4, "no-bucket"), done.output
        return
    put_all(any_store, bucket, {"raw/a.txt": b"one"})
    place = any_store.place(bucket, "raw/", objects=["raw/a.txt", "raw/none.txt"])
    done = Copying(tmp_path, place, any_store.outbound()).run()
    assert done.code == 3, done.output
    assert done.errors == {"raw/none.txt": "gone"}


def test_d3_a_wrong_key_is_refused_and_stays_out_of_the_words(
    tmp_path: Path, s3_store: S3Store, bucket_of: BucketOf
) -> None:
    bucket = bucket_of(s3_store)
    place = s3_store.place(bucket, "raw/", secret_key="canary" * 7)
    # What the machine would lend by itself must not be used.
    copying = Copying(tmp_path, place, s3_store.outbound(), env=s3_store.environment())
    done = copying.run()
    assert (done.code, done.final["code"]) == (4, "denied"), done.output
    assert "canary" not in done.output + json.dumps(done.reports)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_store_with_its_own_authority(tmp_path: Path, trusted: bool) -> None:
    with VersityS3(tls=True) as store:
        bucket = store.make_bucket("data")
        put_all(store, bucket, {"raw/a.txt": b"one"})
        outbound = store.outbound() if trusted else {**store.outbound(), "ca_file": ""}
        done = Copying(tmp_path, store.place(bucket, "raw/"), outbound).run()
        expected = (0, "done") if trusted else (4, "unreachable")
        assert (done.code, done.final["code"]) == expected, done.output
