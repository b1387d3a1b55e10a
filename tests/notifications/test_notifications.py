"""Telling people: in the page, by mail, as each of them wants."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core import mail

from common.clock import now
from notifications import selectors
from notifications import services as notifications
from notifications.kinds import text_of
from notifications.models import Announcement, Mail, Notification
from notifications.services import announcement_save, notify, preference_set

pytestmark = pytest.mark.django_db


def tell(user: Any, kind: str = "workspace.ending", key: str = "w1") -> None:
    notify(users=[user], kind=kind, params={"name": "Lab", "minutes": 15}, url="/x/", key=key)


def test_one_is_told_in_the_page_and_by_mail_as_the_kind_says(alice: Any) -> None:
    tell(alice)
    assert selectors.text_for(Notification.objects.get()).startswith("“Lab” stops in 15 minutes")
    assert notifications.send_due() == 1
    message = mail.outbox[0]
    assert message.to == ["alice@example.org"]
    assert "Lab" in message.subject
    assert "http://localhost" in message.body
    assert notifications.send_due() == 0


@pytest.mark.parametrize(
    ("language", "subject"),
    [
        ("en", "Berth: “train” gives its GPUs back: they are guaranteed to Robotics."),
        ("ja", "Berth: 「train」は GPU を返却します。"),
    ],
)
def test_the_subject_of_a_mail_is_its_first_sentence(
    alice: Any, language: str, subject: str
) -> None:
    alice.language = language
    alice.save()
    notify(users=[alice], kind="work.reclaimed", params={"name": "train", "whom": "Robotics"})
    notifications.send_due()
    assert mail.outbox[0].subject == subject
    assert "train" in mail.outbox[0].body.partition("http")[0]


def test_a_subject_without_an_end_is_cut_between_words(alice: Any) -> None:
    said = {"name": "train", "reason": "out of memory " * 30}
    preference_set(user=alice, kind="job.failed", page=True, mail=True)
    notify(users=[alice], kind="job.failed", params=said)
    notifications.send_due()
    subject = mail.outbox[0].subject
    assert len(subject) <= 150
    assert subject.endswith(("out…", "of…", "memory…"))


def test_settings_switch_page_and_mail_off_and_on(alice: Any) -> None:
    preference_set(user=alice, kind="workspace.ending", page=False, mail=False)
    tell(alice)
    assert not Notification.objects.exists()
    assert not Mail.objects.exists()
    preference_set(user=alice, kind="workspace.failed", page=True, mail=True)
    notify(users=[alice], kind="workspace.failed", params={"name": "Lab", "reason": "oom"})
    assert Mail.objects.count() == 1


def test_matters_of_security_can_not_be_switched_off(alice: Any, as_user: Any) -> None:
    response = as_user(alice).put(
        "/api/v1/me/notification-settings",
        {"account.password-changed": {"page": False, "mail": False}},
        content_type="application/json",
    )
    assert response.status_code == 400


def test_the_same_matter_goes_by_mail_once_per_window(alice: Any) -> None:
    with time_machine.travel("2026-01-01T10:05:00Z", tick=False) as clock:
        tell(alice)
        tell(alice)
        assert Mail.objects.count() == 1
        clock.shift(timedelta(hours=1))
        tell(alice)
        assert Mail.objects.count() == 2


def test_a_disabled_person_is_told_nothing(alice: Any) -> None:
    tell(alice)
    alice.is_active = False
    alice.save()
    tell(alice, key="other")
    assert Notification.objects.count() == 1
    assert notifications.send_due() == 0
    assert Mail.objects.get().state == "failed"


def test_a_mail_that_can_not_be_sent_is_tried_again_later_and_given_up_at_last(
    alice: Any, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    with time_machine.travel("2026-01-01T10:05:00Z", tick=False) as clock:
        tell(alice)
        assert notifications.send_due() == 0
        row = Mail.objects.get()
        assert (row.state, row.attempts, row.error) == ("queued", 1, "ConnectionRefusedError")
        assert row.due_at > now()
        for _ in range(notifications.MOST_ATTEMPTS):
            clock.shift(timedelta(hours=2))
            notifications.send_due()
    assert Mail.objects.get().state == "failed"


def test_a_mail_whose_sender_died_is_not_sent_again_before_its_claim_ends(alice: Any) -> None:
    tell(alice)
    Mail.objects.update(state="sending", due_at=now() + timedelta(seconds=notifications.CLAIM_S))
    assert notifications.send_due() == 0
    Mail.objects.update(due_at=now())
    assert notifications.send_due() == 1


def test_a_mail_is_written_in_the_readers_language(alice: Any) -> None:
    alice.language = "ja"
    alice.save()
    tell(alice)
    assert Mail.objects.get().language == "ja"


@pytest.mark.parametrize(
    ("files", "said"), [(1, "“x” is done: 1 file, 2 B."), (3, "“x” is done: 3 files, 2 B.")]
)
def test_a_count_is_said_in_the_right_number(files: int, said: str) -> None:
    assert text_of("load.done", {"name": "x", "files": files, "size": "2 B"}) == said


def test_an_invitations_link_is_made_only_when_the_mail_is_sent(
    project: Any, mona: Any, as_user: Any
) -> None:
    from projects.models import Invitation
    from projects.services.invitations import invitation_link

    as_user(mona).post(
        "/api/v1/projects/vision/invitations",
        {"email": "new@example.org"},
        content_type="application/json",
    )
    notifications.send_due()
    assert invitation_link(Invitation.objects.get()) in mail.outbox[0].body


def test_the_bell_the_list_and_reading(alice: Any, bob: Any, as_user: Any) -> None:
    tell(alice)
    client = as_user(alice)
    assert "“Lab” stops" in client.get("/notifications/bell").content.decode()
    assert "“Lab” stops" in client.get("/notifications/").content.decode()
    uid = Notification.objects.get().uid
    assert as_user(bob).post(f"/notifications/{uid}/open").status_code == 404
    assert selectors.unread_count(alice) == 1
    assert client.post(f"/notifications/{uid}/open")["Location"] == "/x/"
    assert selectors.unread_count(alice) == 0


def test_a_notification_never_leads_to_a_foreign_site(alice: Any, as_user: Any) -> None:
    for url in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        notify(users=[alice], kind="workspace.ending", params={}, url=url)
        uid = Notification.objects.latest("id").uid
        assert as_user(alice).post(f"/notifications/{uid}/open")["Location"] == "/notifications/"


def test_the_api_lists_and_marks_only_ones_own(alice: Any, bob: Any, as_user: Any) -> None:
    tell(alice)
    rows = as_user(alice).get("/api/v1/me/notifications?unread=true").json()["results"]
    assert len(rows) == 1
    assert as_user(bob).get("/api/v1/me/notifications").json()["results"] == []
    url = f"/api/v1/me/notifications/{rows[0]['id']}/read"
    assert as_user(bob).post(url).status_code == 404
    assert as_user(alice).post(url).json()["read_at"]


def test_settings_by_form(alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    assert client.get("/notifications/settings").status_code == 200
    client.post("/notifications/settings", {"page:workspace.ending": "on"})
    wish = next(w for w in selectors.wishes_of(alice) if w.kind.name == "workspace.ending")
    assert (wish.page, wish.mail) == (True, False)


def test_a_banner_shows_on_every_page_while_it_holds(
    operator: Any, alice: Any, as_user: Any, principal: Any
) -> None:
    selectors.forget_announcements()
    Announcement.objects.create(
        message="Power off at noon", severity="warning", starts_at=now() - timedelta(hours=1)
    )
    Announcement.objects.create(
        message="Long ago",
        starts_at=now() - timedelta(days=2),
        ends_at=now() - timedelta(days=1),
    )
    Announcement.objects.create(message="Not yet", starts_at=now() + timedelta(days=1))
    html = as_user(alice).get("/projects/").content.decode()
    assert "Power off at noon" in html
    assert "Long ago" not in html
    assert "Not yet" not in html
    selectors.forget_announcements()


def test_a_banner_that_ends_before_it_begins_is_refused(operator: Any, principal: Any) -> None:
    from common.errors import Invalid

    with pytest.raises(Invalid):
        announcement_save(
            actor=principal(operator), message="x", ends_at=now() - timedelta(hours=1)
        )


def test_a_changed_password_is_told(alice: Any, operator: Any, principal: Any) -> None:
    from accounts.services.people import password_reset_by_operator

    password_reset_by_operator(who=principal(operator), user=alice)
    assert not Notification.objects.exists()  # somebody new: this is the first one
    alice.last_login = now()
    password_reset_by_operator(who=principal(operator), user=alice)
    assert Notification.objects.get(user=alice).kind == "account.password-changed"
