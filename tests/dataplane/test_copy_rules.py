"""Pure rules of copying: keys, patterns, plans, heads, pace and addresses."""

from __future__ import annotations

import json
import random
import re
import time
from ipaddress import ip_address
from typing import Any

import pytest

from dataplane.copy import keys
from dataplane.copy import plan as plans
from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Broken, Chunks, length_of, parse_head
from dataplane.copy.pace import Backoff, Bucket, Climb
from dataplane.copy.plan import OutboundPlan
from dataplane.copy.problems import Final, Stop, Trouble, shown

# --- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "data/../../escape.txt",
        "data/..",
        "data/./x",
        "/abs.txt",
        "data//abs.txt",
        "data/a//b",
        "data/a/",
        "data/nul\0",
        "data/new\nline",
        "data/bell\a",
        "data/\x7f",
        "data/" + "n" * 256,
        "data/" + "é" * 128,
        "data/\u202ecod.exe",
        "data/\udce9",
        "data/" + "d/" * 2500 + "x",
    ],
)
def test_d1_a_key_that_can_not_be_a_file_is_refused(key: str) -> None:
    with pytest.raises(Trouble) as caught:
        keys.path_of(key, "data/", "in")
    assert caught.value.code == "bad-key"
    assert "secret" not in caught.value.message
    assert shown(key).isprintable()


@pytest.mark.parametrize(
    "key",
    ["data/x", "data/..x/y..", "data/ ", "data/שלום", "data/é", "data/" + "n" * 255, "data/.berth"],
)
def test_what_can_be_a_file_keeps_its_name(key: str) -> None:
    assert keys.path_of(key, "data/", "in") == key.removeprefix("data/")


def test_the_state_of_loads_is_nobodys_target() -> None:
    for key in (".berth/loads/x", ".BERTH/x", ".berth"):
        with pytest.raises(Trouble):
            keys.path_of(key, "", "")
        assert keys.path_of(key, "", "below") == key


def test_a_prefix_stays_up_to_its_last_slash() -> None:
    assert keys.base_of("data/20") == "data/"
    assert keys.base_of("data") == ""
    assert keys.base_of("data/") == "data/"


@pytest.mark.parametrize(
    ("include", "exclude", "path", "chosen"),
    [
        ((), (), "a/b.txt", True),
        (("*.txt",), (), "a/b/c.txt", True),
        (("*.txt",), (), "a/b/c.bin", False),
        (("a/*.txt",), (), "a/c.txt", True),
        (("a/*.txt",), (), "a/b/c.txt", False),
        (("a/**",), (), "a/b/c.txt", True),
        (("**/c.txt",), (), "c.txt", True),
        (("**/c.txt",), (), "a/b/c.txt", True),
        ((), ("b/",), "a/x", True),
        ((), ("b/",), "b/x/y", False),
        (("part-?[0-9].gz",), (), "x/part-a1.gz", True),
        (("part-?[!0-9].gz",), (), "x/part-a1.gz", False),
        (("*",), ("*.tmp",), "a/b.tmp", False),
        (("a+(b).txt",), (), "a+(b).txt", True),
        (("/top.txt",), (), "top.txt", True),
    ],
)
def test_patterns(include: Any, exclude: Any, path: str, chosen: bool) -> None:
    rule = keys.chosen_by(include, exclude)
    assert (rule is None or rule(path)) is chosen


def test_a_pattern_can_not_hang_the_run() -> None:
    rule = keys.chosen_by(("*a" * 40 + "b",), ())
    assert rule is not None
    begun = time.thread_time()
    assert not rule("a" * 1000)
    assert rule("a" * 999 + "b")
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("seed", range(6))
def test_patterns_that_never_look_back_choose_the_same(seed: int) -> None:
    """Compared with the plain translation, which may take for ever on longer ones."""
    chance = random.Random(seed)
    for _ in range(400):
        pattern = "".join(chance.choice(["*", "**", "**/", "a", "b", "/", "?"]) for _ in range(7))
        pattern = pattern.strip("/").replace("***", "**").replace("//", "/") or "a"
        if pattern.count("**") > keys.DEEP_MOST or "***" in pattern:
            continue
        plain = "".join(
            {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
            for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
        )
        where = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
        rule = keys.chosen_by((pattern,), ())
        assert rule is not None
        for _ in range(20):
            path = "".join(chance.choice("ab/") for _ in range(chance.randint(1, 8)))
            wanted = re.fullmatch(where + plain, path, re.DOTALL) is not None
            assert rule(path) is wanted, (pattern, path)


# --- plans --------------------------------------------------------------------------------------


def a_plan(**more: Any) -> dict[str, Any]:
    store = {
        "kind": "s3",
        "bucket": "b",
        "access_key": "AK",
        "secret_key": "canarysecret",
        "region": "eu-west-1",
        **more.pop("store", {}),
    }
    return {
        "version": 1,
        "uid": "u",
        "launch": 1,
        "direction": "in",
        "mode": "copy",
        "store": store,
        "volume": {"name": "data", "folder": "in"},
        **more,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 3},
        {"uid": "../x"},
        {"volume": {"name": "a/b", "folder": ""}},
        {"volume": {"name": "data", "folder": "../x"}},
        {"volume": {"name": "data", "folder": ".berth/x"}},
        {"mode": "move"},
        {"delete_extra": True},
        {"concurrency": -1},
        {"include": "x"},
        {"include": ["[z-a]"]},
        {"include": ["**/a/**/b/**/c/**"]},
        {"store": {"access_key": ""}},
        {"store": {"secret_key": ""}},
        {"store": {"access_key": "a\r\nx-evil: 1"}},
        {"store": {"session_token": "a\nb"}},
        {"store": {"kind": "s3-compatible"}},
        {"store": {"kind": "azure"}},
        {"store": {"bucket": "../x"}},
        {"store": {"bucket": ".."}},
        {"store": {"kind": "gcs"}},
    ],
)
def test_d3_a_plan_that_is_not_complete_is_refused_and_nothing_is_guessed(wrong: Any) -> None:
    with pytest.raises(Stop) as caught:
        plans.read(json.dumps(a_plan(**wrong)))
    assert caught.value.final is Final.BAD_PLAN
    assert "canarysecret" not in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"version": 1}', "[" * 100_000])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(Stop):
        plans.read(text)


def test_anonymous_only_when_the_plan_says_so() -> None:
    plan = plans.read(json.dumps(a_plan(store={"access_key": "", "anonymous": True})))
    assert plan.store.anonymous
    assert "canarysecret" not in repr(plan)


# --- where it connects --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "final"),
    [
        ("http://example.org", Final.REFUSED_ADDRESS),  # without TLS
        ("https://example.org:22", Final.REFUSED_ADDRESS),
        ("https://0x7f.1", Final.BAD_PLAN),
        ("https://2130706433", Final.BAD_PLAN),
        ("https://0177.0.0.1", Final.BAD_PLAN),
        ("https://user@example.org", Final.BAD_PLAN),
        ("https://example.org/path", Final.BAD_PLAN),
        ("https://example.org#x", Final.BAD_PLAN),
        ("ftp://example.org", Final.BAD_PLAN),
        ("example.org", Final.BAD_PLAN),
        ("https://", Final.BAD_PLAN),
    ],
)
def test_d2_an_endpoint_is_read_strictly(url: str, final: Final) -> None:
    with pytest.raises(Stop) as caught:
        Dialer(OutboundPlan()).endpoint(url)
    assert caught.value.final is final


@pytest.mark.parametrize(
    ("address", "port", "internet", "passes"),
    [
        ("93.184.216.34", 443, True, True),
        ("93.184.216.34", 443, False, False),
        ("2606:2800:220:1::1", 443, True, True),
        ("203.0.113.9", 443, True, False),  # closed
        ("10.1.2.3", 443, True, False),
        ("10.2.2.3", 9000, False, True),
        ("10.2.2.3", 443, True, False),  # opened for another port
        ("10.3.2.3", 443, True, True),
        ("10.3.9.3", 443, True, False),  # blocked inside of what is open
    ],
)
def test_what_a_network_policy_lets_out_is_known(
    address: str, port: int, internet: bool, passes: bool
) -> None:
    fence = plans._fence(
        {
            "internet": internet,
            "opened": ["10.2.0.0/16:9000", "10.3.0.0/16"],
            "blocked": ["10.3.9.0/24"],
            "closed": ["203.0.113.0/24"],
        }
    )
    assert fence.passes(ip_address(address), port) is passes


@pytest.mark.parametrize("allow", ["x", "10.0.0.0/8:http", "10.0.0.0/99"])
def test_what_the_operator_allows_must_be_readable(allow: str) -> None:
    with pytest.raises(Stop):
        Dialer(OutboundPlan(allow=(allow,)))


# --- heads and frames ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"ICY 200 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1 200 OK\r\nno colon",
        b"HTTP/1.1 200 OK\r\n folded: x",
        b"HTTP/1.1 200 OK\r\nname : x",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2",
    ],
)
def test_a_head_that_is_not_plain_ends_the_connection(raw: bytes) -> None:
    with pytest.raises(Broken):
        parse_head(raw)


@pytest.mark.parametrize(
    "fields",
    [
        b"content-length: -1",
        b"content-length: 1, 1",
        b"content-length: 0x10",
        "content-length: ٣".encode(),
        b"content-length: 9999999999999999999999",
        b"transfer-encoding: gzip",
        b"transfer-encoding: chunked\r\ncontent-length: 5",
    ],
)
def test_a_length_that_can_be_read_in_two_ways_is_refused(fields: bytes) -> None:
    with pytest.raises(Broken):
        length_of(parse_head(b"HTTP/1.1 200 OK\r\n" + fields))


def test_chunks_are_joined_however_they_arrive() -> None:
    body = random.Random(1).randbytes(5000)
    wire = b"".join(
        b"%x;ext=1\r\n%b\r\n" % (len(p), p) for p in (body[:1], body[1:4000], body[4000:])
    )
    wire += b"0\r\ntrailer: x\r\n\r\n"
    for step in (1, 2, 3, 700, len(wire)):
        chunks, out, done = Chunks(10_000), bytearray(), False
        for at in range(0, len(wire), step):
            done = chunks.feed(wire[at : at + step], out)
        assert done
        assert bytes(out) == body


@pytest.mark.parametrize("wire", [b"xyz\r\n", b"\r\n", b"-5\r\n", b"7000\r\n", b"1" * 70_000])
def test_chunks_that_lie_are_refused(wire: bytes) -> None:
    with pytest.raises(Broken):
        Chunks(1000).feed(wire, bytearray())


# --- pace ---------------------------------------------------------------------------------------


def test_a_bucket_gives_no_more_than_its_rate() -> None:
    at = [0.0]
    bucket = Bucket(1000, clock=lambda: at[0])
    taken = 0
    while at[0] < 10:
        taken += 100
        at[0] += bucket.take(100) or 0.001
    assert 9_900 <= taken <= 10_500
    assert Bucket(None).take(10**12) == 0


def test_the_climb_finds_where_more_brings_nothing() -> None:
    def rate(want: int, best: int) -> float:
        return min(want, best) * 100 - max(0, want - best) * 5

    for best in (2, 6, 16, 40):
        climb = Climb()
        seen = []
        for _ in range(80):
            seen.append(climb.want)
            climb.measured(rate(climb.want, best))
        late = sum(rate(want, best) for want in seen[-30:]) / 30
        assert late >= 0.8 * rate(best, best), (best, seen)


def test_a_fixed_number_stays_until_the_store_asks_for_less() -> None:
    climb = Climb(fixed=12)
    for rate in (1, 100, 3):
        climb.measured(rate)
    assert climb.want == 12
    climb.slow_down()
    assert climb.want == 6


def test_pauses_grow_and_end() -> None:
    backoff = Backoff(0.1, 2.0, tries=6)
    pauses = [backoff.next() for _ in range(6)]
    assert pauses[-1] is None
    given = [p for p in pauses if p is not None]
    assert len(given) == 5
    assert all(0.09 <= p <= 2.0 for p in given)
    backoff.fresh()
    assert backoff.next() is not None
