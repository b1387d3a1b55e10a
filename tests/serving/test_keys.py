"""Keys of endpoints: shown once, kept as a digest, void at once."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import pytest

from common.clock import now
from tests.serving.conftest import ENDPOINTS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


@pytest.fixture
def keys(serve) -> str:
    return f"{ENDPOINTS}/{serve().short_id}/keys"


def test_a_key_is_shown_once_and_kept_as_its_digest(api, keys, alice) -> None:
    from serving.models import EndpointKey

    said = {"name": "the shop", "requests_per_second": 20, "concurrent": 4}
    made = api(alice, "POST", keys, said)
    assert made.status_code == 201
    secret = made.json()["key"]
    assert (secret[:4], len(secret)) == ("bep_", 36)
    assert made["Cache-Control"] == "no-store"
    row = EndpointKey.objects.get()
    assert row.digest == sha256(secret.encode()).hexdigest()
    assert secret.startswith(row.prefix)
    (told,) = api(alice, "GET", keys).json()["results"]
    assert (told["name"], told["prefix"], told["concurrent"]) == ("the shop", secret[:10], 4)
    assert secret not in str(api(alice, "GET", keys).content)


def test_a_repeated_request_makes_another_key_and_keeps_no_secret(api, keys, alice) -> None:
    """The answer holds a secret, so it is not kept for an Idempotency-Key: twice is refused."""
    headers = {"HTTP_IDEMPOTENCY_KEY": "once"}
    first = api(alice, "POST", keys, {"name": "shop"}, **headers)
    again = api(alice, "POST", keys, {"name": "shop"}, **headers)
    assert (first.status_code, again.status_code) == (201, 400)
    assert "key" not in again.json()


def test_a_revoked_key_stays_in_the_list_and_frees_its_name(api, keys, alice) -> None:
    made = api(alice, "POST", keys, {"name": "shop"}).json()
    for _twice in range(2):
        assert api(alice, "DELETE", f"{keys}/{made['id']}").status_code == 204
    assert api(alice, "GET", keys).json()["results"][0]["revoked_at"]
    assert api(alice, "POST", keys, {"name": "shop"}).status_code == 201


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"name": "old", "expires_at": (now() - timedelta(minutes=1)).isoformat()}, "expires_at"),
        ({"name": "minus", "concurrent": -1}, "concurrent"),
        ({"name": "huge", "requests_per_day": 10**10}, "requests_per_day"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_by_its_field(api, keys, alice, said, field) -> None:
    answer = api(alice, "POST", keys, said)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_keys_are_for_who_may_change_the_endpoint(api, keys, alice, bob, vera, mona) -> None:
    made = api(alice, "POST", keys, {"name": "shop"}).json()
    assert api(mona, "GET", keys).status_code == 200  # manages endpoints
    for other in (bob, vera):
        assert api(other, "GET", keys).status_code == 403
        assert api(other, "POST", keys, {"name": "mine"}).status_code == 403
        assert api(other, "DELETE", f"{keys}/{made['id']}").status_code == 403


def test_a_key_of_another_endpoint_is_none(api, keys, serve, alice) -> None:
    made = api(alice, "POST", keys, {"name": "shop"}).json()
    other = serve(name="letters")
    answer = api(alice, "DELETE", f"{ENDPOINTS}/{other.short_id}/keys/{made['id']}")
    assert answer.status_code == 404


def test_gateways_hear_of_each_key_once_it_is_written(
    api, keys, alice, monkeypatch, django_capture_on_commit_callbacks
) -> None:
    from runtime import bus
    from serving.models import Endpoint

    heard: list[str] = []
    sent = lambda topics, told: heard.append(told["uid"]) if topics == ["gateways"] else None  # noqa: E731
    monkeypatch.setattr(bus, "_send", sent)
    with django_capture_on_commit_callbacks(execute=True):
        made = api(alice, "POST", keys, {"name": "shop"}).json()
    with django_capture_on_commit_callbacks(execute=True):
        api(alice, "DELETE", f"{keys}/{made['id']}")
    assert heard == [str(Endpoint.objects.get().uid)] * 2


def test_the_audit_tells_of_keys_without_their_secrets(api, keys, alice) -> None:
    from events.models import Event

    made = api(alice, "POST", keys, {"name": "shop"}).json()
    api(alice, "DELETE", f"{keys}/{made['id']}")
    told = Event.objects.filter(verb__startswith="endpoint.key").order_by("id")
    assert [one.verb for one in told] == ["endpoint.key-made", "endpoint.key-revoked"]
    assert all(made["key"] not in str(one.data) for one in told)
