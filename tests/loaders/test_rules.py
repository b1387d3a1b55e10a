"""What people write, checked before anything sees it; schedules; how runs end. Pure rules."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from common.errors import Invalid
from loaders import cron, policies, selection
from loaders.models import Load
from loaders.results import ended

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SHORTEST = timedelta(minutes=5)


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        (" s3://my.bucket-1/a/b/ ", "my.bucket-1", "a/b/"),
        ("gs://set_1/日本/データ", "set_1", "日本/データ"),
        ("s3://bucket/a b+c?d#e", "bucket", "a b+c?d#e"),
        ("hdfs:///", "", ""),
        ("hdfs:///data/日本/a b/", "", "data/日本/a b/"),
    ],
)
def test_a_path_names_bucket_and_prefix(text, bucket, prefix):
    place = policies.parse_url(text)
    assert (place.bucket, place.prefix) == (bucket, prefix)


@pytest.mark.parametrize(
    "text",
    [
        *("", "bucket/x", "http://bucket/x", "s3:/bucket", "s3://", "s3:///x", "file:///etc"),
        *("s3://a..b/x", "s3://b@c/x", "s3://user:pw@host/x", "s3://bu cket/x", "s3://-b/x"),
        *("hdfs://", "hdfs://namenode:8020/data", "hdfs:///a/../b", "hdfs:///a//b", "hdfs:////a"),
        *("s3://bucket/a\nb", "s3://bucket/a\x00b", "s3://bucket/" + "x" * 1025),
    ],
)
def test_what_is_no_path_is_refused(text):
    with pytest.raises(Invalid):
        policies.parse_url(text)


@pytest.mark.parametrize(("text", "folder"), [("", ""), ("/", ""), ("a/b/", "a/b"), (" a ", "a")])
def test_a_folder_lies_in_the_volume(text, folder):
    assert policies.clean_folder(text) == folder


@pytest.mark.parametrize(
    "text",
    [
        *("..", "a/../b", "../a", "/etc", "a//b", "a/./b", ".", "a\x00b", "a\nb"),
        *(".berth", ".berth/loads", ".Berth/x", "x" * 256, "a/" * 600),
    ],
)
def test_d1_a_folder_outside_or_of_our_own_is_refused(text):
    with pytest.raises(Invalid):
        policies.clean_folder(text)


@pytest.mark.parametrize(
    "text",
    [
        *("store.example.org", "ftp://x", "https://", "https://u:p@x", "https://x/path"),
        *("https://x:0", "https://x:99999", "http://0177.0.0.1", "https://2130706433"),
        "https://x y",
    ],
)
def test_d2_what_is_no_plain_address_is_refused(text):
    with pytest.raises(Invalid):
        policies.clean_endpoint(text)


def test_keys_patterns_and_bandwidth_are_bounded():
    assert policies.clean_objects(["a", "a", "b", ""]) == ["a", "b"]
    assert policies.clean_objects([]) is None
    for wrong in (["x"] * 10_001, [1], ["a\nb"], [f"{n}" * 100 for n in range(9_999)]):
        with pytest.raises(Invalid):
            policies.clean_objects(wrong)
    for wrong in (["x" * 201], ["a\x07"], [str(n) for n in range(51)], [1]):
        with pytest.raises(Invalid):
            policies.clean_patterns("include", wrong)
    assert policies.clean_bandwidth(0) is None
    for number in (1, -5, 2**50, True):
        with pytest.raises(Invalid):
            policies.clean_bandwidth(number)


def at(text: str, zone: str = "UTC", after: datetime = NOW) -> datetime | None:
    return cron.parse(text, zone, now=NOW, shortest=SHORTEST).next_after(after)


def test_a_schedule_comes_at_its_time_in_its_zone():
    assert at("30 2 * * *") == datetime(2026, 3, 2, 2, 30, tzinfo=UTC)
    assert at("30 2 * * *", "Asia/Tokyo") == datetime(2026, 3, 1, 17, 30, tzinfo=UTC)
    assert at("0 0 1 jan *") == datetime(2027, 1, 1, tzinfo=UTC)
    assert at("0 9 * * mon-fri") == datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    assert at("*/15 8-9 * * *", after=datetime(2026, 3, 1, 9, 45, tzinfo=UTC)) == datetime(
        2026, 3, 2, 8, 0, tzinfo=UTC
    )
    assert at("0 0 29 2 *") == datetime(2028, 2, 29, tzinfo=UTC)


BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("text", "zone", "day", "runs"),
    [
        # an hour comes twice, half an hour on Lord Howe
        ("0 * * * *", BERLIN, (2026, 10, 25), 25),
        ("*/15 * * * *", BERLIN, (2026, 10, 25), 100),
        ("30 2 * * *", BERLIN, (2026, 10, 25), 1),
        ("*/15 2 * * *", BERLIN, (2026, 10, 25), 4),
        ("0 */2 * * *", BERLIN, (2026, 10, 25), 12),
        ("0 * * * *", NEW_YORK, (2026, 11, 1), 25),
        ("30 1 * * *", NEW_YORK, (2026, 11, 1), 1),
        ("*/15 * * * *", LORD_HOWE, (2026, 4, 5), 98),
        ("45 1 * * *", LORD_HOWE, (2026, 4, 5), 1),
        # and is skipped
        ("0 * * * *", BERLIN, (2026, 3, 29), 23),
        ("30 * * * *", BERLIN, (2026, 3, 29), 23),
        ("*/15 * * * *", BERLIN, (2026, 3, 29), 92),
        ("30 2 * * *", BERLIN, (2026, 3, 29), 1),
        ("0 * * * *", NEW_YORK, (2026, 3, 8), 23),
        ("30 2 * * *", NEW_YORK, (2026, 3, 8), 1),
        ("*/15 * * * *", LORD_HOWE, (2026, 10, 4), 94),
        ("15 2 * * *", LORD_HOWE, (2026, 10, 4), 1),
        # neither
        ("0 * * * *", "Asia/Tokyo", (2026, 10, 25), 24),
        ("30 2 * * *", "Asia/Tokyo", (2026, 3, 29), 1),
        ("*/15 * * * *", BERLIN, (2026, 6, 1), 96),
    ],
)
def test_a_day_on_which_clocks_are_turned_has_as_many_runs_as_it_has_hours(text, zone, day, runs):
    where = ZoneInfo(zone)
    begin = datetime(*day, tzinfo=where).astimezone(UTC)
    end = (datetime(*day, tzinfo=where) + timedelta(days=1)).astimezone(UTC)
    schedule = cron.parse(text, zone, now=NOW, shortest=SHORTEST)
    found, moment = [], begin - timedelta(seconds=1)
    while (moment := schedule.next_after(moment)) and moment < end:
        found.append(moment)
    assert len(found) == runs
    if text.startswith("*/15 *"):
        assert {b - a for a, b in pairwise(found)} == {timedelta(minutes=15)}


@pytest.mark.parametrize(
    ("text", "zone", "after", "then"),
    [
        ("30 2 * * *", BERLIN, (2026, 3, 28, 12), (2026, 3, 29, 1, 0)),  # 3:00
        ("30 2 * * *", NEW_YORK, (2026, 3, 7, 12), (2026, 3, 8, 7, 0)),  # 3:00
        ("15 2 * * *", LORD_HOWE, (2026, 10, 3, 0), (2026, 10, 3, 15, 30)),  # 2:30
        ("30 2 * * *", BERLIN, (2026, 10, 24, 12), (2026, 10, 25, 0, 30)),  # the first 2:30
        ("30 2 * * *", BERLIN, (2026, 10, 25, 0, 30), (2026, 10, 26, 1, 30)),
    ],
)
def test_a_time_comes_once_and_one_that_is_skipped_at_the_next_that_there_is(
    text, zone, after, then
):
    assert at(text, zone, datetime(*after, tzinfo=UTC)) == datetime(*then, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "0 0 0 * *"),
        *("0 0 32 * *", "0 0 * 13 *", "0 0 * * 7", "a b c d e", "0 0 30 2 *", "*/0 * * * *"),
        *("0 0 1 * mon", "1,,2 * * * *", "mon * * * *", "* * * * *", "*/4 * * * *"),
        "0 0 * * *; rm",
    ],
)
def test_what_is_no_schedule_or_comes_too_often_is_refused(text):
    with pytest.raises(Invalid):
        cron.parse(text, "UTC", now=NOW, shortest=SHORTEST)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "+09:00", "x" * 70])
def test_an_unknown_time_zone_is_refused(zone):
    with pytest.raises(Invalid):
        cron.parse("0 0 * * *", zone, now=NOW, shortest=SHORTEST)


@pytest.mark.parametrize(
    ("prefix", "include", "chosen"),
    [
        ("images", [], ["images/a.png", "images/b/c.txt"]),
        ("images/", [], ["a.png", "b/c.txt", "images"]),
        ("one.bin", [], ["one.bin"]),
        ("images", ["*.png"], ["images/a.png"]),
        ("images", ["b/*"], ["images/b/c.txt"]),
        ("a*b", [], ["a*b/x"]),
    ],
)
def test_a_path_means_an_object_or_what_lies_below_it_never_a_neighbour(prefix, include, chosen):
    """The patterns are those of the program that copies."""
    from dataplane.copy.keys import chosen_by

    row = Load(direction="in", prefix=prefix, include=include)
    names = ["images/a.png", "images/b/c.txt", "images-old/a.png", "a.png", "b/c.txt"]
    names += ["images", "one.bin", "one.bin2", "a*b/x", "axb/x"]
    given = selection.patterns(row)
    keep = chosen_by(tuple(given["include"]), tuple(given["exclude"])) or (lambda _name: True)
    found = [name for name in names if keep(name)]
    if prefix.endswith("/"):
        assert set(chosen) <= set(found)
    else:
        assert [name for name in found if name != prefix or name in chosen] == chosen


def test_an_export_goes_into_a_folder_never_beside_it():
    assert selection.store_part(Load(direction="out", prefix="to"))["prefix"] == "to/"
    assert selection.store_part(Load(direction="out", prefix=""))["prefix"] == ""


FINAL = {"exit": 4, "code": "denied", "message": "m", "manifest": ""}


@pytest.mark.parametrize(
    ("how", "result", "code"),
    [
        ({"exit_code": 0}, "done", "done"),
        ({"exit_code": 0, "final": FINAL}, "done", "done"),
        ({"exit_code": 3}, "partial", "partial"),
        ({"exit_code": 4, "final": FINAL}, "failed", "denied"),
        (
            {"exit_code": 4, "message": '{"code": "disk-full", "message": "x"}'},
            "failed",
            "disk-full",
        ),
        ({"exit_code": 4, "message": "no space"}, "failed", "internal"),
        ({"exit_code": 5}, "failed", "stopped"),
        ({"exit_code": 137, "reason": "oom"}, "failed", "oom"),
        ({"exit_code": None, "reason": "vanished"}, "failed", "vanished"),
        ({"exit_code": None, "reason": "vanished", "final": FINAL}, "failed", "denied"),
        ({"exit_code": 5, "stopped_for": "paused"}, "paused", "paused"),
        ({"exit_code": None, "stopped_for": "cancelled"}, "cancelled", "cancelled"),
        ({"exit_code": None, "stopped_for": "owner-disabled"}, "stopped", "owner-disabled"),
        ({"exit_code": 0, "stopped_for": "paused"}, "done", "done"),
    ],
)
def test_a_run_ends_as_its_exit_code_and_last_words_say(how, result, code):
    asked = {"stopped_for": "", "reason": "exit", "message": "", "final": None, **how}
    found = ended(**asked)
    assert (found.result, found.code) == (result, code)
