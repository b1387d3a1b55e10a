"""C33: what a page inside the workspace tells of its time limit, and how far its end may move."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import time_machine

from accounts.principal import Principal
from queues.models import Queue
from work.services.limits import limit_notices


def test_c33_it_is_told_a_quarter_of_an_hour_before_and_one_press_moves_the_end(
    launch: Any, alice: Any, bob: Any, settle: Any
) -> None:
    row = settle(launch(alice, "large"))
    assert limit_notices(row.uid, alice) == []
    with time_machine.travel(row.ends_at - timedelta(minutes=10), tick=False):
        (told,) = limit_notices(row.uid, alice)
        assert (told.until, told.saves, [act.label for act in told.acts]) == (
            *(row.ends_at, True),
            ["60 minutes more"],
        )
        assert limit_notices(row.uid, bob)[0].acts == ()
        told.acts[0].do(Principal(user=alice))
        assert limit_notices(row.uid, alice) == []
    before = row.ends_at
    row.refresh_from_db()
    assert row.ends_at == before + timedelta(minutes=60)


def test_c33_beyond_what_the_project_allows_there_is_no_button_but_the_reason(
    launch: Any, alice: Any, project: Any, settle: Any
) -> None:
    row = settle(launch(alice, "large"))
    Queue.objects.create(
        project=project, name=project.slug, longest={"build": row.time_limit_minutes}
    )
    with time_machine.travel(row.ends_at - timedelta(minutes=10), tick=False):
        (told,) = limit_notices(row.uid, alice)
    assert told.acts == ()
    assert "cannot be extended further. In this project such work runs at most" in told.text
