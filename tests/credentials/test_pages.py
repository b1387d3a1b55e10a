"""The list of credentials: found by words and kind, and its state when there are none."""

from __future__ import annotations

from typing import Any

import pytest

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
    from common.clock import now

    row = keep("git")
    type(row).objects.filter(pk=row.pk).update(last_used_at=now(), last_used_for="")
    assert "just now</time></dd>" in page(f"{row.uid}/")
