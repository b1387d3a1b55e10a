"""Loads from a real HDFS: a namenode, a datanode and Hadoop's own client on the other side."""

import hashlib
import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.test_real_stores import files_below
from tests.support.copying import Copying
from tests.support.hdfs import Hdfs, begun

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("needs a Hadoop; its protocol: dataplane/test_hdfs_rules.py"),
]
MIB = 2**20
NAMES = {
    "plain.txt": b"plain",
    "with blank and +&%;?#.txt": b"odd signs",
    "ünï/日本語.bin": bytes(range(256)) * 40,
    "empty": b"",
    "deep/er/and/deeper.txt": b"deep",
}


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with begun() as store:
        yield store


@pytest.fixture
def top(hdfs: Hdfs, request: pytest.FixtureRequest) -> str:
    """A folder of the test's own."""
    return "/" + hashlib.sha256(request.node.name.encode()).hexdigest()[:8]


def load(tmp_path: Path, hdfs: Hdfs, top: str, **others: Any) -> Copying:
    return Copying(tmp_path, hdfs.place("", f"{top[1:]}/"), hdfs.outbound(), **others)


def put_all(hdfs: Hdfs, top: str, contents: dict[str, bytes]) -> None:
    for name, body in contents.items():
        hdfs.put(f"{top}/{name}", body)


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def verified(copying: Copying) -> dict[str, str]:
    """The manifest: path → how it was verified."""
    manifest = copying.volume / ".berth" / "loads" / copying.uid / "manifest.jsonl"
    rows = map(json.loads, manifest.read_text().splitlines())
    return {row["path"]: row["verified"] for row in rows}


def test_a_tree_arrives_whole_and_a_second_run_reads_nothing(
    tmp_path: Path, hdfs: Hdfs, top: str
) -> None:
    wide = {f"wide/{n:03d}/{m}.txt": f"{n}.{m}".encode() for n in range(13) for m in range(3)}
    many = {f"many/{n:03d}.txt": str(n).encode() for n in range(27)}  # three pages
    put_all(hdfs, top, {**NAMES, **wide, **many})
    hdfs.call("PUT", f"{top}/nothing/in/it", "MKDIRS")
    copying = load(tmp_path, hdfs, top)
    done = copying.run()
    assert (done.code, done.final["code"]) == (0, "done"), done.output
    assert files_below(copying.target) == {**NAMES, **wide, **many}
    assert set(verified(copying).values()) == {"md5-of-crcs", "length"}
    assert [name for name, how in verified(copying).items() if how == "length"] == ["empty"]
    again = copying.run()
    assert (again.code, again.files["done"], again.reports[-1]["bytes"]["read"]) == (0, 0, 0)
    assert again.files["unchanged"] == len(NAMES) + len(wide) + len(many)


@pytest.mark.parametrize("size", [1, 511, 513, 65536, 3 * MIB + 7, 40 * MIB + 123])
def test_hadoops_own_checksum_is_computed_for_each_size(
    tmp_path: Path, hdfs: Hdfs, top: str, size: int
) -> None:
    """Small in memory, medium on the way, large by a follower; of one block and of many."""
    body = content(size)
    hdfs.put(f"{top}/one", body)
    hdfs.put(f"{top}/many", body, blocksize=MIB)
    copying = load(tmp_path, hdfs, top)
    done = copying.run()
    assert done.code == 0, done.output
    assert files_below(copying.target) == {"many": body, "one": body}
    assert verified(copying) == {"many": "md5-of-crcs", "one": "md5-of-crcs"}


def test_what_hadoops_own_client_wrote_and_joined_arrives(
    tmp_path: Path, hdfs: Hdfs, top: str
) -> None:
    """Blocks of other lengths have no checksum that can be computed: it says length."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(content(MIB + 4096, 1))
    second.write_bytes(content(2 * MIB, 2))
    hdfs.shell("-mkdir", top)
    small = "-Ddfs.blocksize=1048576"
    hdfs.shell(small, "-put", str(first), str(second), top)
    hdfs.call("POST", f"{top}/first", "CONCAT", sources=f"{top}/second")
    hdfs.shell("-put", str(first), f"{top}/whole")
    copying = load(tmp_path, hdfs, top)
    done = copying.run()
    assert done.code == 0, done.output
    joined = content(MIB + 4096, 1) + content(2 * MIB, 2)
    assert files_below(copying.target) == {"first": joined, "whole": content(MIB + 4096, 1)}
    assert verified(copying) == {"first": "length", "whole": "md5-of-crcs"}


def test_a_path_is_a_file_or_a_folder_or_nothing(tmp_path: Path, hdfs: Hdfs, top: str) -> None:
    put_all(hdfs, top, {"a/x": b"x", "a-too/y": b"y", "b": b"b"})
    for prefix, found in (("a", {"a/x": b"x"}), ("b", {"b": b"b"}), ("a/", {"x": b"x"})):
        place = hdfs.place("", f"{top[1:]}/{prefix}")
        base = tmp_path / prefix.replace("/", "-")
        base.mkdir()
        copying = Copying(base, place, hdfs.outbound())
        assert copying.run().code == 0
        assert files_below(copying.target) == found
    for prefix in ("c", "b/"):
        done = Copying(tmp_path, hdfs.place("", f"{top[1:]}/{prefix}"), hdfs.outbound()).run()
        assert (done.code, done.final["code"]) == (4, "no-bucket")


def test_sync_deletes_what_is_gone_but_nothing_where_a_folder_could_not_be_listed(
    tmp_path: Path, hdfs: Hdfs, top: str
) -> None:
    put_all(hdfs, top, {"a": b"a", "b": b"b", "shut/c": b"c"})
    copying = load(tmp_path, hdfs, top, mode="sync", others={"delete_extra": True})
    copying.store = hdfs.place("", f"{top[1:]}/", user="somebody")
    assert copying.run().code == 0
    hdfs.put(f"{top}/b", b"another b")
    hdfs.call("DELETE", f"{top}/a", "DELETE")
    hdfs.call("PUT", f"{top}/shut", "SETPERMISSION", permission="700")
    partial = copying.run()
    assert (partial.code, partial.errors) == (3, {f"{top[1:]}/shut/": "denied"})
    assert files_below(copying.target) == {"a": b"a", "b": b"another b", "shut/c": b"c"}
    hdfs.call("PUT", f"{top}/shut", "SETPERMISSION", permission="755")
    assert copying.run().code == 0
    assert files_below(copying.target) == {"b": b"another b", "shut/c": b"c"}


def test_d7_a_killed_load_goes_on_with_the_rest(tmp_path: Path, hdfs: Hdfs, top: str) -> None:
    body = content(60 * MIB)
    hdfs.put(f"{top}/large", body, blocksize=8 * MIB)
    copying = load(tmp_path, hdfs, top, others={"bandwidth_bytes_s": 5 * MIB})
    killed = copying.run(kill_when=lambda report: report["bytes"]["read"] > 30 * MIB)
    assert killed.code == -signal.SIGKILL, killed.output
    assert files_below(copying.target) == {}
    copying.others = {}
    done = copying.run()
    assert done.code == 0, done.output
    assert files_below(copying.target) == {"large": body}
    assert done.reports[-1]["bytes"]["read"] < 45 * MIB
    assert verified(copying) == {"large": "md5-of-crcs"}


def test_a_token_goes_in_place_of_a_name_and_is_shown_nowhere(
    tmp_path: Path, hdfs: Hdfs, top: str
) -> None:
    put_all(hdfs, top, {"a": b"a", "mine": b"m"})
    hdfs.call("PUT", f"{top}/mine", "SETPERMISSION", permission="600")
    token = hdfs.token()
    copying = load(tmp_path, hdfs, top)
    copying.store = hdfs.place("", f"{top[1:]}/", token=token)  # and the name of who may
    done = copying.run()
    assert (done.code, done.errors) == (3, {f"{top[1:]}/mine": "denied"})
    assert token not in json.dumps(done.reports) + done.output


def test_who_may_not_read_is_told_so(tmp_path: Path, hdfs: Hdfs, top: str) -> None:
    put_all(hdfs, top, {"mine": b"m", "yours": b"y"})
    hdfs.call("PUT", f"{top}/mine", "SETPERMISSION", permission="600")
    copying = load(tmp_path, hdfs, top)
    copying.store = hdfs.place("", f"{top[1:]}/", user="somebody")
    done = copying.run()
    assert (done.code, done.errors) == (3, {f"{top[1:]}/mine": "denied"})
    assert files_below(copying.target) == {"yours": b"y"}
    hdfs.call("PUT", top, "SETPERMISSION", permission="700")
    assert copying.run().final["code"] == "denied"


def test_d5_a_datanode_where_nobody_may_go_is_not_asked(
    tmp_path: Path, hdfs: Hdfs, top: str
) -> None:
    """The namenode sends us; the address is judged like one that a person wrote."""
    put_all(hdfs, top, {"a": b"a"})
    closed = hdfs.outbound(datanode=False)
    done = Copying(tmp_path, hdfs.place("", f"{top[1:]}/"), closed).run()
    assert (done.code, done.final["code"]) == (4, "refused-address"), done.output
    other = {**closed, "ports": [*closed["ports"], hdfs.datanode]}  # its port, not its address
    done = Copying(tmp_path, hdfs.place("", f"{top[1:]}/"), other).run()
    assert (done.code, done.final["code"]) == (4, "refused-address"), done.output


def test_a_bad_name_is_named_and_the_others_come(tmp_path: Path, hdfs: Hdfs, top: str) -> None:
    put_all(hdfs, top, {"good": b"g", "line\nbreak": b"x", ".berth": b"y", "n" * 255: b"long"})
    done = (copying := load(tmp_path, hdfs, top, folder="")).run()
    assert done.code == 3
    assert set(done.errors.values()) == {"bad-key"}
    assert len(done.errors) == 2
    assert set(files_below(copying.target)) == {"good", "n" * 255}


def test_named_files_dry_run_and_verify(tmp_path: Path, hdfs: Hdfs, top: str) -> None:
    put_all(hdfs, top, {"a": b"aa", "b": b"b", "d/c": b"c"})
    counted = load(tmp_path, hdfs, top, mode="dry-run").run()
    assert counted.code == 0
    assert files_below(tmp_path / "data") == {}
    keys = [f"{top[1:]}/{name}" for name in ("a", "d", "gone")]
    copying = Copying(tmp_path, hdfs.place("", f"{top[1:]}/", objects=keys), hdfs.outbound())
    done = copying.run()
    assert (done.code, done.errors) == (3, {keys[1]: "bad-key", keys[2]: "gone"})
    copying.mode = "verify"
    assert copying.run().code == 0
    (copying.target / "a").write_bytes(b"ab")
    assert copying.run().errors == {f"{top[1:]}/a": "checksum"}


def test_a_datanode_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with begun() as hdfs:
        body = content(3 * MIB)
        hdfs.put("/top/a", body)
        hdfs.end_datanode()
        copying = load(tmp_path, hdfs, "/top")
        done = copying.run()
        assert (done.code, files_below(copying.target)) in ((3, {}), (4, {}))
        hdfs.begin_datanode()
        hdfs._wait()
        assert copying.run().code == 0
        assert files_below(copying.target) == {"a": body}
