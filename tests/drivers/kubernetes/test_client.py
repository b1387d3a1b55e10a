"""E7: an API server that is away, slow, busy or forgetful costs time and nothing else."""

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from runtime.drivers.kubernetes import client as module
from runtime.drivers.kubernetes.client import KubeClient, Patience
from runtime.protocol import Denied, InvalidSpec, NotYet, Unreachable
from runtime.reasons import Reason
from tests.drivers.kubernetes.stub import ALLOW, QUICK, Stub, certificate

SECRETS = "/api/v1/secrets"


@pytest.fixture
def client(stub) -> Iterator[KubeClient]:
    made = stub.client()
    yield made
    made.close()


def secret(name: str = "a") -> dict:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}}


def times(count: int, act):
    left = [count]

    def fault(handler, method, path, query) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        act(handler)
        return True

    return fault


def test_the_verbs(stub, client):
    assert client.get("v1", "secrets", "a", "ns") is None
    assert client.apply(secret())["metadata"]["uid"]
    assert client.get("v1", "secrets", "a", "ns")["kind"] == "Secret"
    assert [o["metadata"]["name"] for o in client.list("v1", "secrets", "ns")] == ["a"]
    assert client.patch("v1", "secrets", "a", "ns", {"data": {"k": "v"}})["data"] == {"k": "v"}
    assert client.patch("v1", "secrets", "b", "ns", {}) is None
    assert client.delete("v1", "secrets", "a", "ns") is True
    assert client.delete("v1", "secrets", "a", "ns") is False


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_e7_a_busy_server_is_asked_again(stub, client, status):
    stub.fault = times(2, lambda h: h.refuse(status))
    assert client.apply(secret())["metadata"]["name"] == "a"
    assert len(stub.seen) == 3


def test_e7_what_it_asks_to_wait_is_waited(stub, client):
    stub.fault = times(1, lambda h: h.refuse(429, Retry_After="1"))
    begun = time.monotonic()
    client.apply(secret())
    assert time.monotonic() - begun >= 1


def test_e7_a_wait_that_is_too_long_is_the_engines(stub, client, monkeypatch):
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(module, "time", clock)
    stub.fault = times(9, lambda h: h.refuse(429, Retry_After="3600"))
    with pytest.raises(Unreachable):
        client.apply(secret())
    assert slept == []
    assert len(stub.seen) == 1


def test_e7_a_server_that_stays_broken_is_unreachable(stub, client):
    stub.fault = times(99, lambda h: h.refuse(500, "etcd"))
    with pytest.raises(Unreachable, match="etcd"):
        client.get("v1", "secrets", "a", "ns")
    assert len(stub.seen) == QUICK.attempts


def test_e7_made_although_the_answer_was_lost_is_success_and_one_object(stub, client):
    def lose(handler):
        stub.put(SECRETS, {**secret(), "metadata": dict(secret()["metadata"])})
        handler.close_connection = True
        handler.connection.close()

    stub.fault = times(1, lose)
    client.apply(secret())
    assert len(stub.objects) == 1


def test_e7_a_server_that_does_not_answer_in_time_is_unreachable_and_bounded(stub):
    client = stub.client(Patience(connect=1, read=0.2, total=1.0, attempts=3, pause=0.01))
    stub.fault = times(99, lambda _h: time.sleep(3))

    def given_up_within() -> float:
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            client.get("v1", "secrets", "a", "ns")
        return time.monotonic() - begun

    assert any(given_up_within() < 1.5 for _ in range(3))  # the machine may be busy
    client.close()


def test_e7_a_server_that_is_away_comes_back(stub, client):
    client.apply(secret())
    stub.stop()
    with pytest.raises(Unreachable):
        client.get("v1", "secrets", "a", "ns")
    stub.start()
    assert client.get("v1", "secrets", "a", "ns") is not None


def test_another_authority_is_not_believed(stub, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    stranger = Stub(other)
    client = KubeClient(stub.access(ca_pem=stranger.ca), check=ALLOW, patience=QUICK)
    with pytest.raises(Unreachable):
        client.get("v1", "secrets", "a", "ns")
    client.close()
    stranger.stop()


def test_a_certificate_speaks_for_itself_and_no_token_is_sent(stub, tmp_path):
    _pem, pair = certificate(tmp_path)
    cert, key = pair.read_text().split("-----BEGIN PRIVATE KEY-----")
    access = stub.access(
        token="", client_cert_pem=cert, client_key_pem="-----BEGIN PRIVATE KEY-----" + key
    )
    sent: list[str | None] = []

    def fault(handler, *_asked) -> bool:
        sent.append(handler.headers["Authorization"])
        handler.say(200, secret())
        return True

    stub.fault = fault
    client = KubeClient(access, check=ALLOW, patience=QUICK)
    client.apply(secret())
    assert client.get("v1", "secrets", "a", "ns") == secret()
    assert sent == [None, None]
    client.close()


def test_the_name_that_is_proved_may_be_another_than_the_one_that_is_resolved(stub):
    by_name = f"https://localhost:{stub.port}"
    client = KubeClient(stub.access(server=by_name), check=ALLOW, patience=QUICK)
    with pytest.raises(Unreachable):
        client.get("v1", "secrets", "a", "ns")
    client.close()
    access = stub.access(server=by_name, tls_server_name="127.0.0.1")
    client = KubeClient(access, check=ALLOW, patience=QUICK)
    assert client.get("v1", "secrets", "a", "ns") is None
    client.close()


@pytest.fixture
def two_addresses(monkeypatch) -> None:
    """Nobody listens at the first one."""
    known = socket.getaddrinfo

    def told(host, *rest, **more):
        first = known("127.0.0.2", *rest, **more) if host == "127.0.0.1" else []
        return [*first, *known(host, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", told)


@pytest.mark.usefixtures("two_addresses")
def test_another_address_of_the_same_name_may_answer(stub, client):
    assert client.get("v1", "secrets", "a", "ns") is None


@pytest.mark.usefixtures("two_addresses")
def test_c2_each_address_of_a_name_is_checked_before_it_is_connected_to(stub):
    looked: list[str] = []

    def check(address: str) -> None:
        looked.append(address)
        if address == "127.0.0.1":
            raise Unreachable("not allowed")

    client = KubeClient(stub.access(), check=check, patience=QUICK)
    with pytest.raises(Unreachable, match="not allowed"):
        client.get("v1", "secrets", "a", "ns")
    assert (looked, stub.seen) == (["127.0.0.2", "127.0.0.1"], [])
    client.close()


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_does_not_lead_out_of_its_collection(stub, client, name):
    assert client.delete("v1", "secrets", name, "ns") is False
    assert client.read(f"/api/v1/namespaces/ns/secrets/{name}/log").status == 404
    within = f"/api/v1/namespaces/ns/secrets/{name.replace('.', '%2E')}"
    assert [path for _method, path, _query in stub.seen] == [within, f"{within}/log"]


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """Where a redirect leads: it listens, and who is connected to it waits in its line."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


def was_asked(listener: socket.socket) -> bool:
    """Whether anybody connected; the client has given up by then, so nobody comes later."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def watched(client: KubeClient) -> None:
    with client.stream(SECRETS, {"watch": "1"}, silence_s=5) as answer:
        assert answer.status in REDIRECTS


def test_c2_a_proxy_of_the_machine_is_not_used(stub, elsewhere, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{elsewhere.getsockname()[1]}")
    client = stub.client()
    assert client.get("v1", "secrets", "a", "ns") is None
    assert not was_asked(elsewhere)
    client.close()


REDIRECTS = (301, 302, 303, 307, 308)
ASKED = {
    "read": lambda client: client.get("v1", "secrets", "a", "ns"),
    "written": lambda client: client.apply(secret()),
    "asked once": lambda client: client.read_once("/metrics", {}),
    "watched": watched,
}


@pytest.mark.parametrize("how", ASKED)
def test_c2_a_redirect_is_not_followed(stub, client, elsewhere, how):
    """Not even where its address would be allowed: it is never connected to."""
    client.patience = Patience(connect=1, read=1, total=2, attempts=2, pause=0.01)
    ways = list(itertools.product(REDIRECTS, ("http", "https")))
    for status, scheme in ways:
        there = f"{scheme}://127.0.0.1:{elsewhere.getsockname()[1]}/"
        stub.fault = times(1, lambda h, s=status, t=there: h.say(s, {}, Location=t))
        with contextlib.suppress(Unreachable):  # a stream, and what is asked once, show the answer
            ASKED[how](client)
        assert not was_asked(elsewhere), (status, scheme)
    assert len(stub.seen) == len(ways)


def test_c2_a_redirect_on_the_same_server_is_not_followed_either(stub, client):
    stub.put(SECRETS, secret("b"))
    there = "/api/v1/namespaces/ns/secrets/b"
    stub.fault = times(1, lambda h: h.say(307, {}, Location=there))
    with pytest.raises(Unreachable, match="307"):
        client.get("v1", "secrets", "a", "ns")
    assert [path for _method, path, _query in stub.seen] == ["/api/v1/namespaces/ns/secrets/a"]


def test_a_mounted_token_that_rotated_is_read_again(stub, tmp_path):
    file = tmp_path / "token"
    file.write_text("good\n")
    access = stub.access(token="", token_file=str(file))
    client = KubeClient(access, check=ALLOW, patience=QUICK)
    client.apply(secret())
    stub.token = "better"
    file.write_text("better\n")
    assert client.get("v1", "secrets", "a", "ns") is not None
    client.close()


def test_a_refused_credential_is_said_and_not_tried_for_ever(stub, client):
    stub.token = "other"
    with pytest.raises(Unreachable, match="credential"):
        client.get("v1", "secrets", "a", "ns")
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    ("status", "message", "error", "reason"),
    [
        (403, 'secrets "a" is forbidden: exceeded quota: berth', Denied, Reason.QUOTA_DENIED),
        (403, "User cannot patch secrets", Denied, Reason.DENIED),
        (403, "unable to create: namespace ns is being terminated", NotYet, ""),
        (403, 'pod violates PodSecurity "restricted:latest"', InvalidSpec, Reason.INVALID_SPEC),
        (404, 'namespaces "ns" not found', NotYet, ""),
        (409, "the object has been modified", NotYet, ""),
        (422, "spec.replicas: Invalid value", InvalidSpec, Reason.INVALID_SPEC),
        (413, "too large", InvalidSpec, Reason.INVALID_SPEC),
        (400, "bad", InvalidSpec, Reason.INVALID_SPEC),
    ],
)
def test_each_refusal_is_the_right_error(stub, client, status, message, error, reason):
    stub.fault = times(9, lambda h: h.refuse(status, message))
    with pytest.raises(error) as caught:
        client.apply(secret())
    assert getattr(caught.value, "reason", "") == reason
    assert len(stub.seen) == 1


def test_e7_a_server_that_was_silent_is_asked_once_by_each_until_it_answers(stub, client):
    stub.fault = times(QUICK.attempts + 2, lambda h: h.refuse(503))
    for asked in (QUICK.attempts, 1, 1):
        stub.seen.clear()
        with pytest.raises(Unreachable):
            client.get("v1", "secrets", "a", "ns")
        assert len(stub.seen) == asked
    assert client.is_silent
    assert client.get("v1", "secrets", "a", "ns") is None
    assert not client.is_silent
    stub.fault = times(2, lambda h: h.refuse(503))
    assert client.get("v1", "secrets", "a", "ns") is None  # asked again as before


def test_e7_one_broken_path_does_not_make_a_server_silent(stub, client):
    def fault(handler, _method, path, _query) -> bool:
        if "/secrets" not in path:
            return False
        client.list("v1", "pods", "ns")  # somebody else's question meanwhile
        handler.refuse(500)
        return True

    stub.fault = fault
    with pytest.raises(Unreachable):
        client.get("v1", "secrets", "a", "ns")
    assert not client.is_silent
