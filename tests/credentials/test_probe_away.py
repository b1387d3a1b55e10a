"""“Test it” of what is away or fails: nothing is known of the credential, and none is failed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from events.models import Event
from tests.common.conftest import say
from tests.credentials.answers import BUCKETS, by_secret, error

pytestmark = pytest.mark.django_db
PROXY = b"<html><h1>Bad gateway</h1></html>"


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]


@pytest.fixture
def registry(serve: Any, keep: Any, settings: Any) -> Callable[[Any], Any]:
    """A credential of a registry on loopback that answers as told."""

    def make(answer: Any) -> Any:
        host = f"127.0.0.1:{serve(answer, host='127.0.0.1').port}"
        settings.BERTH_INSECURE_REGISTRIES = [host]
        return keep("registry", host=host)

    return make


def outcomes() -> list[str]:
    return list(Event.objects.filter(verb="credential.tested").values_list("outcome", flat=True))


# --- registries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_registry_that_fails_does_not_fail_its_credential(
    registry: Any, ask: Any, status: int
) -> None:
    ok, text = ask(registry(say(PROXY, status)))
    assert (ok, "Try again later" in text) == (None, True), text
    assert outcomes() == ["done"]


def test_a_registry_that_is_not_there_does_not_fail_its_credential(
    keep: Any, ask: Any, monkeypatch: Any
) -> None:
    def nobody(*_args: Any, **_kwargs: Any) -> Any:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    ok, text = ask(keep("registry"))
    assert (ok, "could not be asked" in text) == (None, True), text


def test_a_registry_where_berth_does_not_go_fails_as_of_every_kind(keep: Any, ask: Any) -> None:
    ok, text = ask(keep("registry", host="registry.example.com:6379"))
    assert (ok, "6379" in text) == (False, True), text


@pytest.mark.parametrize(
    ("answer", "ok", "word"),
    [
        (say(b"{}", 401, WWW_Authenticate='Basic realm="r"'), False, "does not accept"),
        (say(b"{}", 403), False, "does not accept"),
        (say(b"{}"), True, "lets everybody in"),
    ],
)
def test_a_registry_that_answers_is_believed(
    registry: Any, ask: Any, answer: Any, *, ok: bool, word: str
) -> None:
    found, text = ask(registry(answer))
    assert (found, word in text) == (ok, True), text
    assert outcomes() == ["done" if ok else "failed"]


# --- stores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 522])
def test_a_store_behind_a_proxy_that_fails_does_not_fail_its_key(
    store: Any, ask: Any, status: int
) -> None:
    ok, text = ask(store(say(PROXY, status), bucket="data"))
    assert (ok, "too busy" in text) == (None, True), text
    assert outcomes() == ["done"]


@pytest.mark.parametrize("right", [say(BUCKETS), error("AccessDenied")])
@pytest.mark.parametrize("wrong", [error("SlowDown", 503), say(PROXY, 502), say(PROXY, 429)])
def test_a_key_is_not_called_right_by_a_store_that_was_too_busy_for_the_second_question(
    store: Any, ask: Any, right: Any, wrong: Any
) -> None:
    ok, text = ask(store(by_secret(right, wrong)))
    assert (ok, "too busy" in text) == (None, True), text


def test_a_key_is_not_called_right_by_what_is_no_store_at_the_second_question(
    store: Any, ask: Any
) -> None:
    ok, text = ask(store(by_secret(say(BUCKETS), say(PROXY, 403))))
    assert (ok, "not a store" in text) == (None, True), text


def test_a_namenode_and_google_that_take_no_more_questions_fail_nothing(
    keep: Any, ask: Any, serve: Any, settings: Any
) -> None:
    address = f"127.0.0.1:{serve(say(PROXY, 429), host='127.0.0.1').port}"
    settings.BERTH_INSECURE_STORES = [address]
    settings.BERTH_GCS_TOKEN_URI = f"http://{address}/token"
    for row in (keep("hdfs", endpoint=f"http://{address}"), keep("gcs")):
        ok, text = ask(row)
        assert (ok, "too busy" in text) == (None, True), text
