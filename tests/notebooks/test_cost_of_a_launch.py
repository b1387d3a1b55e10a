"""A storm of launches is as fast as the statements of one are few: none may be added unseen."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.principal import Principal
from accounts.services.tokens import token_create
from clusters import registry
from notebooks.models import Workspace
from notebooks.services.presets import PresetFields, preset_create
from runtime import engine, observe, reconcilers
from tests.notebooks.cluster_world import attach, pool

WORDS_OF_TRANSACTIONS = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


def statements(act: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        act()
    found = [query["sql"] for query in captured]
    return [sql for sql in found if not sql.startswith(WORDS_OF_TRANSACTIONS)]


@pytest.fixture
def post(project: Any, alice: Any, operator: Any, monkeypatch: Any) -> Callable[[], str]:
    """Launch by the API on a cluster; what is read once is read already."""
    cluster = attach(monkeypatch)
    pool(cluster, "simulated")
    fields = {"name": "Small", "cluster_key": cluster.key, "pool": "simulated", "environment": ""}
    preset = preset_create(principal=Principal(user=operator), fields=PresetFields(values=fields))
    token = token_create(who=Principal(user=alice), name="test")[1]
    monkeypatch.setattr(observe, "_WATCHED_CACHE_S", 3600.0)  # however slow the test is
    monkeypatch.setattr(registry, "REVISION_EVERY_S", 3600.0)

    def launched() -> str:
        answer = Client(headers={"authorization": f"Bearer {token}"}).post(
            f"/api/v1/projects/{project.slug}/workspaces",
            {"preset": preset.slug},
            content_type="application/json",
        )
        assert answer.status_code == 202, answer.content
        return str(answer.json()["id"])

    engine_pass(launched())
    return launched


def engine_pass(short_id: str) -> None:
    row = Workspace.objects.get(short_id=short_id)
    assert engine.reconcile_one("workspace", row.pk, horizon_s=3600)


def test_a_launch_by_the_api_takes_at_most_21_statements(post: Callable[[], str]) -> None:
    found = statements(post)
    assert len(found) <= 21, "\n".join(found)


def test_the_pass_that_makes_it_takes_at_most_20(post: Callable[[], str]) -> None:
    short_id = post()
    found = statements(lambda: engine_pass(short_id))
    assert len(found) <= 20 + 1, "\n".join(found)  # the test asks for the row


def test_a_pass_that_finds_nothing_new_takes_at_most_six(post: Callable[[], str]) -> None:
    short_id = post()
    engine_pass(short_id)
    found = statements(lambda: engine_pass(short_id))
    assert len(found) <= 6 + 1, "\n".join(found)


def test_a_first_launch_is_looked_at_once_where_all_is_watched(
    post: Callable[[], str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(observe, "is_watched", lambda _key: True)
    row = Workspace.objects.get(short_id=post())
    driver = registry.driver_for(row.cluster_key)
    before = driver.calls("observe")
    engine_pass(row.short_id)
    row.refresh_from_db()
    assert row.phase == "running"
    assert driver.calls("observe") - before == 1  # after it was made


def test_what_a_dead_worker_made_unseen_is_not_made_twice(
    post: Callable[[], str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(observe, "is_watched", lambda _key: True)
    row = Workspace.objects.get(short_id=post())
    driver = registry.driver_for(row.cluster_key)
    driver.ensure(reconcilers.reconciler_for(row.KIND).spec_of(row))  # and then it died
    engine_pass(row.short_id)
    row.refresh_from_db()
    assert row.phase == "running"
    assert driver.read_log(str(row.uid))[0].count(b"starting") == 1


def test_the_answer_to_a_launch_says_what_is_read_of_it_afterwards(
    project: Any, alice: Any, post: Callable[[], str]
) -> None:
    token = token_create(who=Principal(user=alice), name="reads")[1]
    client = Client(headers={"authorization": f"Bearer {token}"})
    base = f"/api/v1/projects/{project.slug}/workspaces"
    preset = Workspace.objects.get(short_id=post()).preset.slug
    made = client.post(base, {"preset": preset}, content_type="application/json").json()
    assert made == client.get(f"{base}/{made['id']}").json()


def test_what_is_asked_for_during_a_pass_is_what_its_listeners_hear_of(
    post: Callable[[], str], monkeypatch: Any
) -> None:
    row = Workspace.objects.get(short_id=post())
    heard: list[Any] = []
    reconciler = reconcilers.reconciler_for(row.KIND)
    step = reconciler.step

    def renamed_meanwhile(held: Any, seen: Any) -> Any:
        outcome = step(held, seen)
        Workspace.objects.filter(pk=row.pk).update(name="newer", generation=row.generation + 1)
        return outcome

    monkeypatch.setattr(reconciler, "step", renamed_meanwhile)
    monkeypatch.setattr(reconcilers, "_listeners", [lambda told: heard.append(told.row.name)])
    monkeypatch.setattr(engine, "ROUNDS", 1)
    engine_pass(row.short_id)
    assert heard == ["newer"]
