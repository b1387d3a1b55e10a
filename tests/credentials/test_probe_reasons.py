"""What a test said, or why nobody was asked, in the language of who reads it."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import translation

from common.outbound import OutboundError, split_host
from credentials.models import Credential, Sentence, sentence_of
from credentials.probe import credential_test, verdict
from tests.credentials.answers import error


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]  # what is asked is asked here


def test_a_reason_that_names_something_is_in_the_reader_s_language(
    keep: Any, alice: Any, principal: Any
) -> None:
    row = keep("s3-compatible", endpoint="https://store.example.org:2022", session_token="")
    with translation.override("ja"):
        credential_test(principal=principal(alice), credential=row)
    row.refresh_from_db()
    assert "Port 2022 is not one that Berth connects to." in row.test_sentence
    with translation.override("ja"):
        assert "ポート 2022 は" in row.test_sentence
        assert "Port" not in row.test_sentence


def test_what_it_names_fills_no_other_place() -> None:
    odd = "%(why)s%d.5"
    with pytest.raises(OutboundError) as caught:
        split_host(odd, default_port=443)
    said = sentence_of(verdict.unanswered(caught.value).said.kept())
    for language in ("en", "ja"):
        with translation.override(language):
            assert odd in str(said)


def test_what_a_test_said_is_read_in_each_reader_s_language(store: Any, ask: Any) -> None:
    """And not in that of whoever asked."""
    row = store(error("NoSuchBucket", 404), bucket="data", session_token="")
    with translation.override("ja"):
        _ok, told = ask(row)
        assert row.test_sentence == told
    assert row.test_sentence == "The key is let in, but there is no bucket “data”."
    assert told != row.test_sentence
    assert "“data”" in told or "「data」" in told


def test_why_nobody_was_asked_is_in_the_reader_s_language_too(keep: Any, ask: Any) -> None:
    row = keep("s3-compatible", endpoint="https://127.0.0.1.nip.example", session_token="")
    with translation.override("ja"):
        ask(row)
    said = row.test_sentence
    assert said.isascii(), said
    with translation.override("ja"):
        assert not any(word in row.test_sentence for word in said.split() if len(word) > 3)


def test_what_an_older_portal_kept_is_shown_as_it_was(keep: Any) -> None:
    row = keep("s3-compatible")
    Credential.objects.filter(pk=row.pk).update(test_message="Der Schlüssel passt.", test_ok=True)
    row.refresh_from_db()
    assert row.test_sentence == "Der Schlüssel passt."


def test_a_name_that_is_a_word_of_the_catalogue_stays_a_name() -> None:
    with translation.override("ja"):
        assert "Name" in str(Sentence("The token opens “%(path)s”.", {"path": "Name"}))
