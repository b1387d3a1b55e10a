"""D2: what a user wrote leads only where Berth goes, whatever the name server says when."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from common.outbound import (
    Bounds,
    Client,
    Deadline,
    GuardedBackend,
    OutboundError,
    Trouble,
    clean_host,
    policy_from_settings,
    split_host,
)
from dataplane.addresses import Opening, Policy, is_public
from tests.common.conftest import Server, say
from tests.support.shortest import shortest

BOTH = Bounds(schemes=frozenset({"http", "https"}), seconds=60)


def opened(*servers: Server) -> Policy:
    """The operator opened exactly the ports of these servers."""
    return Policy(
        openings=tuple(
            Opening(ipaddress.ip_network(server.host), server.port) for server in servers
        )
    )


def answering(*addresses: str) -> Callable[[str, int, float], list[Any]]:
    """A name server that gives one more answer each time; ``asked`` counts."""

    def resolve(_host: str, _port: int, _seconds: float) -> list[Any]:
        resolve.asked += 1  # type: ignore[attr-defined]
        return [ipaddress.ip_address(addresses[min(resolve.asked, len(addresses)) - 1])]  # type: ignore[attr-defined]

    resolve.asked = 0  # type: ignore[attr-defined]
    return resolve


def trouble(policy: Policy, url: str, bounds: Bounds = BOTH, **more: Any) -> Trouble:
    with Client(policy, bounds, **more) as client, pytest.raises(OutboundError) as caught:
        client.request("GET", url)
    assert len(caught.value.message) < 200
    return caught.value.trouble


# --- where it goes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:a00:1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ],
)
def test_d2_no_address_but_a_public_one_is_connected_to(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert not is_public(parsed)
    shown = f"[{address}]" if parsed.version == 6 else address
    assert trouble(Policy(), f"https://{shown}/") is Trouble.REFUSED
    named = answering(address)
    assert trouble(Policy(), "https://registry.example.com/", resolve=named) is Trouble.REFUSED


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1111", "::ffff:93.184.215.14"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    assert Policy().permits("x", ipaddress.ip_address(address), 443)
    assert not Policy().permits("x", ipaddress.ip_address(address), 22)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "127.1",
        "127.0.1",
        "1.2.3.4.5",
        "01.02.03.04",
        "127.0.0.1.",
        "fe80::1%eth0",
        "[::1%lo]",
        "a..b",
        "-a.example",
        "a_b\n.example",
        "exa mple",
        "\uff45xample.com",
        "x" * 64 + ".com",
        ".".join(["x" * 50] * 6),
        "",
        "a/b",
        "user@host",
    ],
)
def test_d2_a_host_in_an_unusual_spelling_is_no_host(host: str) -> None:
    with pytest.raises(OutboundError) as caught:
        clean_host(host)
    assert caught.value.trouble is Trouble.ADDRESS


@pytest.mark.parametrize(
    "url",
    [
        "https://2130706433/",
        "https://0x7f.1/",
        "http://169.254.169.254/latest/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "https://user:pass@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com#@127.0.0.1/",
        "https://example.com:99999/",
        "https://example.com:-1/",
        "https:///etc",
        "https://exam\tple.com/",
        "https://example.com/\r\nX: y",
        "//example.com/",
        "",
        "https://example.com/" + "a" * 3000,
    ],
)
def test_d2_what_is_not_a_plain_https_address_is_refused_before_any_lookup(url: str) -> None:
    named = answering("93.184.215.14")
    found = trouble(Policy(), url, Bounds(), resolve=named)
    assert found in {Trouble.ADDRESS, Trouble.REFUSED}
    assert named.asked == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("port", [1, 22, 25, 6379, 5432, 2375, 10250, 65535])
def test_d2_an_odd_port_is_refused(port: int) -> None:
    named = answering("93.184.215.14")
    assert trouble(Policy(), f"https://example.com:{port}/", resolve=named) is Trouble.REFUSED
    assert named.asked == 0  # type: ignore[attr-defined]


def test_d2_the_name_is_asked_once_and_the_checked_address_is_used(serve: Any) -> None:
    checked = serve(say(b"checked"))
    rebound = serve(say(b"rebound"), host="127.0.0.3", port=checked.port)
    named = answering("127.0.0.2", "127.0.0.3")
    with Client(opened(checked), BOTH, resolve=named) as client:
        answer = client.request("GET", f"http://turns.example:{checked.port}/")
    assert answer.body == b"checked"
    assert named.asked == 1  # type: ignore[attr-defined]
    assert checked.asked[0][2]["Host"] == f"turns.example:{checked.port}"
    url = f"http://turns.example:{checked.port}/"
    assert trouble(opened(checked), url, resolve=named) is Trouble.REFUSED
    assert rebound.asked == []


def test_d2_a_name_that_failed_first_is_checked_when_it_answers(monkeypatch: Any) -> None:
    answers: list[Any] = [socket.gaierror("try again"), "127.0.0.1"]

    def lookup(_host: str, port: int, **_more: Any) -> list[Any]:
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (given, port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert trouble(Policy(), "https://late.example/") is Trouble.UNKNOWN_HOST
    assert trouble(Policy(), "https://late.example/") is Trouble.REFUSED


def test_a_name_server_that_is_silent_is_not_waited_for(monkeypatch: Any) -> None:
    def silent(*_args: Any, **_more: Any) -> list[Any]:
        time.sleep(1)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", silent)

    def ask() -> None:
        assert trouble(Policy(), "https://slow.example/", Bounds(seconds=0.2)) is Trouble.TIMEOUT

    assert shortest(ask) < 0.8


def test_d2_the_address_of_the_open_socket_is_checked_too() -> None:
    class Elsewhere:
        closed = False

        def get_extra_info(self, _info: str) -> Any:
            return ("127.0.0.1", 443)

        def close(self) -> None:
            self.closed = True

    backend = GuardedBackend(Policy(), Deadline(time.monotonic() + 1), answering("93.184.215.14"))
    stream = Elsewhere()
    with pytest.raises(OutboundError):
        backend._checked(stream, "example.com", 443)  # type: ignore[arg-type]
    assert stream.closed


def test_d2_a_redirect_is_an_answer_and_not_a_way(serve: Any) -> None:
    inside = serve(say(b"secret"), host="127.0.0.3")
    outside = serve(say(b"", 302, Location=f"http://127.0.0.3:{inside.port}/"))
    with Client(opened(outside), BOTH) as client:
        answer = client.request("GET", f"http://127.0.0.2:{outside.port}/")
    assert answer.status == 302
    assert inside.asked == []


def test_d2_proxies_of_the_environment_are_not_used(serve: Any, monkeypatch: Any) -> None:
    proxy, server = serve(say(b"proxy")), serve(say(b"server"), host="127.0.0.3")
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.2:{proxy.port}")
    with Client(opened(server), BOTH) as client:
        assert client.request("GET", f"http://127.0.0.3:{server.port}/").body == b"server"
    assert proxy.asked == []


def test_only_the_addresses_that_are_allowed_are_tried(serve: Any) -> None:
    server = serve(say(b"here"))

    def both(*_args: Any) -> list[Any]:
        return [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("127.0.0.2")]

    with Client(opened(server), BOTH, resolve=both) as client:
        assert client.request("GET", f"http://two.example:{server.port}/").body == b"here"


# --- how much and how long --------------------------------------------------------------------


def test_a_body_without_end_is_cut(serve: Any) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 65536)

    server = serve(endless)
    bounds = Bounds(schemes=frozenset({"http"}), body_bytes=200_000)
    url = f"http://127.0.0.2:{server.port}/"
    assert trouble(opened(server), url, bounds) is Trouble.TOO_LARGE


def test_the_budget_of_bytes_and_requests_is_for_all_requests_together(serve: Any) -> None:
    server = serve(say(b"x" * 600))
    bounds = Bounds(schemes=frozenset({"http"}), total_bytes=1000, requests=5)
    with Client(opened(server), bounds) as client:
        url = f"http://127.0.0.2:{server.port}/"
        client.request("GET", url)
        with pytest.raises(OutboundError):
            client.request("GET", url)
    bounds = Bounds(schemes=frozenset({"http"}), requests=1)
    with Client(opened(server), bounds) as client:
        client.request("GET", url)
        with pytest.raises(OutboundError):
            client.request("GET", url)


def test_a_server_that_drips_is_left_at_the_deadline(serve: Any) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(40):
            handler.wfile.write(b"x")
            time.sleep(0.05)

    server = serve(drip)
    bounds = Bounds(schemes=frozenset({"http"}), seconds=0.4)
    url = f"http://127.0.0.2:{server.port}/"

    def ask() -> None:
        assert trouble(opened(server), url, bounds) is Trouble.TIMEOUT

    assert shortest(ask) < 1.2


def test_a_compressed_answer_is_not_unpacked(serve: Any) -> None:
    server = serve(say(b"\x1f\x8b" + b"0" * 50, Content_Encoding="gzip"))
    url = f"http://127.0.0.2:{server.port}/"
    assert trouble(opened(server), url) is Trouble.PROTOCOL


def test_nobody_there_is_said_as_such(serve: Any) -> None:
    server = serve(say(b""))
    policy, url = opened(server), f"http://127.0.0.2:{server.port}/"
    server.close()
    assert trouble(policy, url) is Trouble.UNREACHABLE


# --- TLS --------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    at = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(at - timedelta(days=1))
        .not_valid_after(at + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "tls.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def named_registry(serve: Any, tmp_path: Path) -> tuple[Path, Any]:
    """Return a server with TLS and the file of its certificate, for one name."""
    path = certificate(tmp_path, "registry.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, serve(say(b"safe"), tls=context)


def test_the_certificate_is_checked_against_the_name_and_not_the_address(
    serve: Any, tmp_path: Path, settings: Any
) -> None:
    path, server = named_registry(serve, tmp_path)
    policy, named = opened(server), answering("127.0.0.2")
    url = f"https://registry.example:{server.port}/"
    assert trouble(policy, url, resolve=named) is Trouble.TLS
    settings.BERTH_OUTBOUND_CA_FILE = str(path)
    with Client(policy, resolve=named) as client:
        assert client.request("GET", url).body == b"safe"
    other = f"https://other.example:{server.port}/"
    assert trouble(policy, other, resolve=named) is Trouble.TLS


def test_an_authority_that_the_operator_replaces_counts_from_then_on(
    serve: Any, tmp_path: Path, settings: Any
) -> None:
    path, server = named_registry(serve, tmp_path)
    policy, named = opened(server), answering("127.0.0.2")
    url = f"https://registry.example:{server.port}/"
    (tmp_path / "old").mkdir()
    believed = certificate(tmp_path / "old", "registry.example")
    settings.BERTH_OUTBOUND_CA_FILE = str(believed)
    assert trouble(policy, url, resolve=named) is Trouble.TLS
    path.replace(believed)
    with Client(policy, resolve=named) as client:
        assert client.request("GET", url).body == b"safe"


# --- what the operator may set ----------------------------------------------------------------


def test_the_operator_opens_ranges_and_single_ports(settings: Any) -> None:
    settings.BERTH_OUTBOUND_ALLOW = ["10.1.0.0/16", "10.2.0.5:8500", "[fd00::/8]:443"]
    settings.BERTH_INSECURE_REGISTRIES = ["127.0.0.1:5000", "lan"]
    policy = policy_from_settings()
    ip = ipaddress.ip_address
    assert policy.permits("a", ip("10.1.2.3"), 443)
    assert not policy.permits("a", ip("10.1.2.3"), 8500)
    assert policy.permits("a", ip("10.2.0.5"), 8500)
    assert not policy.permits("a", ip("10.2.0.5"), 443)
    assert policy.permits("a", ip("fd00::1"), 443)
    assert policy.permits("127.0.0.1", ip("127.0.0.1"), 5000)
    assert not policy.permits("localtest.example", ip("127.0.0.1"), 5000)
    assert policy.permits("lan", ip("192.168.1.1"), 80)
    settings.BERTH_OUTBOUND_ALLOW = ["169.254.0.0/16"]
    assert not policy_from_settings().permits("a", ip("169.254.169.254"), 80)


def test_hosts_are_split_from_ports() -> None:
    assert split_host("Registry.Example:5000", default_port=443) == ("registry.example", 5000)
    assert split_host("registry.example", default_port=443) == ("registry.example", 443)
    assert split_host("[2606:4700::1]:5000", default_port=443) == ("2606:4700::1", 5000)
    for wrong in ("a:b", "a:0", "a:70000", "[::1", "[::1]x", "a:1:2", ":5000"):
        with pytest.raises(OutboundError):
            split_host(wrong, default_port=443)
