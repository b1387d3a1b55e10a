"""The Node entry around configurable-http-proxy, as the portal and browsers see it."""

import base64
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.proxy.conftest import PATIENCE_S, Proxy, Workload, start_proxy, stop_proxy
from tests.support.ports import free_port

pytestmark = pytest.mark.real
HOST = "a.nb.localhost"
Opener = Callable[..., ClientConnection]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def signed_cookie(token: str, name: str = "ws-1") -> str:
    """The form in which a notebook server keeps a visitor's token."""
    value = base64.b64encode(token.encode()).decode()
    return f"{name}=2|1:0|10:1700000000|{len(name)}:{name}|{len(value)}:{value}|{'0' * 64}"


@pytest.fixture
def open_socket(proxy: Proxy) -> Iterator[Callable[..., ClientConnection]]:
    with ExitStack() as stack:

        def opened(*, host: str = HOST, through: Proxy = proxy, **headers: str) -> ClientConnection:
            raw = socket.create_connection(("127.0.0.1", through.port))
            url = f"ws://{host}:{through.port}/ws"
            one = stack.enter_context(
                connect(
                    url,
                    sock=raw,
                    additional_headers=headers,
                    proxy=None,
                    open_timeout=PATIENCE_S,
                )
            )
            one.send("hello")
            assert one.recv(PATIENCE_S) == "hello"
            return one

        yield opened


def is_cut(one: ClientConnection) -> bool:
    try:
        one.send("still there?")
        return one.recv(PATIENCE_S) is None
    except ConnectionClosed:
        return True


def test_the_route_api_needs_the_token(proxy: Proxy) -> None:
    for method, path in [("GET", "/routes"), ("GET", "/berth/epoch"), ("POST", "/berth/cut")]:
        answer = proxy.api.request(method, path, headers={"Authorization": "token wrong"}, json={})
        assert answer.status_code == 403


def test_a_proxy_without_a_token_refuses_to_start(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.proxy.conftest.TOKEN", "")
        with pytest.raises(AssertionError, match="ended at its start"):
            start_proxy(tmp_path)
    assert "CONFIGPROXY_AUTH_TOKEN is not set" in (tmp_path / "proxy.log").read_text()


def test_a_route_leads_a_host_to_its_workload(proxy: Proxy, workload: Workload) -> None:
    proxy.route(HOST, workload.port)
    assert proxy.get("/lab?x=1").json()["path"] == "/lab?x=1"


def test_the_letter_case_of_a_host_does_not_matter(proxy: Proxy, workload: Workload) -> None:
    proxy.route(HOST, workload.port)
    assert proxy.get("/lab", host="A.NB.localhost:8001").json()["path"] == "/lab"


def test_portal_cookies_and_identity_headers_never_reach_a_workload(
    proxy: Proxy, workload: Workload
) -> None:
    proxy.route(HOST, workload.port)
    seen = proxy.get(
        "/",
        Cookie="berth_session=secret; ws-1=mine; __Host-berth_session=secret; berth_csrf=secret",
        X_Forwarded_User="root",
        X_Forwarded_Email="root@example.org",
        X_Remote_User="root",
        Remote_User="root",
        kubeflow_userid="root",
        X_Forwarded_For="10.0.0.1",
        X_Forwarded_Proto="https",
        X_Forwarded_Host="portal.example.org",
        X_Scheme="https",
        Forwarded="for=10.0.0.1;proto=https",
    ).json()["headers"]
    assert seen["cookie"] == "ws-1=mine"
    assert seen["x-forwarded-for"] == "127.0.0.1"
    assert seen["x-forwarded-proto"] == "http"
    assert seen["x-forwarded-host"] == HOST
    assert not [v for v in seen.values() if "root" in v or "secret" in v or "10.0.0.1" in v]


def test_a_request_with_only_portal_cookies_arrives_without_any(
    proxy: Proxy, workload: Workload
) -> None:
    proxy.route(HOST, workload.port)
    assert "cookie" not in proxy.get("/", Cookie="berth_session=secret").json()["headers"]


def test_a_host_without_a_route_gets_the_portals_page(proxy: Proxy) -> None:
    seen = proxy.get("/lab/tree?a=b&c=d", host="gone.nb.localhost", Accept="text/html").json()
    query = httpx.URL(seen["path"]).params
    assert httpx.URL(seen["path"]).path == "/hub/424"
    assert dict(query) == {"host": "gone.nb.localhost", "path": "/lab/tree?a=b&c=d", "code": "404"}
    assert seen["headers"]["accept"] == "text/html"
    assert "cookie" not in seen["headers"]


def test_a_workload_that_does_not_answer_gets_the_portals_page(proxy: Proxy) -> None:
    proxy.route(HOST, free_port())
    query = httpx.URL(proxy.get("/lab").json()["path"]).params
    assert query["code"] == "503"


def test_a_websocket_without_a_route_is_answered_424(proxy: Proxy, open_socket: Opener) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(host="gone.nb.localhost")
    assert refused.value.response.status_code == 424


def test_without_the_portal_there_is_one_plain_sentence(tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/hub/424"
    proxy = start_proxy(tmp_path, "--host-routing", "--fallback-url", nowhere)
    try:
        answer = proxy.get("/")
        assert answer.status_code == 503
        assert "Try again soon" in answer.text
        assert answer.headers["retry-after"] == "5"
    finally:
        stop_proxy(proxy)


def test_malformed_escapes_in_a_path_reach_the_workload_as_they_are(
    proxy: Proxy, workload: Workload
) -> None:
    proxy.route(HOST, workload.port)
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(
            f"GET /%zz%E0%A4 HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"/%zz%E0%A4" in answer


def test_deleting_a_route_cuts_its_open_websockets(
    proxy: Proxy, workload: Workload, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    proxy.route("b.nb.localhost", workload.port)
    mine, other = open_socket(), open_socket(host="b.nb.localhost")
    assert proxy.api.delete(f"/routes/{HOST}").status_code == 204
    assert is_cut(mine)
    assert not is_cut(other)


def test_a_cut_also_ends_the_connection_to_the_workload(
    proxy: Proxy, workload: Workload, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    open_socket()
    assert proxy.api.post("/berth/cut", json={"key": f"/{HOST}"}).json() == {"cut": 1}
    assert workload.closed.wait(PATIENCE_S)


def test_a_route_to_a_new_address_cuts_what_is_open_to_the_old(
    proxy: Proxy, workload: Workload, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    one = open_socket()
    proxy.route(HOST, workload.port)
    assert not is_cut(one)
    proxy.route(HOST, free_port())
    assert is_cut(one)


def test_a_cut_ends_requests_in_flight_and_keeps_the_route(
    proxy: Proxy, workload: Workload
) -> None:
    proxy.route(HOST, workload.port)
    ended = threading.Event()

    def ask() -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            proxy.get("/slow")
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    for _ in range(1000):
        if proxy.api.post("/berth/cut", json={"key": HOST}).json()["cut"]:
            break
        threading.Event().wait(0.02)
    assert ended.wait(PATIENCE_S)
    assert proxy.get("/").status_code == 200


def test_a_finished_request_is_not_counted(proxy: Proxy, workload: Workload) -> None:
    proxy.route(HOST, workload.port)
    assert proxy.get("/").status_code == 200
    assert proxy.api.post("/berth/cut", json={"key": HOST}).json() == {"cut": 0}


@pytest.mark.parametrize("form", ["signed", "raw"])
def test_cutting_one_visitor_leaves_the_owner_connected(
    proxy: Proxy, workload: Workload, form: str, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    cookie = signed_cookie if form == "signed" else "ws-1={}".format
    owner = open_socket(Cookie=cookie("token-of-owner"))
    guest = open_socket(Cookie=cookie("token-of-guest"))
    cut = proxy.api.post("/berth/cut", json={"key": HOST, "visitor": sha("token-of-guest")})
    assert cut.json() == {"cut": 1}
    assert is_cut(guest)
    assert not is_cut(owner)


def test_a_visitor_is_also_known_by_a_token_in_the_header(
    proxy: Proxy, workload: Workload, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    one = open_socket(Authorization="token of-the-guest")
    answer = proxy.api.post("/berth/cut", json={"key": HOST, "visitor": [sha("of-the-guest")]})
    assert answer.json() == {"cut": 1}
    assert is_cut(one)


def test_keeping_some_visitors_cuts_every_other_however_it_signed_in(
    proxy: Proxy, workload: Workload, open_socket: Opener
) -> None:
    proxy.route(HOST, workload.port)
    owner = open_socket(Cookie=signed_cookie("token-of-owner"))
    posing = open_socket(Cookie="ws-1=anything; other=cookie")
    nobody = open_socket()
    answer = proxy.api.post("/berth/cut", json={"key": HOST, "keep": [sha("token-of-owner")]})
    assert answer.json() == {"cut": 2}
    assert is_cut(posing)
    assert is_cut(nobody)
    assert not is_cut(owner)


@pytest.mark.parametrize("body", ["", "[]", "null", '{"key": 1}', '{"key": "a", "visitor": 5}'])
def test_a_wrong_cut_is_refused_and_cuts_nothing(proxy: Proxy, body: str) -> None:
    assert proxy.api.post("/berth/cut", content=body).status_code == 400


def test_it_says_whether_it_reaches_an_address_and_nothing_else(
    proxy: Proxy, workload: Workload
) -> None:
    def why(target: str) -> str:
        found = proxy.api.post("/berth/reach", json={"target": target})
        assert list(found.json()) == ["why"]
        return str(found.json()["why"])

    assert why(f"http://127.0.0.1:{workload.port}/") == ""
    assert why(f"http://127.0.0.1:{free_port()}/") == "ECONNREFUSED"
    assert why(f"http://127.0.0.1:{workload.port}/slow") == "TimeoutError"
    assert proxy.api.post("/berth/reach", json={"target": "nowhere"}).status_code == 400
    stranger = {"Authorization": "token x"}
    assert proxy.api.post("/berth/reach", json={}, headers=stranger).status_code == 403


def test_a_restarted_proxy_has_another_epoch(tmp_path: Path, proxy: Proxy) -> None:
    other = start_proxy(tmp_path)
    try:
        assert proxy.api.get("/berth/epoch").json() == proxy.api.get("/berth/epoch").json()
        assert proxy.api.get("/berth/epoch").json() != other.api.get("/berth/epoch").json()
    finally:
        stop_proxy(other)


def test_path_routing_serves_only_the_workspaces_own_host(
    tmp_path: Path, workload: Workload, open_socket: Opener
) -> None:
    path_proxy = start_proxy(tmp_path, "--path-host", "127.0.0.1")
    try:
        path_proxy.route("user/alice/w1", workload.port)
        assert path_proxy.get("/user/alice/w1/lab", host="127.0.0.1:8001").status_code == 200
        assert path_proxy.get("/user/alice/w1/lab", host="localhost:8001").status_code == 421
        with pytest.raises(InvalidStatus) as refused:
            open_socket(host="localhost", through=path_proxy)
        assert refused.value.response.status_code == 421
    finally:
        stop_proxy(path_proxy)


def states(count: int) -> str:
    """Cookies of sign-ins that were begun and never ended, the oldest first."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    ends = ["", *(f"-{a}{b}qwerty" for a in letters for b in letters)][:count]
    return "; ".join(f"nb-oauth-state{end}={n:0200d}" for n, end in enumerate(ends))


def test_interrupted_sign_ins_do_not_lock_their_visitor_out(
    proxy: Proxy, workload: Workload
) -> None:
    """84 of them were more than a request's head may have."""
    proxy.route(HOST, workload.port)
    sent = f"own=1; {states(100)}"
    answer = proxy.get("/", Cookie=sent)
    assert answer.status_code == 200
    arrived = answer.json()["headers"]["cookie"].split("; ")
    assert arrived == ["own=1", *sent.split("; ")[-3:]]
    ended = answer.headers.get_list("set-cookie")
    assert len(ended) == 97
    assert all("-oauth-state" in one and "Max-Age=0; Path=/" in one for one in ended)


def test_a_head_that_is_too_large_is_answered_with_what_to_do(
    proxy: Proxy, workload: Workload
) -> None:
    proxy.route(HOST, workload.port)
    answer = proxy.get("/", Cookie="big=" + "x" * 70_000)
    assert answer.status_code == 431
    assert "Delete the cookies" in answer.text
