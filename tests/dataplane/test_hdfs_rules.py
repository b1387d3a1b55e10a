"""What a namenode may say, and what is made of it: without one."""

import hashlib
import json
from typing import Any

import pytest

from dataplane.copy.checksums import BLOCKS, Check, block_text_of
from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Broken, Head
from dataplane.copy.pages import no_listing
from dataplane.copy.plan import OutboundPlan, StorePlan
from dataplane.copy.problems import Code, Final, Stop
from dataplane.copy.stores.base import Item, NoStore
from dataplane.copy.stores.hdfs import Hdfs, acts_of, step, with_sum

NAME = "namenode.example.com:9870"


def store(scheme: str = "https", **said: Any) -> Hdfs:
    outbound = OutboundPlan(ports=(443, 9870, 9864), insecure_hosts=(NAME,))
    plan = StorePlan("hdfs", "", endpoint=f"{scheme}://{NAME}", user="ann", **said)
    return Hdfs(plan, Dialer(outbound))


def entry(name: str, kind: str = "FILE", **said: Any) -> dict[str, Any]:
    about = {"pathSuffix": name, "type": kind, "length": 3, "modificationTime": 5000, "fileId": 7}
    return {**about, **said}


def listing(*entries: dict[str, Any], left: int = 0) -> memoryview:
    partial = {"FileStatuses": {"FileStatus": list(entries)}}
    said = {"DirectoryListing": {"partialListing": partial, "remainingEntries": left}}
    return memoryview(json.dumps(said).encode())


def test_a_tree_is_walked_with_one_page_a_level_in_mind() -> None:
    tree = {
        "top": [["a/", "b", "c/"], ["d", "e/"]],
        "top/a": [["x"], ["y"]],
        "top/c": [["deep/"]],
        "top/c/deep": [["z"]],
        "top/e": [[]],
    }
    hdfs, token, found, asked = store(), "", [], 0
    while True:
        at = step("top", token)
        pages = tree[at.folder]
        last = [page[-1].rstrip("/") if page else "" for page in pages]
        number = last.index(at.after) + 1 if at.after else 0
        rows = [
            entry(name.rstrip("/"), "DIRECTORY" if name[-1] == "/" else "FILE")
            for name in pages[number]
        ]
        more = len(pages) - number - 1
        page = hdfs.page(listing(*rows, left=more), "top", token)
        found += [item.key for item in page.items]
        token, asked = page.token, asked + 1
        if not token:
            break
    names = ["top/b", "top/a/x", "top/a/y", "top/c/deep/z", "top/d"]
    assert (found, asked) == (names, 7)


def test_e_a_listing_that_comes_again_ends() -> None:
    hdfs = store()
    first = hdfs.page(listing(entry("a"), left=1), "top", "")
    with pytest.raises(Broken, match="comes again"):
        hdfs.page(listing(entry("a"), left=1), "top", first.token)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../x", "\ud800"])
@pytest.mark.parametrize("kind", ["FILE", "DIRECTORY"])
def test_d1_a_name_that_leads_elsewhere_is_named_and_not_followed(name: str, kind: str) -> None:
    page = store().page(listing(entry("good"), entry(name, kind)), "top", "")
    assert [item.key for item in page.items] == ["top/good"]
    assert [trouble.code for _key, trouble in page.bad] == [Code.BAD_KEY]
    assert not page.token


def test_a_link_is_named_and_not_followed() -> None:
    page = store().page(listing(entry("a"), entry("l", "SYMLINK")), "top", "")
    assert [key for key, _trouble in page.bad] == ["top/l"]


@pytest.mark.parametrize("length", [-1, 2**70, None, "many"])
def test_a_size_that_no_file_has_costs_one_file_only(length: Any) -> None:
    page = store().page(listing(entry("a"), entry("odd", length=length)), "top", "")
    assert [item.key for item in page.items] == ["top/a"]
    assert [key for key, _trouble in page.bad] == ["top/odd"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"nonsense", b'{"DirectoryListing": {"remainingEntries": 0}}']
)
def test_what_is_no_listing_ends_the_run(body: bytes) -> None:
    with pytest.raises(NoStore) as caught:
        store().page(memoryview(body), "top", "")
    assert no_listing(caught.value).final is Final.UNREACHABLE


def sent(url: str) -> Head:
    return Head(307, {"location": url})


GOOD = "/webhdfs/v1/top/a?op=OPEN&user.name=ann"


@pytest.mark.parametrize(
    "url",
    [
        f"http://dn.example.com:9864{GOOD}",  # a namenode with TLS sends to one without
        f"https://dn.example.com:22{GOOD}",
        f"ftp://dn.example.com:9864{GOOD}",
        f"https://x@dn.example.com:9864{GOOD}",
        f"https://0x7f.1:9864{GOOD}",
        "https://dn.example.com:9864/admin?op=OPEN",
        "https://dn.example.com:9864/webhdfs/v1/a?op=OPEN&op=DELETE",
        "https://dn.example.com:9864/webhdfs/v1/a",
        "/webhdfs/v1/a?op=OPEN",
        "",
    ],
)
def test_d5_a_redirect_leads_to_a_datanode_or_nowhere(url: str) -> None:
    with pytest.raises(Stop):
        store().onward(sent(url))


def test_d5_a_datanode_is_asked_as_the_namenode_says_and_no_line_more() -> None:
    onward = store().onward(sent(f"https://dn.example.com:9864{GOOD}&x=a b\r\nx: y"))
    assert onward is not None
    assert onward.endpoint.place == ("dn.example.com", 9864, True)
    lines = onward.question.split(b"\r\n")
    assert lines[0] == f"GET {GOOD}&x=a%20bx:%20y HTTP/1.1".encode()
    assert [line.partition(b":")[0] for line in lines[1:]] == [b"host", b"user-agent", b"", b""]
    plain = store("http").onward(sent(f"http://dn.example.com:9864{GOOD}"))
    assert plain is not None
    assert not plain.endpoint.tls


def test_a_file_that_hadoop_encrypts_or_codes_has_no_sum_of_its_bytes() -> None:
    page = store().page(listing(entry("a"), entry("b", encBit=True), entry("c", ecBit=True)))
    assert [bool(acts_of(item)) for item in page.items] == [True, False, False]


def test_the_sum_of_a_file_is_that_of_its_blocks_and_a_buffer_of_hadoops() -> None:
    """By hand, of two blocks of two pieces; a real namenode says the same in test_real_hdfs."""
    from awscrt import checksums

    body, digests = bytes(range(256)) * 5, b""
    for at in range(0, len(body), 1024):
        pieces = [body[at : at + 1024][n : n + 512] for n in (0, 512)]
        crcs = b"".join(checksums.crc32c(p).to_bytes(4, "big") for p in pieces if p)
        digests += hashlib.md5(crcs).digest()
    whole = hashlib.md5(digests.ljust(32, b"\0")).hexdigest()
    text = block_text_of("MD5-of-2MD5-of-512CRC32C", "0" * 24 + whole)
    check = Check.best({BLOCKS: text})
    assert check.of_memory(body, 0)
    assert not check.of_memory(body[:-1] + b"x", 0)
    for odd in ("COMPOSITE-CRC32C", "MD5-of-0MD5-of-0CRC32", ""):
        assert block_text_of(odd, "0" * 24 + whole) == ""


def told(algorithm: str, *lengths: int) -> dict[str, str]:
    raw = {"FileChecksum": {"algorithm": algorithm, "bytes": "0" * 24 + "ab" * 16}}
    rows, at = [], 0
    for length in lengths:
        rows.append({"offset": at, "length": length})
        at += length
    laid = {"BlockLocations": {"BlockLocation": rows}}
    item = Item("a", at, "1-1-1")
    bodies = [json.dumps(part).encode() for part in (raw, laid)]
    return dict(with_sum(item, bodies).sums)


def test_only_blocks_of_one_length_are_summed() -> None:
    many, one = "MD5-of-2MD5-of-512CRC32C", "MD5-of-0MD5-of-512CRC32C"
    assert told(many, 1024, 1024, 5)
    assert told(one, 999)
    assert not told(many, 1024, 700, 1024)
    assert not told(many, 1024, 1025)
    assert not told(one, 999, 1)
    assert not told(many)
