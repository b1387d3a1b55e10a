"""Production settings: clean, complete or refused; a rotated key signs nobody out (F7)."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from tests.support.portal import ROOT

GOOD = {
    "BERTH_SECRET_KEY": "k" * 20 + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
    "BERTH_PUBLIC_URL": "https://berth.example.org",
    "BERTH_ALLOWED_HOSTS": "berth.example.org",
}


def check(tmp_path: Any, **values: str) -> "subprocess.CompletedProcess[str]":
    names = ("BERTH_", "DJANGO_")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    command = ["manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(
        [sys.executable, *command, "--settings", "portal.settings.prod"],
        cwd=ROOT,
        env={**plain, "BERTH_VAR": str(tmp_path), **values},
        capture_output=True,
        text=True,
        check=False,
    )


def test_f7_production_settings_pass_djangos_deployment_check(tmp_path: Any) -> None:
    done = check(tmp_path, **GOOD)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("BERTH_SECRET_KEY", "", "BERTH_SECRET_KEY (or BERTH_SECRET_KEY_FILE) must be set"),
        ("BERTH_PUBLIC_URL", "http://berth.example.org", "must start with https://"),
        ("BERTH_PORT", "many", "must be a whole number"),
    ],
)
def test_f7_half_configured_production_does_not_start(
    tmp_path: Any, name: str, value: str, sentence: str
) -> None:
    done = check(tmp_path, **{**GOOD, name: value})
    assert done.returncode != 0
    assert sentence in done.stderr


def test_f7_a_session_survives_a_rotated_secret_key(alice: Any, settings: Any) -> None:
    browser = Client()
    browser.force_login(alice)
    old = settings.SECRET_KEY
    settings.SECRET_KEY = "another-key-that-is-as-long-as-the-first-one-was"
    settings.SECRET_KEY_FALLBACKS = [old]
    assert browser.get("/").status_code == 200


def test_f7_a_session_ends_with_the_last_key_that_signed_it(alice: Any, settings: Any) -> None:
    browser = Client()
    browser.force_login(alice)
    settings.SECRET_KEY = "another-key-that-is-as-long-as-the-first-one-was"
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.get("/").status_code == 302
