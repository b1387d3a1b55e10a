"""F5: the audit log can't be altered, its chain verifies, refusals are in it, secrets are not."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from common.clock import now
from events import guard, sealer
from events.models import Event, Seal
from events.services import record

ROOT = Path(__file__).resolve().parents[2]
NOW = timedelta(0)


def fresh(url: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.events.fresh"],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_f5_a_migrated_sqlite_database_refuses_to_change_the_log(tmp_path: Path) -> None:
    result = fresh(f"sqlite:///{tmp_path}/audit.sqlite3")
    assert result == {
        "vendor": "sqlite",
        "refused": [True] * 4,
        "events": 3,
        "seals": 1,
        "whole": True,
        "unsealed": 0,
    }


@pytest.mark.postgres
def test_f5_a_migrated_postgresql_database_refuses_to_change_the_log(fresh_postgres: str) -> None:
    result = fresh(fresh_postgres)
    assert result["refused"] == [True] * 6
    assert (result["events"], result["seals"], result["whole"]) == (3, 1, True)


@pytest.mark.django_db
def test_f5_the_guard_refuses_the_orm_too() -> None:
    record(actor=None, verb="test.done")
    guard.install(connection)
    for act in (
        lambda: Event.objects.update(verb="changed"),
        lambda: Event.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            act()
    guard.remove(connection)
    assert Event.objects.get().verb == "test.done"


def happen(count: int, verb: str = "test.done") -> list[Event]:
    return [record(actor=None, verb=verb, target_name=str(n)) for n in range(count)]


@pytest.mark.django_db
def test_f5_the_chain_grows_in_batches_and_verifies() -> None:
    happen(3)
    assert sealer.seal(settle=NOW) == 3
    assert sealer.seal(settle=NOW) == 0
    happen(2)
    assert sealer.seal(settle=NOW) == 2
    verdict = sealer.verify_chain()
    assert (verdict.is_whole, verdict.links, verdict.sealed, verdict.unsealed) == (True, 2, 5, 0)
    assert sealer.has_head(verdict.head)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "harm",
    [
        lambda e: Event.objects.filter(pk=e.pk).update(message="other"),
        lambda e: Event.objects.filter(pk=e.pk).update(data={"a": 2}),
        lambda e: Event.objects.filter(pk=e.pk).update(at=now()),
        lambda e: Event.objects.filter(pk=e.pk).delete(),
        lambda e: Seal.objects.filter(first_event_id__lte=e.pk, last_event_id__gte=e.pk).delete(),
        lambda e: Seal.objects.order_by("id").first().delete(),
    ],
)
def test_f5_every_alteration_breaks_the_chain(harm: Any) -> None:
    happen(2)
    sealer.seal(settle=NOW)
    middle = happen(3)[1]
    sealer.seal(settle=NOW)
    happen(1)
    sealer.seal(settle=NOW)
    assert sealer.verify_chain().is_whole
    harm(middle)
    assert not sealer.verify_chain().is_whole


@pytest.mark.django_db
def test_f5_cutting_the_end_is_seen_by_a_head_noted_elsewhere() -> None:
    happen(2)
    sealer.seal(settle=NOW)
    happen(2)
    sealer.seal(settle=NOW)
    head = sealer.verify_chain().head
    last = Seal.objects.order_by("-id").first()
    assert last is not None
    Event.objects.filter(pk__gte=last.first_event_id).delete()
    last.delete()
    assert sealer.verify_chain().is_whole
    assert not sealer.has_head(head)


@pytest.mark.django_db
def test_f5_a_writer_that_commits_late_is_sealed_by_a_later_link() -> None:
    hole = happen(3)[1].pk
    Event.objects.filter(pk=hole).delete()  # its number is taken, its row not to be seen yet
    sealer.seal(settle=NOW)
    assert [hole, hole] in Seal.objects.get().gaps
    Event.objects.create(pk=hole, at=now(), verb="test.late")
    assert sealer.verify_chain().unsealed == 1
    happen(1)
    sealer.seal(settle=NOW)
    verdict = sealer.verify_chain()
    assert (verdict.is_whole, verdict.unsealed) == (True, 0)
    Event.objects.filter(pk=hole).update(verb="changed")
    assert not sealer.verify_chain().is_whole


@pytest.mark.django_db
def test_f5_what_just_happened_waits_for_writers_before_it() -> None:
    with time_machine.travel(now(), tick=False):
        happen(1)
        assert sealer.seal() == 0
    Event.objects.update(at=now() - timedelta(seconds=10))
    assert sealer.seal() == 1


@pytest.mark.django_db
def test_f5_refusals_are_recorded(project: Any, bob: Any, charlie: Any, as_user: Any) -> None:
    as_user(bob).patch("/api/v1/projects/vision", {"name": "x"}, content_type="application/json")
    as_user(charlie).get("/projects/vision/")
    rows = {e.actor_name: e for e in Event.objects.filter(outcome="denied")}
    assert rows["bob"].verb == "access.forbidden"
    assert rows["charlie"].verb == "access.not-found"
    assert rows["charlie"].project_uid == project.uid
    assert rows["charlie"].data["project"] == "vision"


@pytest.mark.django_db
def test_f5_nobody_floods_the_log_by_being_refused(
    project: Any, charlie: Any, as_user: Any
) -> None:
    client = as_user(charlie)
    for _ in range(40):
        client.get("/projects/vision/")
    assert Event.objects.filter(outcome="denied").count() <= 20


@pytest.mark.django_db
def test_f5_members_see_the_projects_events_but_not_who_was_refused(
    project: Any, bob: Any, vera: Any, charlie: Any, as_user: Any
) -> None:
    as_user(charlie).get("/projects/vision/")
    record(actor=None, verb="workspace.started", project_uid=project.uid)
    record(actor=None, verb="workspace.started")
    rows = as_user(bob).get("/api/v1/projects/vision/events").json()["results"]
    assert [r["verb"] for r in rows] == ["workspace.started"]
    assert as_user(vera).get("/api/v1/projects/vision/events").status_code == 403


@pytest.mark.django_db
def test_f5_an_invitations_secret_is_in_no_event(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    from projects.models import Invitation
    from projects.services.invitations import invitation_link

    as_user(mona).post(
        "/api/v1/projects/vision/invitations",
        {"email": "x@example.org"},
        content_type="application/json",
    )
    secret = invitation_link(Invitation.objects.get()).rstrip("/").rpartition("/")[2]
    client = as_user(charlie)
    client.get(f"/invitations/{secret}x/")
    client.get(f"/invitations/{secret}/")
    client.post("/invitations/accept")
    assert Event.objects.filter(verb="invitation.accepted").exists()
    assert secret not in json.dumps(list(Event.objects.values("data", "message", "target_name")))


@pytest.mark.django_db
def test_the_command_verifies_and_exports(capsys: Any) -> None:
    happen(2, verb="=cmd|' /C calc'!A0")
    sealer.seal(settle=NOW)
    call_command("berth_audit", "verify")
    assert "1 links over 2 events" in capsys.readouterr().out
    call_command("berth_audit", "export", "--format", "csv")
    assert ",'=cmd" in capsys.readouterr().out
    Event.objects.filter(target_name="1").delete()
    with pytest.raises(SystemExit):
        call_command("berth_audit", "verify")
