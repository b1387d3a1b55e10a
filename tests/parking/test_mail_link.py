"""The link of the mail that warns: one press without a sign-in, once, for one warning."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client as Browser

from common.clock import now
from notifications.models import Mail
from notifications.services import message_of
from parking import services
from parking.models import IdlePolicy, Stretch


@pytest.fixture
def warned(holder: Any, alice: Any, policy: Any, measured: Any) -> Any:
    policy()
    row = holder(alice)
    with time_machine.travel(now() - timedelta(minutes=70), tick=False):
        measured(row, 10)
        services.enforce()
    measured(row, 75)
    assert services.enforce() == 1
    return row


def link() -> str:
    mail = message_of(Mail.objects.get(kind="work.idle-park"))
    (found,) = re.findall(r"http://[^/\s]+(/idle/keep/\S+)", str(mail.body))
    return str(found)


def test_j1b_one_press_from_the_mail_keeps_it_and_is_good_once(warned: Any) -> None:
    browser, address, due = Browser(), link(), Stretch.objects.get().due_at
    page = browser.get(address)
    assert page.status_code == 200
    assert "It will be parked in" in page.content.decode()
    assert page["Referrer-Policy"] == "no-referrer"
    assert Stretch.objects.get().due_at == due  # a mail program that looks at links changes nothing
    assert "is kept until" in browser.post(address).content.decode()
    assert Stretch.objects.get().due_at > due
    assert browser.post(address).status_code == browser.get(address).status_code == 404
    assert Stretch.objects.get().extensions == 1


def test_beyond_its_policy_it_asks_why_and_a_press_without_a_reason_says_so(warned: Any) -> None:
    Stretch.objects.update(extensions=IdlePolicy.objects.get().extensions)
    browser, address = Browser(), link()
    assert 'name="reason"' in browser.get(address).content.decode()
    refused = browser.post(address)
    assert refused.status_code == 400
    assert "Say what it is kept for." in refused.content.decode()
    assert browser.post(address, {"reason": "The night's run"}).status_code == 200


@pytest.mark.parametrize("over", ["used", "ended", "disabled", "changed"])
def test_f8_a_link_that_is_over_or_not_ours_opens_nothing(
    over: str, warned: Any, alice: Any
) -> None:
    type(warned).objects.filter(pk=warned.pk).update(name="of-nobody-else")
    address = link()
    if over == "used":
        Stretch.objects.all().delete()
    elif over == "ended":
        type(warned).objects.filter(pk=warned.pk).update(desired="stopped")
    elif over == "disabled":
        type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    else:
        address = address[:-1] + ("a" if address[-1] != "a" else "b")
    for answer in (Browser().get(address), Browser().post(address)):
        assert answer.status_code == 404
        assert "of-nobody-else" not in answer.content.decode()


def test_a_press_from_another_site_is_refused(warned: Any) -> None:
    assert Browser(enforce_csrf_checks=True).post(link()).status_code == 403
