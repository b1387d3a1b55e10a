"""Operators' pages say words, not the names that programs use."""

from typing import Any

import pytest
from django.urls import reverse
from django.utils.translation import override

from clusters import wording
from clusters.models import Cluster
from clusters.services.base import KINDS_OF_WORK
from common.clock import now
from console import words
from events.services import record
from notifications.kinds import text_of
from portal.server.duties import Worker
from runtime.drivers.kubernetes.answers import Answer, error_of
from runtime.reconcilers import registered

pytestmark = pytest.mark.django_db


def test_every_kind_of_work_and_object_has_words() -> None:
    assert set(KINDS_OF_WORK) <= set(wording.WORK)
    assert {kind for kind in registered() if kind != "thing"} <= set(wording.OBJECTS)


def test_every_duty_of_a_worker_has_words() -> None:
    loops = {loop.name for loop in Worker().loops}
    assert {
        f"duty:{name}" for name in loops if words.duty_words(f"duty:{name}") == f"duty:{name}"
    } == {
        "duty:garbage",  # none of these is leased, so they are not on the page
        "duty:disk-reserve",
        "duty:gate-wanted",
        "duty:watches",
    }
    with override("en"):
        assert words.duty_words("watch:east") == "Watches east"
        assert words.duty_words("worker:4f2a:1:2") == "A worker"
        assert words.duty_words("duty:of-tomorrow") == "duty:of-tomorrow"


def test_what_a_driver_wrote_down_is_said_in_the_readers_language(
    as_user: Any, operator: Any
) -> None:
    Cluster.objects.create(
        key="west",
        name="West",
        driver="kubernetes",
        message=str(error_of(Answer("GET", 401, b""))),
        checked_at=now(),
    )
    client = as_user(operator)
    for page in (reverse("console:clusters"), reverse("console:machines")):
        japanese = client.get(page, headers={"accept-language": "ja"}).content.decode()
        assert "クラスターが Berth の資格情報を受け付けません。" in japanese
        assert "does not accept" not in japanese


def test_a_sentence_that_nobody_knows_is_shown_as_it_is() -> None:
    assert words.answer_words("disk on fire") == "disk on fire"
    with override("en"):
        said = words.answer_words("The cluster does not answer (connection refused).")
    assert said == "The cluster does not answer (connection refused)."


def test_drivers_are_named_for_people(as_user: Any, operator: Any) -> None:
    Cluster.objects.update_or_create(key="local", defaults={"driver": "fake", "name": "here"})
    html = as_user(operator).get(reverse("console:machines")).content.decode()
    assert "demonstration, nothing really runs" in html


def test_the_audit_log_says_what_a_verb_means_and_finds_it_by_words(
    as_user: Any, operator: Any, alice: Any
) -> None:
    record(actor=None, verb="workspace.shared", target_name="Lab one")
    record(actor=None, verb="volume.purged", target_name="Old data")
    client = as_user(operator)
    html = client.get(reverse("console:audit"), {"verb": "shared the work"}).content.decode()
    assert "Lab one" in html
    assert "shared the workspace" in html
    assert "Old data" not in html
    assert html.count(">From") == 1


def test_filters_by_time_say_their_zone(as_user: Any, operator: Any) -> None:
    operator.timezone = "Asia/Tokyo"
    operator.save(update_fields=["timezone"])
    html = as_user(operator).get(reverse("console:audit")).content.decode()
    assert "From (Asia/Tokyo)" in html
    page = as_user(operator).get(reverse("console:announcement-create")).content.decode()
    assert "Until (Asia/Tokyo)" in page


def test_a_role_in_a_notification_is_a_word() -> None:
    params = {"who": "Mona", "role": "member", "name": "Vision"}
    with override("en"):
        assert text_of("project.added", params) == (
            "Mona gave you the role “Member” in the project “Vision”."
        )
    with override("ja"):
        assert "メンバー" in text_of("project.added", params)
