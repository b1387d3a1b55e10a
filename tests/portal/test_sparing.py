"""What the run of tests spares itself leaves each test what it would have had."""

import gc
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.test import TransactionTestCase

from accounts.models import User
from tests.support import sparing


@pytest.mark.django_db(transaction=True)
def test_a_database_is_emptied_of_all_but_what_follows_from_the_models(make_user: Any) -> None:
    make_user("left-behind")
    fixed = ContentType.objects.count(), Permission.objects.count()
    assert all(fixed)
    sparing.empty(TransactionTestCase())
    assert not User.objects.exists()
    assert (ContentType.objects.count(), Permission.objects.count()) == fixed


def test_clients_share_the_authorities_unless_others_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in sparing.NAMING:
        monkeypatch.delenv(name, raising=False)
    public = sparing.trusting()
    assert public is sparing.trusting() is sparing.trusting(trust_env=False)
    assert public.verify_mode == ssl.CERT_REQUIRED
    assert public.get_ca_certs()
    own = httpx.create_ssl_context()
    assert sparing.trusting(own) is own
    assert sparing.trusting(verify=False).verify_mode == ssl.CERT_NONE
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    assert not sparing.trusting().get_ca_certs()
    assert sparing.trusting(trust_env=False) is public


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ("pytestmark = pytest.mark.slow\n", {"slow"}),
        ("pytestmark = [pytest.mark.django_db, pytest.mark.real]\n", {"django_db", "real"}),
        (
            "import x\n\npytestmark = [\n    pytest.mark.cluster,\n    mark.root,\n]\n",
            {"cluster", "root"},
        ),
        (
            "pytestmark = pytest.mark.django_db\n\n\n@pytest.mark.slow\ndef test_one(): ...\n",
            {"django_db"},
        ),
        ("class TestIt:\n    pytestmark = pytest.mark.slow\n", set()),
        ('pytestmark = mark.parametrize("n", [1, param(2, marks=mark.slow)])\n', set()),
    ],
)
def test_the_marks_of_all_tests_of_a_file_are_read_from_its_text(
    source: str, marks: set[str]
) -> None:
    assert sparing.marks_of_all(source) == marks


@pytest.mark.parametrize(
    ("expression", "is_left_out"),
    [
        ("not real and not slow", True),
        ("not slow", True),
        ("not real", False),
        ("slow", False),
        ("not slow or real", False),
        ("", False),
    ],
)
def test_only_a_file_of_which_no_test_would_run_is_left_unread(
    expression: str, is_left_out: bool, tmp_path: Path
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("pytestmark = [mark.django_db, mark.slow]\n")
    config = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    assert bool(sparing.pytest_ignore_collect(file, config)) is is_left_out


@pytest.mark.parametrize("was_on", [True, False])
def test_no_garbage_is_looked_for_while_tests_are_collected_also_when_that_fails(
    was_on: bool,
) -> None:
    before = gc.isenabled()
    try:
        for fails in (False, True):
            (gc.enable if was_on else gc.disable)()
            collecting = sparing.pytest_collection()
            next(collecting)
            assert not gc.isenabled()
            with pytest.raises(KeyError if fails else StopIteration):
                collecting.throw(KeyError) if fails else collecting.send(None)
            assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
