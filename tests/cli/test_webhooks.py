"""Webhooks from a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from webhooks.models import Delivery, Webhook

Run = Callable[..., Any]
PUBLIC = "https://hooks.example.com/services/T0001/B0002/wq8rT2LzXk91"


@pytest.mark.parametrize("own", [[], ["--own"]])
def test_one_is_made_tested_changed_and_deleted(
    transactional_db: None,
    berth: Run,
    alice: Any,
    project: Any,
    token_of: Callable[[Any], str],
    own: list[str],
) -> None:
    def run(*said: str, typed: str | None = None) -> Any:
        done = berth("-p", "vision", *said, *own, token=token_of(alice), stdin=typed)
        assert done.exit_code == 0, done.output
        return done

    made = run("webhooks", "create", "chat", "--kind", "job.failed", typed=f"{PUBLIC}\n")
    row = Webhook.objects.get()
    assert row.sealed["secret"] in made.output
    assert PUBLIC not in made.output
    assert (row.user or row.project) == (alice if own else project)
    assert "https://hooks.example.com/…Xk91" in run("webhooks", "list").output
    run("webhooks", "test", "chat")
    assert "webhook.test" in run("webhooks", "deliveries", "chat").output
    assert Delivery.objects.count() == 1
    before = row.sealed["secret"]
    said = run("webhooks", "rotate", "chat").output
    row.refresh_from_db()
    assert row.sealed["secret"] in said != before
    run("webhooks", "change", "chat", "--off", "--everything", "--name", "room")
    row.refresh_from_db()
    assert (row.enabled, row.kinds, row.name) == (False, [], "room")
    told = berth("-p", "vision", "-o", "json", "webhooks", "list", *own, token=token_of(alice))
    assert json.loads(told.output)[0]["enabled"] is False
    run("webhooks", "delete", "room")
    assert not Webhook.objects.exists()
