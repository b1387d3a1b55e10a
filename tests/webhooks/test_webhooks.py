"""Webhooks: what is told reaches an address, signed, once for each event, and nothing leaks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
import time_machine
from django.urls import reverse

from common.clock import now
from common.errors import BerthError, Conflict, Forbidden, Invalid
from common.outbound import Bounds
from events.models import Event
from notifications.kinds import KINDS
from notifications.models import Notification
from notifications.services import notify
from projects.models import Membership
from tests.common.conftest import Server, say, serve  # noqa: F401 - a fixture
from webhooks import sending, services
from webhooks.models import Delivery, DeliveryState, Webhook

pytestmark = pytest.mark.django_db

Serve = Callable[..., Server]
PUBLIC = "https://hooks.example.com/services/T0001/B0002/wq8rT2LzXk91"


class Receiver:
    """A server on loopback that keeps bodies; ``answer`` may be changed."""

    def __init__(self, start: Serve) -> None:
        self.answer: Any = say(b"ok")
        self.bodies: list[bytes] = []

        def handle(handler: BaseHTTPRequestHandler) -> None:
            self.bodies.append(handler.rfile.read(int(handler.headers["Content-Length"])))
            self.answer(handler)

        self.server = start(handle, host="127.0.0.1")
        self.url = f"http://127.0.0.1:{self.server.port}/in/hook-secret-part"

    def headers(self, n: int = -1) -> dict[str, str]:
        return {k.lower(): v for k, v in self.server.asked[n][2].items()}


@pytest.fixture
def receiver(serve: Serve, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Receiver:  # noqa: F811
    made = Receiver(serve)
    settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.0/8:{made.server.port}"]
    both = frozenset({"http", "https"})
    monkeypatch.setattr(sending, "BOUNDS", Bounds(30.0, 65536, 65536, 1, both))
    return made


@pytest.fixture
def hook(project: Any, alice: Any, principal: Any) -> Callable[..., tuple[Webhook, str]]:
    """Make one of the project, or (``own``) of a person; ``to`` a server of the test."""

    def make(to: Receiver | None = None, *, own: Any = None, **more: Any) -> tuple[Webhook, str]:
        said = {"name": "chat", "url": PUBLIC, **more}
        who = principal(own or alice)
        row, secret = services.webhook_make(principal=who, project=None if own else project, **said)
        if to is not None:
            row.sealed = {**row.sealed, "url": to.url}
            row.save(update_fields=["sealed"])
        return row, secret

    return make


def tell(user: Any, project: Any, kind: str = "job.failed", **more: Any) -> None:
    params = {"name": "train", "reason": "out of memory", **more}
    notify(users=[user], kind=kind, params=params, url="/x/", project_id=project.pk)


def test_an_event_arrives_once_signed_and_as_chat_programs_read_it(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    row, secret = hook(receiver)
    tell(bob, project, name="<!channel> & co")
    assert sending.deliver_due() == 1
    assert sending.deliver_due() == 0
    body, headers = receiver.bodies[0], receiver.headers()
    told = json.loads(body)
    assert told["type"] == "job.failed"
    assert told["text"].startswith("“&lt;!channel&gt; &amp; co” failed: out of memory\nhttp://")
    assert told["data"]["name"] == "<!channel> & co"
    assert told["data"]["project"] == project.slug
    assert told["data"]["url"].endswith("/x/")
    assert headers["webhook-id"] == told["id"] == str(Delivery.objects.get().event)
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    kept = row.deliveries.get()
    assert (kept.state, kept.status, kept.attempts) == (DeliveryState.DELIVERED, 200, 1)


def test_it_hears_in_its_makers_language_and_only_what_was_chosen(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    bob.language = "ja"
    bob.save()
    hook(receiver, own=bob, kinds=["job.failed"])
    tell(bob, project)
    tell(bob, project, kind="job.succeeded")
    assert sending.deliver_due() == 1
    said = json.loads(receiver.bodies[0])["data"]["message"]
    assert said != KINDS["job.failed"].text % {"name": "train", "reason": "out of memory"}
    assert "train" in said


def test_a_project_hears_of_itself_alone_and_a_person_of_what_concerns_them(
    hook: Any, alice: Any, bob: Any, project: Any
) -> None:
    of_project, _secret = hook()
    of_bob, _secret = hook(own=bob)
    of_alice, _secret = hook(own=alice)
    tell(bob, project)
    notify(users=[bob], kind="workspace.failed", params={"name": "l", "reason": "r"})
    notify(users=[bob, alice], kind="account.password-changed")
    kinds = {h: set(h.deliveries.values_list("kind", flat=True)) for h in (of_project, of_bob)}
    assert kinds[of_project] == {"job.failed"}
    assert kinds[of_bob] == {"job.failed", "workspace.failed", "account.password-changed"}
    assert set(of_alice.deliveries.values_list("kind", flat=True)) == {"account.password-changed"}


def test_one_matter_told_to_many_in_their_languages_is_one_event(
    hook: Any, alice: Any, bob: Any, project: Any
) -> None:
    from budgets.models import Budget
    from budgets.services import look

    hook()
    Membership.objects.filter(user=bob).update(role="manager")
    Budget.objects.create(project=project, hours=0, mode="hard")
    look()
    told = Notification.objects.filter(kind="budget.spent").values_list("user_id", flat=True)
    assert set(told) >= {alice.pk, bob.pk}
    assert Delivery.objects.filter(kind="budget.spent").count() == 1


def test_a_project_is_not_told_the_name_that_only_the_owner_may_read(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    hook(receiver)
    notify(
        users=[bob],
        kind="work.reclaimed",
        params={"name": "train", "whom": "Secret Lab"},
        project_id=project.pk,
        shared={"whom": "another project"},
    )
    sending.deliver_due()
    assert b"Secret Lab" not in receiver.bodies[0]
    assert "another project" in receiver.bodies[0].decode()


# --- what fails -------------------------------------------------------------------------------


def test_a_failure_is_tried_again_with_growing_pauses_then_given_up(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"no", status=503)
    tell(bob, project)
    with time_machine.travel(now(), tick=False) as clock:
        pauses = []
        for _ in range(sending.MOST_ATTEMPTS):
            assert sending.deliver_due() == 0
            one = row.deliveries.get()
            pauses.append((one.due_at - now()).total_seconds())
            assert sending.deliver_due() == 0  # not before its time
            clock.shift(timedelta(hours=1, seconds=1))
    assert len(receiver.bodies) == sending.MOST_ATTEMPTS
    assert len({receiver.headers(n)["webhook-id"] for n in range(len(receiver.bodies))}) == 1
    assert pauses[:-1] == sorted(pauses[:-1])
    assert pauses[0] >= 30
    one = row.deliveries.get()
    assert (one.state, one.status) == (DeliveryState.FAILED, 503)
    assert str(one.sentence) == "It answered with the status 503."
    row.refresh_from_db()
    assert row.enabled
    assert row.failing_since is not None


def test_who_fails_for_days_is_switched_off_and_its_people_are_told(
    receiver: Receiver, hook: Any, alice: Any, bob: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"no", status=500)
    since = now() - sending.FAILS - timedelta(hours=1)
    Webhook.objects.update(failing_since=since)
    tell(bob, project)
    tell(bob, project, kind="job.succeeded")
    Delivery.objects.update(attempts=sending.MOST_ATTEMPTS - 1)
    sending.deliver_due()
    row.refresh_from_db()
    assert not row.enabled
    assert row.given_up_at is not None
    assert not Delivery.objects.filter(state=DeliveryState.QUEUED).exists()
    told = Notification.objects.filter(kind="webhook.disabled")
    assert alice in {one.user for one in told}
    assert bob not in {one.user for one in told}
    assert Event.objects.filter(verb="webhook.disabled", project_uid=project.uid).exists()
    tell(bob, project)  # nothing waits for it any more
    assert row.deliveries.count() == 2


def test_gone_is_believed_at_once(receiver: Receiver, hook: Any, bob: Any, project: Any) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"", status=410)
    tell(bob, project)
    sending.deliver_due()
    row.refresh_from_db()
    assert not row.enabled


def test_a_success_ends_the_failing_and_what_waited_follows(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"no", status=500)
    for _ in range(3):
        tell(bob, project)
    sending.deliver_due()
    receiver.answer = say(b"ok")
    with time_machine.travel(now() + timedelta(minutes=10)):
        while sending.deliver_due():
            pass
    row.refresh_from_db()
    assert row.failing_since is None
    assert set(row.deliveries.values_list("state", flat=True)) == {DeliveryState.DELIVERED}


def test_two_workers_send_one_delivery_once(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    tell(bob, project)
    seen = row.deliveries.get()
    assert sending._claimed(row, seen) is not None
    assert sending._claimed(row, seen) is None  # who read it before
    assert sending.deliver_due() == 0


def test_one_that_is_down_does_not_hold_up_the_others(
    receiver: Receiver, hook: Any, alice: Any, bob: Any, project: Any
) -> None:
    down, _secret = hook(own=alice)
    down.sealed = {**down.sealed, "url": "https://127.0.0.1:1/x"}
    down.save(update_fields=["sealed"])
    up, _secret = hook(receiver)
    for _ in range(50):
        notify(users=[alice], kind="job.failed", params={"name": "a", "reason": "b"})
    tell(bob, project)
    assert sending.deliver_due() == 1
    assert up.deliveries.get().state == DeliveryState.DELIVERED
    assert sending.deliver_due() == 0  # the one that is down is left alone for a while
    tried = down.deliveries.filter(attempts__gt=0).count()
    assert tried == sending.OF_ONE


# --- hostile ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/x",
        "https://127.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:127.0.0.1]/x",
        "https://2130706433/x",
        "https://10.0.0.1/x",
        "https://user:pw@hooks.example.com/x",
        "https://hooks.example.com:22/x",
        "file:///etc/passwd",
        "https://hooks.example.com/" + "x" * 1000,
        "https://hooks.example.com/\r\nX: y",
    ],
)
def test_d2_an_address_that_leads_inside_is_not_taken(hook: Any, url: str) -> None:
    with pytest.raises(Invalid):
        hook(url=url)
    assert not Webhook.objects.exists()


def test_d2_a_name_that_leads_inside_is_refused_when_it_is_asked(
    receiver: Receiver, hook: Any, bob: Any, project: Any, settings: Any
) -> None:
    settings.BERTH_OUTBOUND_ALLOW = []
    row, _secret = hook(url="https://localhost/x")
    tell(bob, project)
    sending.deliver_due()
    one = row.deliveries.get()
    assert one.state == DeliveryState.QUEUED
    assert "public address" in str(one.sentence)
    assert not receiver.bodies


def test_a_redirect_is_not_followed(receiver: Receiver, hook: Any, bob: Any, project: Any) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"", status=307, Location=receiver.url + "/elsewhere")
    tell(bob, project)
    sending.deliver_due()
    assert len(receiver.bodies) == 1
    assert "follows nowhere" in str(row.deliveries.get().sentence)


def test_an_answer_of_ten_megabytes_is_not_read(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"x" * (10 << 20))
    tell(bob, project)
    sending.deliver_due()
    one = row.deliveries.get()
    assert (one.state, one.status) == (DeliveryState.QUEUED, None)
    assert "larger" in str(one.sentence)


def test_a_slow_receiver_is_left_after_seconds(
    receiver: Receiver, hook: Any, bob: Any, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sending.BOUNDS.seconds == 30.0  # of the fixture; the product's is shorter
    both = frozenset({"http", "https"})
    monkeypatch.setattr(sending, "BOUNDS", Bounds(0.5, 65536, 65536, 1, both))
    row, _secret = hook(receiver)
    receiver.answer = lambda _handler: time.sleep(3)
    tell(bob, project)
    begun = time.monotonic()
    sending.deliver_due()
    assert time.monotonic() - begun < 2.5
    assert "in time" in str(row.deliveries.get().sentence)


def test_no_secret_and_no_address_is_told_kept_or_logged(
    receiver: Receiver, hook: Any, bob: Any, alice: Any, project: Any, client: Any, capfd: Any
) -> None:
    row, secret = hook(receiver)
    receiver.answer = say(b"no", status=500)
    tell(bob, project)
    sending.deliver_due()
    client.force_login(alice)
    pages = [client.get(row.get_absolute_url()), client.get(f"/projects/{project.slug}/webhooks/")]
    api = [
        client.get(f"/api/v1/projects/{project.slug}/webhooks"),
        client.get(f"/api/v1/projects/{project.slug}/webhooks/{row.uid}"),
        client.get(f"/api/v1/projects/{project.slug}/webhooks/{row.uid}/deliveries"),
    ]
    assert [answer.status_code for answer in pages + api] == [200] * 5
    said = "".join(answer.content.decode() for answer in pages + api)
    said += repr(list(Event.objects.values())) + repr(list(Webhook.objects.values()))
    said += "".join(capfd.readouterr())
    for word in (secret, secret.removeprefix("whsec_"), "hook-secret-part", "wq8rT2LzXk91"):
        assert word not in said
    assert "https://hooks.example.com/…Xk91" in said


# --- whose it is ------------------------------------------------------------------------------


def test_members_may_not_and_strangers_find_nothing(
    hook: Any, bob: Any, charlie: Any, principal: Any, project: Any, client: Any
) -> None:
    row, _secret = hook()
    with pytest.raises(Forbidden):
        services.webhook_make(principal=principal(bob), project=project, name="a", url=PUBLIC)
    for act in (services.webhook_delete, services.secret_replace, services.webhook_test):
        with pytest.raises(BerthError):
            act(principal=principal(charlie), webhook=row)
    own, _secret = hook(own=bob)
    client.force_login(charlie)
    for url in (row.get_absolute_url(), own.get_absolute_url(), f"/api/v1/me/webhooks/{own.uid}"):
        assert client.get(url).status_code == 404
    assert Webhook.objects.count() == 2


def test_there_is_an_end_to_them_and_a_name_is_there_once(hook: Any) -> None:
    hook()
    with pytest.raises(Conflict, match="already a webhook called"):
        hook()
    for n in range(services.MOST - 1):
        hook(name=f"n{n}")
    with pytest.raises(Conflict, match="10 webhooks already"):
        hook(name="more")


def test_a_disabled_persons_webhook_is_silent(
    receiver: Receiver, hook: Any, bob: Any, project: Any
) -> None:
    hook(receiver, own=bob)
    tell(bob, project)
    bob.is_active = False
    bob.save()
    assert sending.deliver_due() == 0
    assert not receiver.bodies


def test_a_test_goes_out_before_what_waits(
    receiver: Receiver, hook: Any, alice: Any, bob: Any, principal: Any, project: Any
) -> None:
    row, _secret = hook(receiver)
    receiver.answer = say(b"no", status=500)
    for _ in range(5):
        tell(bob, project)
    sending.deliver_due()
    receiver.answer = say(b"ok")
    services.webhook_test(principal=principal(alice), webhook=row)
    with pytest.raises(Conflict):
        services.webhook_test(principal=principal(alice), webhook=row)
    receiver.bodies.clear()
    assert sending.deliver_due() == 1
    assert json.loads(receiver.bodies[0])["type"] == "webhook.test"


# --- pages and API ----------------------------------------------------------------------------


def test_the_page_makes_one_and_tells_the_secret_once(
    alice: Any, project: Any, client: Any
) -> None:
    client.force_login(alice)
    here = reverse("webhooks:list", args=[project.slug])
    assert client.post(here, {"name": "a", "url": "https://10.0.0.1/"}).status_code == 422
    said = {"name": "chat", "url": PUBLIC, "kinds": ["job.failed", "budget.spent"]}
    made = client.post(here, said)
    row = Webhook.objects.get()
    secret = row.sealed["secret"]
    assert secret in made.content.decode()
    assert made["Cache-Control"] == "no-store"
    assert secret not in client.get(row.get_absolute_url()).content.decode()
    changed = client.post(row.get_absolute_url(), {"name": "chat 2", "kinds": [], "enabled": "on"})
    assert changed.status_code == 302
    row = Webhook.objects.get()
    assert (row.name, row.kinds, row.sealed["url"]) == ("chat 2", [], PUBLIC)
    client.post(reverse("webhooks:secret", args=[project.slug, row.uid]))
    assert Webhook.objects.get().sealed["secret"] != secret
    client.post(reverse("webhooks:test", args=[project.slug, row.uid]))
    assert "tests the webhook" in client.get(row.get_absolute_url()).content.decode()
    client.post(reverse("webhooks:delete", args=[project.slug, row.uid]), {"confirm": "chat 2"})
    assert not Webhook.objects.exists()
    verbs = set(Event.objects.filter(target_kind="webhook").values_list("verb", flat=True))
    acts = ("created", "changed", "secret-replaced", "tested", "deleted")
    assert verbs == {f"webhook.{act}" for act in acts}


@pytest.mark.parametrize("own", [True, False])
def test_the_api_does_the_same(alice: Any, project: Any, client: Any, *, own: bool) -> None:
    client.force_login(alice)
    base = "/api/v1/me/webhooks" if own else f"/api/v1/projects/{project.slug}/webhooks"
    asked = {"content_type": "application/json"}
    assert client.post(base, {"name": "a", "url": "https://[::1]/"}, **asked).status_code == 400
    assert (
        client.post(base, {"name": "a", "url": PUBLIC, "kinds": ["x"]}, **asked).status_code == 400
    )
    made = client.post(base, {"name": "chat", "url": PUBLIC}, **asked).json()
    assert made["secret"].startswith("whsec_")
    one = f"{base}/{made['id']}"
    assert "secret" not in client.get(one).json()
    assert client.patch(one, {"enabled": False}, **asked).json()["enabled"] is False
    assert client.post(f"{one}/test").status_code == 409
    client.patch(one, {"enabled": True}, **asked)
    assert client.post(f"{one}/test").status_code == 202
    assert client.get(f"{one}/deliveries").json()["results"][0]["state"] == "queued"
    assert client.post(f"{one}/secret").json()["secret"] != made["secret"]
    assert client.delete(one).status_code == 204
    assert client.get(base).json()["results"] == []
