"""A workspace that computes in bursts is told once that it would run as well as a job."""

from __future__ import annotations

import pytest

from notifications.models import Notification
from parking.services import hints_tell


@pytest.mark.parametrize(
    ("percents", "is_told"),
    [
        ([90, 0, 0, 80, 0, 0, 0, 70], True),
        ([90, 80, 70, 60, 0, 0, 0, 70], False),  # it computes most of the time
        ([0] * 12, False),  # nothing runs in it: that is for the patrol
        ([90, 0, 0, 80], False),  # too little is known
        ([20, 0, 0, 30, 0, 0, 0, 20], False),  # somebody tries things out
    ],
)
def test_bursts_with_rests_between_are_told_once(holder, alice, hours, percents, is_told):
    row = holder(alice)
    hours(row, *percents)
    assert hints_tell() == is_told
    assert hints_tell() == 0
    told = Notification.objects.filter(kind="work.as-job", user=alice)
    assert [one.url for one in told] == [row.get_absolute_url()] * is_told
