"""What the run of tests spares itself leaves each test what it would have had."""

import ssl
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
