"""Who asks too often, or sends too much, reads on a page of the portal when to try again."""

import logging
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh() -> Any:
    from django.core.cache import cache

    cache.clear()
    yield
    cache.clear()


@pytest.mark.parametrize(
    ("view", "limits", "language", "wait_s", "sentence"),
    [
        ("account_login", {"login": "1/m/ip"}, "en", 60, "Wait a minute, then try again."),
        (
            "account_reset_password",
            {"reset_password": "1/m/ip,1/10m/key"},
            "en",
            600,
            "Wait 10 minutes, then try again.",
        ),
        ("account_login", {"login": "1/m/ip"}, "ja", 60, "1 分待ってから"),
    ],
)
def test_who_asks_too_often_reads_when_to_try_again(
    settings: Any, view: str, limits: Any, language: str, wait_s: int, sentence: str
) -> None:
    settings.ACCOUNT_RATE_LIMITS = limits
    client = Client(headers={"accept-language": language})
    for _ in range(2):
        answer = client.post(reverse(view), {"login": "nobody", "password": "x", "email": "a@b.cc"})
    assert answer.status_code == 429
    assert answer["Retry-After"] == str(wait_s)
    page = answer.content.decode()
    assert sentence in page
    assert f'<html lang="{language}"' in page
    assert "<h1" in page


def test_a_page_that_is_refused_for_now_says_when_in_its_head(
    as_user: Any, alice: Any, monkeypatch: Any
) -> None:
    from common.streams import TooManyStreams
    from portal.views import Palette

    def refuse(*_: Any) -> None:
        raise TooManyStreams("Too many.")

    monkeypatch.setattr(Palette, "get", refuse)
    answer = as_user(alice).get(reverse("palette"))
    assert (answer.status_code, answer["Retry-After"]) == (429, "10")


def test_a_form_that_is_too_large_is_told_on_a_page(
    as_user: Any, alice: Any, settings: Any, caplog: Any
) -> None:
    caplog.set_level(logging.CRITICAL)
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2**20
    answer = as_user(alice).post(reverse("preferences"), {"theme": "x" * 2**21})
    assert answer.status_code == 413
    assert "More was sent than a form may have (1 MiB)" in answer.content.decode()
