"""One statement updates and says what stands there now, on each database that we support."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from accounts.models import User
from common.clock import now
from common.database import update_returning


@pytest.fixture
def people(make_user: Any) -> list[User]:
    return [make_user("ann"), make_user("ben"), make_user("cyd")]


def test_it_returns_what_was_written_as_a_query_would(
    people: list[User], django_assert_num_queries: Any
) -> None:
    moment = now() + timedelta(days=1)
    rows = User.objects.filter(username__in=["ann", "ben"]).order_by("username")
    with django_assert_num_queries(1):
        found = update_returning(
            rows, {"date_joined": moment, "display_name": F("username")}, ("pk", "date_joined")
        )
    assert sorted(found) == sorted((person.pk, moment) for person in people[:2])
    assert set(User.objects.values_list("display_name", flat=True)) == {"ann", "ben", ""}


def test_nothing_that_fits_is_nothing(people: list[User]) -> None:
    assert update_returning(User.objects.filter(pk=0), {"display_name": "x"}, ("pk",)) == []
    assert update_returning(User.objects.filter(pk__in=[]), {"display_name": "x"}, ("pk",)) == []
    assert not User.objects.filter(display_name="x").exists()
