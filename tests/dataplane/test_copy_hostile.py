"""Loads of bad names, and of stores at addresses that nobody may reach."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.connector import Dialer
from dataplane.copy.plan import OutboundPlan
from dataplane.copy.problems import Final, Stop
from tests.support.copying import Copying, codes, files_below
from tests.support.hostile_store import Call, Handler, HostileS3

# --- D1: names ----------------------------------------------------------------------------------

BAD = {
    b"data/../../escape.txt": "bad-key",
    b"../escape2.txt": "bad-key",
    b"/abs.txt": "bad-key",
    b"a/../../b": "bad-key",
    b"nul\0byte": "bad-key",
    b"new\nline": "bad-key",
    b"n" * 300: "bad-key",
    b"a//b": "bad-key",
    b"trailing/": "bad-key",
    b".berth/loads/x": "bad-key",
    b"\xff\xfe": "bad-key",
    "\u202ecod.exe".encode(): "bad-key",
    b"file/below": "name-clash",
    b"file/deeper/still": "name-clash",
}
GOOD = [
    b"good.txt",
    b"file",
    b"file!between",
    b"Case",
    b"case",
    "שלום".encode(),
    "e\u0301".encode(),
    "\u00e9".encode(),
    ("d/" * 500 + "long").encode(),
    b"~x",
]


def test_d1_bad_keys_are_named_and_every_good_one_is_copied(
    tmp_path: Path, hostile: HostileS3
) -> None:
    """As a program, with the exit code; the folder is the whole volume, so .berth is in reach."""
    for key in (*BAD, *GOOD):
        hostile.put(key, b"content of " + key)
    hostile.page = 4
    copying = Copying(tmp_path, hostile.place(), hostile.outbound(), folder="")
    done = copying.run()
    assert (done.code, done.final["code"]) == (3, "partial"), done.output
    assert files_below(copying.volume) == {key.decode(): b"content of " + key for key in GOOD}
    assert sorted(done.errors.values()) == sorted(BAD.values())
    assert all(name.isprintable() for name in done.errors)
    assert {"new\\nline", "\\xff\\xfe", "/abs.txt", "../escape2.txt"} <= set(done.errors)
    assert not (tmp_path / "escape.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".txt") == []
    assert done.files == {
        "found": 24, "done": 10, "unchanged": 0, "skipped": 14, "failed": 0, "deleted": 0,
    }  # fmt: skip
    again = copying.run()
    assert (again.code, again.files["unchanged"]) == (3, 10)


def test_d1_what_stands_in_the_way_is_named_and_stays(
    load: Any, copying: Copying, hostile: HostileS3, tmp_path: Path
) -> None:
    """A folder, a file and links that lie in the target already."""
    outside = tmp_path / "outside"
    outside.mkdir()
    copying.target.mkdir(parents=True)
    (copying.target / "folder").mkdir()
    (copying.target / "plain").write_text("mine")
    (copying.target / "link").symlink_to(outside)
    (copying.target / "leaf").symlink_to(outside / "leaf")
    for key in ("folder", "plain/below", "link/in", "leaf", "fine"):
        hostile.put(key, b"new")
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == dict.fromkeys(("folder", "plain/below", "link/in"), "name-clash")
    assert (copying.target / "fine").read_bytes() == b"new"
    assert (copying.target / "leaf").read_bytes() == b"new"  # the link itself was replaced
    assert not (copying.target / "leaf").is_symlink()
    assert list(outside.iterdir()) == []
    assert (copying.target / "plain").read_text() == "mine"


# --- D2, D3: where it goes, who it is -----------------------------------------------------------


def names_lead_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    def resolve(_host: str, port: int, *_a: Any, **_k: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_d2_the_open_socket_is_believed_and_no_name_server(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it is looked at, and this machine when it is connected to."""
    names_lead_to(monkeypatch, "93.184.216.34")
    connect, dialled = socket.socket.connect, []

    def elsewhere(one: socket.socket, address: Any) -> None:
        if one.family is not socket.AF_UNIX:
            dialled.append(address)
            connect(one, ("127.0.0.1", hostile.port))

    monkeypatch.setattr(socket.socket, "connect", elsewhere)
    place = hostile.place(endpoint=f"https://turns.example:{hostile.port}")
    outbound = {"allow": [], "ports": [443, hostile.port], "insecure_hosts": []}
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS
    assert "leads to another address" in order.message
    assert set(dialled) == {("93.184.216.34", hostile.port)}
    assert hostile.calls == []


async def test_d2_so_is_the_socket_of_what_reads_bodies(
    hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "93.184.216.34")
    loop = asyncio.SelectorEventLoop
    connect = loop.sock_connect

    async def elsewhere(self: Any, one: socket.socket, _address: Any) -> None:
        await connect(self, one, ("127.0.0.1", hostile.port))

    monkeypatch.setattr(loop, "sock_connect", elsewhere)
    dialer = Dialer(OutboundPlan(ports=(443, hostile.port)))
    with pytest.raises(Stop, match="leads to another address") as caught:
        await dialer.connect(dialer.endpoint(f"https://turns.example:{hostile.port}"))
    assert caught.value.final is Final.REFUSED_ADDRESS
    assert hostile.calls == []


def test_d2_a_name_that_leads_to_a_private_address_is_refused_at_connect(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    place = hostile.place(endpoint=f"http://turns.example:{hostile.port}")
    outbound = {
        "allow": [], "ports": [443, hostile.port], "insecure_hosts": []
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS  # plain http is refused before anything
    place = hostile.place(endpoint=f"https://turns.example:{hostile.port}")
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS
    assert "public" in order.message
    assert hostile.calls == []


@pytest.mark.parametrize(
    "endpoint",
    ["https://127.0.0.1", "https://169.254.169.254", "https://[::ffff:127.0.0.1]", "https://[::1]"],
)
def test_d2_private_addresses_are_refused(load: Any, tmp_path: Path, endpoint: str) -> None:
    place = {
        "kind": "s3-compatible", "bucket": "b", "endpoint": endpoint, "path_style": True,
        "access_key": "AK", "secret_key": "SK",
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, {"allow": [], "ports": [443]}))
    assert order.final is Final.REFUSED_ADDRESS


@pytest.mark.parametrize(
    ("opened", "final"),
    [
        ([], Final.CLOSED_NETWORK),
        (["127.0.0.1:1"], Final.CLOSED_NETWORK),  # another port
        (["127.0.0.0/8"], Final.UNREACHABLE),  # open, and nobody is there
    ],
)
def test_a_store_behind_the_clusters_network_policy_is_said_so_after_one_try(
    load: Any, tmp_path: Path, hostile: HostileS3, opened: list[str], final: Final
) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]  # nobody's from now on
    place = {**hostile.place(), "endpoint": f"http://127.0.0.1:{port}"}
    outbound = {
        "allow": ["127.0.0.0/8"],
        "ports": [port],
        "insecure_hosts": [f"127.0.0.1:{port}"],
        "fence": {"internet": True, "opened": opened, "blocked": [], "closed": []},
    }
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is final
    assert ("127.0.0.1" in order.message) == (final is Final.CLOSED_NETWORK)


def test_d2_the_metadata_address_is_refused_whatever_the_operator_allows(
    load: Any, tmp_path: Path
) -> None:
    place = {
        "kind": "s3-compatible", "bucket": "b", "endpoint": "http://169.254.169.254",
        "path_style": True, "access_key": "AK", "secret_key": "SK",
    }  # fmt: skip
    outbound = {
        "allow": ["0.0.0.0/0", "169.254.0.0/16:80"], "ports": [80, 443],
        "insecure_hosts": ["169.254.169.254:80"],
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_d2_no_redirect_is_followed(
    load: Any, copying: Copying, hostile: HostileS3, status: int
) -> None:
    def elsewhere(handler: Handler, call: Call) -> bool:
        handler.say(status, b"", {"Location": f"{hostile.url}/other/{call.key}"})
        return True

    hostile.tricks.append(elsewhere)
    order, _ = load(copying)
    assert order.final is Final.REFUSED_ADDRESS
    assert len(hostile.calls) == 1


def test_d3_nothing_ambient_is_used(tmp_path: Path, hostile: HostileS3) -> None:
    """No identity, proxy or key log of the environment; with a canary in each."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/credentials").write_text("[default]\naws_access_key_id=CANARYAMBIENT\n")
    hostile.put("a", b"x")
    dead = "http://127.0.0.1:9"
    env = {
        "HOME": str(home), "AWS_ACCESS_KEY_ID": "CANARYAMBIENT", "AWS_PROFILE": "default",
        "AWS_SECRET_ACCESS_KEY": "CANARYAMBIENT", "AWS_ENDPOINT_URL": dead,
        "HTTP_PROXY": dead, "HTTPS_PROXY": dead, "http_proxy": dead, "ALL_PROXY": dead,
        "SSLKEYLOGFILE": str(tmp_path / "keys"), "SSL_CERT_FILE": "/nowhere",
    }  # fmt: skip
    copying = Copying(tmp_path, hostile.place(anonymous=True), hostile.outbound(), env=env)
    done = copying.run()
    assert done.code == 0, done.output
    for call in hostile.calls:
        assert "authorization" not in call.headers
        assert "CANARY" not in str(call)
    assert not (tmp_path / "keys").exists()


def test_the_region_that_is_right_is_said(load: Any, copying: Copying, hostile: HostileS3) -> None:
    def wrong(handler: Handler, _call: Call) -> bool:
        body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"
        handler.say(400, body)
        return True

    hostile.tricks.append(wrong)
    order, _ = load(copying)
    assert order.final is Final.BAD_PLAN
    assert "eu-west-3" in order.message
