"""What people are told of why a load is as it is: plain words first, in their own language."""

import pytest
from django.utils import translation

from loaders.models import Load
from loaders.words import message_of, run_message
from notifications.models import Notification
from runtime.reasons import info

BASE = "/projects/vision/loads/"
API = "/api/v1/projects/vision/loads"
SAID = "Not enough left on so many of 34 nodes: cpu (34)."
ENDED = {"launch": 1, "desired": "running", "phase": "failed", "result": "failed"}


@pytest.fixture
def put(load, alice):
    """A load of Alice's with what the engine and its run would have written."""

    def make(**values):
        row = load(alice)
        Load.objects.filter(pk=row.pk).update(observed_generation=row.generation, **values)
        row.refresh_from_db()
        return row

    return make


@pytest.fixture
def text(as_user, alice):
    return lambda path="": as_user(alice).get(f"{BASE}{path}").content.decode()


def test_plain_words_go_before_those_of_a_driver(put, text, api, alice):
    row = put(phase="pending", reason="nodes-full", message=SAID)
    plain = str(info("nodes-full").text)
    told = api(alice, "GET", f"{API}/{row.uid}").json()["status"]["message"]
    assert told == f"{plain} {SAID}"
    for page in (f"{row.uid}/", f"{row.uid}/state/"):
        found = text(page)
        assert found.index(plain) < found.index(SAID), page
    assert plain in text()  # in the list without the words of a driver


def test_the_plain_words_are_in_the_readers_language(put, text, alice):
    row = put(phase="pending", reason="nodes-full", message=SAID)
    alice.language = "ja"
    alice.save(update_fields=["language"])
    with translation.override("ja"):
        plain = str(info("nodes-full").text)
    assert not plain.isascii()
    found = text(f"{row.uid}/")
    assert found.index(plain) < found.index(SAID)


def test_what_was_cut_off_says_what_happened_before_what_was_said_of_it(load, alice, settle, end):
    row = end(settle(load(alice)), -9, reason="killed")
    Load.objects.update(result_message="signal 9 of somebody")
    row.refresh_from_db()
    said = message_of(row)
    places = [said.index(word) for word in (str(info("killed").text), "try 1 of 5", "signal 9")]
    assert places == sorted(places)


def test_a_sentence_that_is_both_the_plain_one_and_what_was_said_is_told_once(put):
    why = {"result_code": "credential-gone", "result_message": "Its credential was removed."}
    row = put(**ENDED, **why)
    row.runs.update(result="failed", code=why["result_code"], message=why["result_message"])
    for language, said in (("en", why["result_message"]), ("ja", None)):
        with translation.override(language):
            told = message_of(row)
            assert run_message(row.runs.get()) == told
        assert told == said if said else not told.isascii()
        assert why["result_message"] not in told or language == "en"


def test_of_its_turn_the_place_in_the_line_alone_is_told(load, alice, settle, settings):
    settings.BERTH_LOADS_PER_PROJECT = 1
    _first, second = load(alice), load(alice, "s3://bucket/other")
    settle()
    second.refresh_from_db()
    assert message_of(second) == second.message
    assert "position 1" in second.message


def test_a_notice_of_a_failure_says_in_plain_words_what_happened(load, alice, settle, end, report):
    row = settle(load(alice))
    report(row, final={"exit": 4, "code": "no-bucket", "message": "bucket x", "manifest": ""})
    end(row, 4)
    reason = Notification.objects.get(kind="load.failed").params["reason"]
    assert reason.startswith("There is no such bucket")
    assert reason.endswith("bucket x")


@pytest.mark.parametrize("task", ["load", "dry-run"])
def test_a_load_that_found_nothing_names_where_it_looked(put, text, api, alice, task):
    """It ends well: most often a name was mistyped."""
    done = {"launch": 1, "phase": "stopped", "desired": "running", "result": "done", "listed": True}
    row = put(**done, result_code="done", task=task)
    told = api(alice, "GET", f"{API}/{row.uid}").json()["status"]
    assert told["message"] == "Nothing was found below s3://bucket/images: nothing was copied."
    assert told["advice"].startswith("Check the name")
    page = text(f"{row.uid}/state/")
    assert "Nothing was found below s3://bucket/images" in page
    assert "Everything is there" not in page
    assert "note-warning" in page
    row = put(**done, result_code="done", task="load", files_found=3, files_done=3)
    assert "Everything is there" in text(f"{row.uid}/state/")
