"""Who is told that a secret runs out, and how often."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from credentials.models import Credential

pytestmark = pytest.mark.django_db


def test_an_expiry_is_told_once_when_near_and_once_when_over(
    project: Any, keep: Any, alice: Any, mona: Any, bob: Any
) -> None:
    from credentials.rules import tell_due
    from notifications.models import Notification

    row, own = keep("s3"), keep("git", own=bob)
    assert tell_due() == 0
    Credential.objects.update(expires_at=now() + timedelta(days=3))
    assert tell_due() == 2
    assert tell_due() == 0
    told_to = Notification.objects.filter(kind="credential.expiring")
    assert {(n.user.username, n.url) for n in told_to} == {
        ("alice", row.get_absolute_url()),
        ("mona", row.get_absolute_url()),
        ("bob", own.get_absolute_url()),
    }
    Credential.objects.update(expires_at=now() - timedelta(days=1))
    assert (tell_due(), tell_due()) == (2, 0)
    assert Notification.objects.filter(kind="credential.expired").count() == 3


def test_an_expiry_of_what_one_person_may_use_is_told_to_that_person(
    project: Any, keep: Any, alice: Any, mona: Any
) -> None:
    """Nobody else may replace it, and his work stops also when he manages nothing any more."""
    from credentials.rules import tell_due
    from notifications.models import Notification
    from projects.models import Membership

    keep("s3", usable_by="owner")
    Credential.objects.update(owner=mona, expires_at=now() + timedelta(days=3))
    Membership.objects.filter(project=project, user=mona).update(role="member")
    assert tell_due() == 1
    assert [n.user for n in Notification.objects.filter(kind="credential.expiring")] == [mona]


def test_a_rotation_begins_the_warnings_anew(
    project: Any, keep: Any, alice: Any, principal: Any
) -> None:
    from credentials.rules import tell_due
    from credentials.services import credential_rotate

    row = keep("git")
    Credential.objects.update(expires_at=now() + timedelta(days=3))
    assert tell_due() == 1
    soon = now() + timedelta(days=5)
    fields = {"token": "another"}
    credential_rotate(principal=principal(alice), credential=row, fields=fields, expires_at=soon)
    assert tell_due() == 1
