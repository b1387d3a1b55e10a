"""The audit log through the API: operators and auditors, with filters."""

from typing import Any

import pytest

from events.services import record

pytestmark = pytest.mark.django_db


def test_auditors_read_the_whole_log_with_filters_and_others_do_not(
    project: Any, alice: Any, auditor: Any, as_user: Any, principal: Any
) -> None:
    record(actor=principal(alice), verb="workspace.launched", project_uid=project.uid)
    record(actor=None, verb="quota.changed", message="gpus: 1")
    assert as_user(alice).get("/api/v1/audit").status_code == 403
    client = as_user(auditor)

    def found(query: str) -> list[str]:
        return [e["verb"] for e in client.get(f"/api/v1/audit?{query}").json()["results"]]

    assert found("verb=workspace") == ["workspace.launched"]
    assert found("actor=alice&outcome=done") == ["workspace.launched"]
    assert found(f"project_uid={project.uid}") == ["workspace.launched"]
    assert found("search=gpus") == ["quota.changed"]
    assert found("since=2100-01-01T00:00:00Z") == []


@pytest.mark.parametrize("query", ["project_uid=1", "since=today", "until=2026-01-01T00:00:00"])
def test_a_wrong_filter_is_refused(auditor: Any, as_user: Any, query: str) -> None:
    assert as_user(auditor).get(f"/api/v1/audit?{query}").status_code == 400


def test_the_chain_is_checked_by_operators(operator: Any, auditor: Any, as_user: Any) -> None:
    assert as_user(auditor).get("/api/v1/audit/chain").status_code == 403
    assert as_user(operator).get("/api/v1/audit/chain").json()["whole"] is True


def test_every_verb_that_the_code_records_has_words() -> None:
    import re
    from pathlib import Path

    from events.verbs import WORDS

    root = Path(__file__).resolve().parents[2]
    apps = ("accounts", "projects", "quotas", "notebooks", "volumes", "console", "notifications")
    said = {
        verb
        for app in (*apps, "hubapi", "runtime", "clusters")
        for file in (root / app).rglob("*.py")
        for verb in re.findall(r'verb="([a-z-]+\.[a-z-]+)"', file.read_text())
    }
    assert said <= set(WORDS), sorted(said - set(WORDS))
