"""What Berth itself wrote once is read in the language of whoever looks."""

from typing import Any

import pytest
from django.utils.translation import override

from clusters.installed import ensure_local_cluster
from events.models import Event
from notifications.models import Notification
from projects.choices import Role
from projects.models import Membership
from projects.services.members import member_set_role
from quotas.services import limits_set
from tools import messages

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _compiled() -> None:
    messages.compile_all()


def test_this_machine_is_a_word_and_another_clusters_name_is_not(operator: Any) -> None:
    row = ensure_local_cluster()
    other = type(row)(key="other", name="This machine")
    with override("ja"):
        assert (row.label, other.label) == ("このマシン", "This machine")
    row.name = "ws-1"
    with override("ja"):
        assert row.label == "ws-1"


def test_roles_and_limits_in_the_activity_and_in_notices_are_words(
    as_user: Any, alice: Any, bob: Any, operator: Any, project: Any, principal: Any
) -> None:
    bob.language = alice.language = "ja"
    bob.save()
    alice.save()
    Membership.objects.get_or_create(project=project, user=bob, defaults={"role": "member"})
    member_set_role(principal=principal(alice), project=project, user=bob, role=Role.MANAGER)
    limits_set(
        principal=principal(operator), project=project, user=None, limits={"memory_mib": 4096}
    )
    assert Event.objects.get(verb="member.role-changed").message == "member → manager"
    client = as_user(alice)
    client.cookies["berth_language"] = "ja"
    page = client.get("/projects/vision/activity").content.decode()
    assert "メンバー → マネージャー" in page
    assert "メモリ: - → 4\N{NO-BREAK SPACE}GiB" in page
    told = Notification.objects.get(user=bob, kind="project.added")
    assert told.params["role"] == "マネージャー"
