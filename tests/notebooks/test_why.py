"""What people are told of why a workspace is as it is: plain words in their language first."""

import pytest
from django.utils import translation

from notebooks.models import Workspace
from runtime.reasons import info
from tests.notebooks.addresses import BASE, url
from tests.notebooks.cluster_world import attach

API = "/api/v1/projects/vision/workspaces"
SAID = "Not enough left on so many of 34 nodes: nvidia.com/gpu (34)."


def put(row, **values):
    values.setdefault("observed_generation", row.generation)
    Workspace.objects.filter(pk=row.pk).update(**values)
    row.refresh_from_db()
    return row


def read_in_japanese(user):
    user.language = "ja"
    user.save(update_fields=["language"])


@pytest.mark.parametrize("place", ["machine", "cluster"])
def test_one_that_runs_where_nobody_answers_is_not_shown_as_if_all_were_well(
    text, launch, alice, settle, as_user, monkeypatch, place
):
    row = settle(launch(alice))
    if place == "cluster":
        put(row, cluster_key=attach(monkeypatch).key)
    silent = f"The {place} does not answer; what is shown is the last thing known."
    for path in ("/", BASE, url(row)):
        assert silent not in text(alice, path)
    put(row, reason="unreachable", message="connection refused")
    for path in ("/", BASE, url(row)):
        page = text(alice, path)
        assert silent in page
        assert "phase-running" in page
    advice = f"Nothing needs to be done: it is tried again until the {place} answers."
    page = text(alice, url(row, "state/"))
    assert "connection refused" in page
    assert advice in page
    told = as_user(alice).get(f"{API}/{row.short_id}").json()["status"]
    assert (told["message"], told["advice"]) == (f"{silent} connection refused", advice)


def test_plain_words_go_before_those_of_a_driver_and_are_in_the_readers_language(
    text, launch, alice, settle, as_user
):
    row = put(launch(alice), phase="pending", reason="nodes-full", message=SAID)
    told = as_user(alice).get(f"{API}/{row.short_id}").json()["status"]["message"]
    assert told == f"All nodes that could hold it are in use. {SAID}"
    read_in_japanese(alice)
    with translation.override("ja"):
        plain = str(info("nodes-full").text)
    assert not plain.isascii()
    home = text(alice)
    assert plain in home
    assert SAID not in home  # one press deeper
    page = text(alice, url(row))
    assert page.index(plain) < page.index(SAID)


def test_a_failed_one_says_on_its_card_what_happened_in_plain_words(text, launch, alice):
    row = put(launch(alice), phase="failed", desired="running", reason="exit", message="code 1: no")
    home = text(alice)
    assert str(info("exit").text) in home
    assert "code 1: no" not in home
    assert "code 1: no" in text(alice, url(row))


def test_a_place_in_the_queue_is_told_by_the_api_in_the_readers_language(launch, alice, as_user):
    queue = {"position": 3, "ahead": 2, "lacking": ["memory"]}
    row = put(
        launch(alice),
        phase="pending",
        reason="queued",
        message="as the engine said it",
        external_ref={"queue": queue},
    )
    read_in_japanese(alice)
    one = as_user(alice).get(f"{API}/{row.short_id}").json()["status"]
    (listed,) = as_user(alice).get(API).json()["results"]
    assert one["message"] == listed["status"]["message"]
    assert "as the engine said it" not in one["message"]
    assert not one["message"].isascii()
    assert one["position"] == 3


def test_what_can_never_start_says_what_to_do(text, launch, alice):
    row = put(
        launch(alice),
        phase="pending",
        reason="does-not-fit",
        message="This machine has less than it asks for.",
        external_ref={"queue": {"position": 1, "ahead": 0, "lacking": ["memory"]}},
    )
    page = text(alice, url(row, "state/"))
    for words in (info("does-not-fit").text, info("does-not-fit").advice, row.message):
        assert str(words) in page
    assert "what runs has no time limit" not in page  # nothing that ends would help


def test_what_a_stop_was_for_is_told_as_it_was(launch, alice, settle, as_user, text):
    row = settle(launch(alice))
    as_user(alice).post(url(row, "stop/"))
    settle(row)
    assert as_user(alice).get(f"{API}/{row.short_id}").json()["status"]["message"] == (
        "Stopped by its owner"
    )
    assert "Stopped by its owner" in text(alice, url(row))
