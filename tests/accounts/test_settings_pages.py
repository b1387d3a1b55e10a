"""The own pages: profile, security, sessions."""

import re

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.core import mail
from django.test import Client

from accounts import hooks, timezones
from events.models import Event

pytestmark = pytest.mark.django_db
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PAGES = [
    "/settings/profile",
    "/settings/security",
    "/settings/sessions",
    "/settings/tokens",
    "/settings/ssh-keys",
    "/settings/device",
    "/accounts/email/",
    "/accounts/password/change/",
    "/accounts/2fa/",
    "/accounts/logout/",
    "/accounts/3rdparty/",
    "/accounts/sessions/",
]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_has_one_heading_and_nothing_inline(alice, as_user, path):
    answer = as_user(alice).get(path)
    assert answer.status_code == 200
    page = answer.content.decode()
    assert len(re.findall(r"<h1[\s>]", page)) == 1
    assert not re.search(r"\sstyle=|\son[a-z]+=\"", page)
    for tag in re.findall(r"<script([^>]*)>", page):
        assert "src=" in tag or 'type="application/json"' in tag


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_closed_to_visitors(client, db, path):
    answer = client.get(path)
    assert answer.status_code == 302
    assert "/accounts/" in answer.url


def test_settings_lead_to_the_profile(alice, as_user):
    assert as_user(alice).get("/settings/").url == "/settings/profile"


def test_the_profile_is_saved_and_applied(alice, as_user):
    client = as_user(alice)
    data = {
        "display_name": "Alice <b>A</b>",
        "language": "ja",
        "timezone": "Asia/Tokyo",
        "theme": "dark",
    }
    assert client.post("/settings/profile", data).status_code == 302
    page = client.get("/settings/profile").content.decode()
    assert '<html lang="ja"' in page
    assert 'data-bs-theme="dark"' in page
    assert "<b>A</b>" not in page
    assert "&lt;b&gt;A&lt;/b&gt;" in page
    bad = client.post("/settings/profile", {**data, "timezone": "Mars"})
    assert bad.status_code == 400


def test_a_time_zone_is_found_by_a_part_of_its_name(alice, as_user):
    client = as_user(alice)
    page = client.get("/settings/profile").content.decode()
    lines = page.partition("<datalist")[2].partition("</datalist")[0]
    offered = re.findall(r'<option value="([^"]+)"[^>]*>([^<]*)<', lines)
    assert sorted(name for name, _shown in offered) == sorted(timezones.names())
    assert ("America/Argentina/Buenos_Aires", "Argentina/Buenos Aires (America)") in offered
    type(alice).objects.filter(pk=alice.pk).update(language="ja")
    assert "Tokyo (アジア)" in client.get("/settings/profile").content.decode()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Asia/Tokyo", "Asia/Tokyo"),
        ("asia/tokyo", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("Ho Chi Minh", "Asia/Ho_Chi_Minh"),
        ("", ""),
    ],
)
def test_a_city_will_do_for_its_time_zone(alice, as_user, said, kept):
    data = {"display_name": "A", "language": "", "timezone": said, "theme": "auto"}
    assert as_user(alice).post("/settings/profile", data).status_code == 302
    alice.refresh_from_db()
    assert alice.timezone == kept


def test_sessions_show_device_and_address_and_are_ended_at_once(alice, sign_in, monkeypatch):
    ended = []
    monkeypatch.setattr(hooks.sessions_ended, "_callbacks", [lambda user, keys: ended.extend(keys)])
    here, there = Client(), Client(headers={"User-Agent": FIREFOX})
    sign_in(here, "alice")
    sign_in(there, "alice", REMOTE_ADDR="192.0.2.9")
    page = here.get("/settings/sessions").content.decode()
    assert "Firefox, Linux" in page
    assert "192.0.2.9" in page
    key = there.session.session_key
    row = UserSession.objects.get(session_key=key)
    assert here.post(f"/settings/sessions/{row.pk}/end").status_code == 302
    assert there.get("/settings/profile").status_code == 302
    assert ended == [key]
    assert Event.objects.filter(verb="session.ended", actor_uid=alice.uid).exists()


def test_ending_the_own_session_signs_out(alice, sign_in):
    client = Client()
    sign_in(client, "alice")
    row = UserSession.objects.get()
    assert client.post(f"/settings/sessions/{row.pk}/end").url == "/accounts/login/"
    assert client.get("/settings/profile").status_code == 302


def test_all_other_sessions_end_and_this_one_stays(alice, sign_in):
    clients = [Client() for _n in range(3)]
    for client in clients:
        sign_in(client, "alice")
    assert clients[0].post("/settings/sessions/end-others").status_code == 302
    states = [c.get("/settings/profile").status_code for c in clients]
    assert states == [200, 302, 302]


def test_nobody_ends_the_session_of_somebody_else(alice, bob, sign_in, as_user):
    client = Client()
    sign_in(client, "alice")
    row = UserSession.objects.get()
    assert as_user(bob).post(f"/settings/sessions/{row.pk}/end").status_code == 404
    assert client.get("/settings/profile").status_code == 200


def test_when_last_seen_is_written_at_most_once_a_minute(
    alice, sign_in, django_assert_max_num_queries
):
    client = Client()
    sign_in(client, "alice")
    client.get("/api/v1/me")
    with django_assert_max_num_queries(2):  # the session and the person
        client.get("/api/v1/me")


def test_a_changed_password_ends_the_other_sessions(alice, sign_in):
    here, there = Client(), Client()
    sign_in(here, "alice")
    sign_in(there, "alice")
    data = {
        "oldpassword": "correct horse battery",
        "password1": "another good secret",
        "password2": "another good secret",
    }
    assert here.post("/accounts/password/change/", data).status_code == 302
    assert here.get("/settings/profile").status_code == 200
    assert there.get("/settings/profile").status_code == 302
    assert len(mail.outbox) == 1


def test_a_mail_server_that_is_down_does_not_stop_a_password_change(alice, sign_in, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    client = Client()
    sign_in(client, "alice")
    data = {
        "oldpassword": "correct horse battery",
        "password1": "another good secret",
        "password2": "another good secret",
    }
    assert client.post("/accounts/password/change/", data).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password("another good secret")
    lost = Client().post("/accounts/password/reset/", {"email": alice.email})
    nobody = Client().post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert lost.status_code == nobody.status_code == 503


def test_a_new_address_counts_only_after_its_mail_was_followed(alice, sign_in):
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    client = Client()
    sign_in(client, "alice")
    client.post("/accounts/email/", {"email": "new@example.org", "action_add": ""})
    alice.refresh_from_db()
    assert alice.email == "alice@example.org"
    link = next(w for w in mail.outbox[-1].body.split() if "/confirm-email/" in w)
    client.post("/" + link.split("://", 1)[1].split("/", 1)[1])
    alice.refresh_from_db()
    assert alice.email == "new@example.org"


@pytest.mark.parametrize("address", ["", "not an address", "fe80::1%eth0", "1.2.3.4, 5.6.7.8\nx"])
def test_an_odd_address_of_the_peer_breaks_nothing(alice, sign_in, address):
    client = Client()
    assert sign_in(client, "alice", REMOTE_ADDR=address).status_code == 302
    assert client.get("/settings/sessions", REMOTE_ADDR=address).status_code == 200
    assert UserSession.objects.get().ip in {"0.0.0.0", "fe80::1"}
