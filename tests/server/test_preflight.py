"""What is checked before a start."""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from accounts.models import User
from portal.management.commands.berth_bootstrap import first_administrator
from portal.server import preflight
from portal.server.admin import reset_password
from portal.server.paths import Refusal
from projects.models import Membership, Project


def refused(settings: Any, **values: Any) -> str:
    for name, value in values.items():
        setattr(settings, name, value)
    with pytest.raises(Refusal) as refusal:
        preflight.check_address(insecure_http=False)
    return str(refusal.value)


def test_the_default_address_is_loopback_and_needs_nothing(settings: Any) -> None:
    preflight.check_address(insecure_http=False)
    settings.BERTH_BIND = "::1"
    preflight.check_address(insecure_http=False)


def test_an_address_for_others_needs_tls_and_a_notebook_domain(settings: Any) -> None:
    said = refused(settings, BERTH_BIND="0.0.0.0")
    assert "BERTH_TLS_CERT" in said
    assert "https://" in said
    assert "BERTH_NOTEBOOK_DOMAIN" in said
    assert "--insecure-http" in said


def test_an_address_for_others_with_everything_set_is_accepted(settings: Any) -> None:
    settings.BERTH_BIND = "0.0.0.0"
    settings.BERTH_SECURE = settings.BERTH_BEHIND_TLS_PROXY = True
    settings.BERTH_NOTEBOOK_DOMAIN = "nb.example.org"
    preflight.check_address(insecure_http=False)


def test_insecure_http_must_be_said_aloud(settings: Any) -> None:
    settings.BERTH_BIND = "0.0.0.0"
    preflight.check_address(insecure_http=True)


def test_a_certificate_that_is_not_there_is_refused(settings: Any) -> None:
    settings.BERTH_TLS_CERT = "/nowhere/cert.pem"
    with pytest.raises(Refusal, match="BERTH_TLS_CERT names /nowhere/cert"):
        preflight.check_files()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMAIL_BACKEND", "django.core.mail.backends.smpt.EmailBackend"),
        ("BERTH_IN_CLUSTER_OPTIONS", {"volume_kind": "floppy"}),
        ("BERTH_IN_CLUSTER_OPTIONS", {"internett": True}),
        ("BERTH_AI_PLATFORM", {"machine": {}}),
        ("BERTH_AI_PLATFORM", {"machines": {"n1-standard-4": {"cpu": "four"}}}),
        ("BERTH_AI_PLATFORM", {"runtimes": {"2.11": "registry/tf"}}),
        ("BERTH_AI_PLATFORM", {"accelerators": ["V100"]}),
    ],
)
def test_what_settings_name_in_berth_itself_is_looked_up(
    settings: Any, name: str, value: Any
) -> None:
    setattr(settings, name, value)
    with pytest.raises(Refusal, match=f"BERTH_{name.removeprefix('BERTH_')}"):
        preflight.check_names()


@pytest.mark.parametrize("port", [0, -1, 70000])
def test_an_impossible_port_is_refused(settings: Any, port: int) -> None:
    assert "between 1 and 65535" in refused(settings, BERTH_PORT=port)


def test_two_equal_ports_are_refused(settings: Any) -> None:
    assert "a port of its own" in refused(settings, BERTH_PROXY_PORT=settings.BERTH_PORT)


@pytest.mark.django_db
def test_a_database_of_a_newer_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_VAR", str(tmp_path))
    MigrationRecorder(connection).record_applied("projects", "9999_from_the_future")
    with pytest.raises(Refusal, match=r"newer Berth .*projects\.9999_from_the_future"):
        preflight.prepare_database()


@pytest.mark.django_db
def test_migrations_of_an_app_that_was_taken_out_do_not_stop_a_start() -> None:
    MigrationRecorder(connection).record_applied("an_old_plugin", "0001_initial")
    assert preflight.unknown_migrations() == []


@pytest.mark.django_db
def test_the_first_start_makes_an_operator_with_a_project_and_the_second_nothing() -> None:
    password = first_administrator()
    admin = User.objects.get()
    assert admin.username == "admin"
    assert admin.is_operator
    assert admin.check_password(password)
    assert len(password) >= 16
    assert (
        Membership.objects.get(project=Project.objects.get(slug="demo"), user=admin).role == "owner"
    )
    assert first_administrator() == ""
    assert User.objects.count() == 1


def test_what_is_set_up_already_is_not_set_up_again() -> None:
    before = logging.root.handlers[:]
    preflight.setup()
    assert logging.root.handlers == before


@pytest.mark.django_db
def test_a_forgotten_password_is_replaced_and_printed_once(
    alice: User, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset_password("alice") == 0
    said = capsys.readouterr().out
    alice.refresh_from_db()
    assert alice.check_password(said.strip().rpartition(" ")[2])
    with pytest.raises(Refusal, match="no user 'nobody'"):
        reset_password("nobody")
