"""What JupyterLab is told of idle work, and the press there."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from accounts.principal import Principal
from common.clock import now
from parking import services
from parking.lab import idle_notices
from parking.models import IdlePolicy, Stretch


@pytest.fixture
def idle(holder, alice, policy, measured):
    """A holder that is idle, and whose owner was told."""
    policy()
    row = holder(alice)
    with time_machine.travel(now() - timedelta(minutes=70), tick=False):
        measured(row, 10)
        services.enforce()
    measured(row, 75)
    assert idle_notices(row.uid, alice) == []  # nobody was told yet
    assert services.enforce() == 1
    return row


def test_c32_lab_counts_down_saves_before_and_one_press_puts_it_off(idle, alice):
    (told,) = idle_notices(idle.uid, alice)
    assert (told.id, told.until, told.saves) == ("idle", Stretch.objects.get().due_at, True)
    assert "It is parked then. Files and address are kept." in told.text
    (press,) = told.acts
    press.do(Principal(user=alice))
    assert Stretch.objects.get().due_at > told.until
    assert idle_notices(idle.uid, alice) == []  # it is told anew when that is near


def test_c32_beyond_its_policy_there_is_no_press_but_the_way_to_say_why(idle, alice):
    Stretch.objects.update(extensions=IdlePolicy.objects.get().extensions)
    (told,) = idle_notices(idle.uid, alice)
    assert told.acts == ()
    assert "On its page you may keep it" in told.text


def test_what_is_used_again_and_what_is_unknown_is_told_nothing(idle, alice):
    Stretch.objects.all().delete()
    assert idle_notices(idle.uid, alice) == []
    assert idle_notices(alice.uid, alice) == []
