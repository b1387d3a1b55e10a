"""The digest of a week is told once, to those who want it, in their language."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import time_machine

from notifications.models import Mail, Notification
from notifications.selectors import text_for
from notifications.services import message_of, preference_set
from usage.digest import tell_week
from usage.models import Digest, Grain, LedgerDay, LedgerProgress

pytestmark = pytest.mark.django_db
MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
HOUR_S = 3600


@pytest.fixture
def week(project: Any) -> None:
    """Ten GPUs: six held, at 30 percent of what is known, four of them idle; two wait."""
    LedgerProgress.objects.create(until=MONDAY)
    of_work = {
        "waiting": 2 * 24 * HOUR_S,
        "attached": 6 * 24 * HOUR_S,
        "measured": 4 * 24 * HOUR_S,
        "utilised": 1.2 * 24 * HOUR_S,
        "idle": 4 * 24 * HOUR_S,
    }
    whose = {"project_uid": project.uid, "project_slug": project.slug}
    for n in range(-1, 8):  # the days before and after are not the week's
        day = date(2026, 11, 2) + timedelta(days=n)
        LedgerDay.objects.create(day=day, grain=Grain.PROJECT, **whose, **of_work)
        LedgerDay.objects.create(day=day, grain=Grain.ALL, supply=10 * 24 * HOUR_S, **of_work)


def tell(at: datetime) -> int:
    with time_machine.travel(at, tick=False):
        return tell_week()


def test_each_is_told_once_in_their_language_whatever_is_repeated(
    week: None, alice: Any, bob: Any, mona: Any, operator: Any, project: Any
) -> None:
    mona.language = "ja"
    mona.save()
    assert tell(MONDAY + timedelta(minutes=20)) == 2
    assert tell(MONDAY + timedelta(minutes=30)) == 0
    told = {row.user.username: row for row in Notification.objects.all()}
    assert set(told) == {"alice", "mona", "olga"}  # owner, manager, operator; no other member
    assert text_for(told["alice"]) == (
        f"“{project.name}” last week: 1,008 GPU-hours attached, 30 % utilised, 672 GPU-hours held"
        " idle. Lost most: Held idle, 672 GPU-hours."
    )
    assert text_for(told["olga"]).startswith(
        "Last week: 80 % of all GPUs requested, 60 % attached, 30 % utilised; 672 GPU-hours held"
    )
    assert "最も多い" in told["mona"].params["most"]
    assert told["alice"].url == "/projects/vision/usage"
    assert not Mail.objects.exists()


def test_by_mail_to_whoever_wants_it(week: None, alice: Any, mona: Any) -> None:
    preference_set(user=alice, kind="usage.week", page=False, mail=True)
    tell(MONDAY + timedelta(hours=1))
    (mail,) = Mail.objects.all()
    assert mail.user == alice
    assert "1,008 GPU-hours attached" in message_of(mail).body
    assert not Notification.objects.filter(user=alice).exists()


def test_one_that_was_killed_half_way_tells_the_rest(
    week: None, alice: Any, operator: Any, project: Any
) -> None:
    Digest.objects.create(week=date(2026, 11, 2), about=str(project.uid))
    assert tell(MONDAY + timedelta(hours=1)) == 1
    assert [row.kind for row in Notification.objects.all()] == ["usage.week-of-all"]


def test_nothing_is_told_before_all_is_closed_nor_when_it_is_old(week: None, alice: Any) -> None:
    assert tell(MONDAY + timedelta(days=4)) == 0
    LedgerProgress.objects.update(until=MONDAY - timedelta(hours=1))
    assert tell(MONDAY + timedelta(minutes=5)) == 0
    LedgerProgress.objects.update(until=MONDAY)
    assert tell(MONDAY + timedelta(days=2)) == 2


def test_a_quiet_week_is_not_told_of(project: Any, alice: Any, operator: Any) -> None:
    LedgerProgress.objects.create(until=MONDAY)
    assert tell(MONDAY + timedelta(hours=1)) == 0
