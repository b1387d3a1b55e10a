"""The list of credentials: found by words and kind, and its state when there are none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from common.clock import now
from events.models import Event

pytestmark = pytest.mark.django_db
BASE = "/projects/vision/credentials/"


@pytest.fixture
def page(as_user: Any, alice: Any) -> Any:
    return lambda tail="": as_user(alice).get(f"{BASE}{tail}").content.decode()


def test_which_form_is_shown_narrows_nothing(project: Any, page: Any) -> None:
    for tail in ("", "?kind=hdfs"):
        text = page(tail)
        assert "No credential yet" in text
        assert "Nothing matches these filters" not in text
    assert "Nothing matches these filters" in page("?kind=hdfs&q=archive")


def test_what_was_typed_stays_when_another_kind_is_chosen(project: Any, page: Any) -> None:
    text = page("?kind=git&name=ours&description=of+the+team")
    assert re.search(
        r'<input[^>]* name="name"[^>]* value="ours"|value="ours"[^>]* name="name"', text
    )
    assert "of the team" in text
    assert 'hx-push-url="?kind=s3"' in text


def test_they_are_found_by_name_address_and_kind(keep: Any, page: Any) -> None:
    one = keep("s3-compatible", "archive", endpoint="https://store.example.org", session_token="")
    other = keep("git", "code")
    for tail, first, second in (
        ("", True, True),
        ("?q=ARCH", True, False),
        ("?q=store.example", True, False),
        ("?of=git", False, True),
        ("?of=git&q=arch", False, False),
        ("?of=nonsense", True, True),
    ):
        text = page(tail)
        found = tuple(f'href="{row.get_absolute_url()}"' in text for row in (one, other))
        assert found == (first, second), tail


def test_one_that_was_used_for_nothing_known_ends_with_no_colon(keep: Any, page: Any) -> None:
    row = keep("git")
    type(row).objects.filter(pk=row.pk).update(last_used_at=now(), last_used_for="")
    assert "just now</time></dd>" in page(f"{row.uid}/")


@pytest.mark.parametrize("own", [False, True])
def test_the_events_page_says_where_it_ends_and_leads_to_the_others(
    keep: Any, alice: Any, as_user: Any, own: bool
) -> None:
    row = keep("git", own=alice) if own else keep("git")
    url = f"{row.get_absolute_url().rstrip('/')}/events"
    client = as_user(alice)
    assert "Only the newest" not in client.get(url).content.decode()
    told = {"target_kind": "credential", "target_uid": str(row.uid)}
    Event.objects.bulk_create(Event(verb="credential.edited", at=now(), **told) for _ in range(100))
    page = client.get(url).content.decode()
    assert "Only the newest 100 events are shown." in page
    assert page.count("changed the credential") == 100
    # the events of one's own are in no project
    assert ('href="/projects/vision/activity?verb=credential"' in page) == (not own)
