"""What one person may hold open, and what a request for files may cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.files.test_sessions import rows, session_url


def test_a_ninth_ends_the_one_that_was_used_longest_ago(
    as_user: Any, project: Any, bob: Any, alice: Any, shared: Any
) -> None:
    from common.clock import now
    from files.services import MOST_OPEN
    from volumes.models import Volume

    as_user(alice).post(session_url(project, shared))
    client, opened = as_user(bob), []
    for n in range(MOST_OPEN):
        data = Volume.objects.create(
            project=project, created_by=bob, kind="data", name=f"set-{n}", phase="running"
        )
        client.post(session_url(project, data))
        opened.append(data)
        rows().filter(volume=data).update(last_used_at=now() - timedelta(seconds=60 - n))
    rows().filter(volume=opened[0]).update(last_used_at=now())
    wanted = rows().filter(desired="running")
    assert wanted.count() == MOST_OPEN + 1
    client.post(session_url(project, shared))
    assert wanted.filter(person=bob).count() == MOST_OPEN
    assert [row.volume for row in rows().filter(desired="absent")] == [opened[1]]
    client.post(session_url(project, opened[2]))  # one that is open costs nothing
    assert wanted.filter(person=bob).count() == MOST_OPEN
    assert wanted.filter(person=alice).count() == 1


def test_one_that_is_opened_and_ended_all_the_time_is_refused(
    project: Any, bob: Any, shared: Any, principal: Any, monkeypatch: Any
) -> None:
    from django.db import IntegrityError

    from common.errors import Conflict
    from files import services

    tried: list[Any] = []

    def taken(*given: Any) -> Any:
        tried.append(given)
        raise IntegrityError

    monkeypatch.setattr(services, "_opened", taken)
    with pytest.raises(Conflict):
        services.session_open(principal=principal(bob), project=project, volume_uid=shared.uid)
    assert len(tried) == 2
    assert not rows().exists()


def test_a_request_for_files_reads_the_volume_once(
    bob: Any, shared: Any, principal: Any, django_assert_num_queries: Any
) -> None:
    """It is asked at each one: the volume, then twice what its person may do there."""
    from files.selectors import place_get

    with django_assert_num_queries(3) as asked:
        place_get(principal(bob), shared.uid)
    assert len([q for q in asked if 'FROM "volumes_volume"' in q["sql"]]) == 1
