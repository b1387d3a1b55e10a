"""Every port of one machine's portal is its own before anything is started."""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.server import preflight, up
from portal.server.manager import LISTENERS, Listener, bind_all
from portal.server.paths import Paths, Refusal
from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
# Ports that nobody listens on when `berth up` runs: as browsers see one, of a mail server, of the
# probes of processes that are started one by one, and what may be named in addresses.
NOT_LISTENERS = {"NOTEBOOK_PORT", "EMAIL_PORT", "HEALTH_PORT"}


def plan_from(first: int, bind: str = "127.0.0.1") -> dict[str, Any]:
    ports = {one.name: first + number for number, one in enumerate(LISTENERS)}
    return {"bind": bind, "internal_bind": "127.0.0.1", "ports": ports}


@pytest.fixture
def plan() -> dict[str, Any]:
    return plan_from(free_ports(8))


def can_listen(address: str, port: int) -> bool:
    """As a workspace that wants it would."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            one.bind((address, port))
            one.listen()
        except OSError:
            return False
    return True


HAS_IPV6 = socket.has_ipv6 and can_listen("::1", 0)


@contextlib.contextmanager
def bound(plan: dict[str, Any]) -> Iterator[dict[str, socket.socket]]:
    found, kept = bind_all(plan)
    try:
        yield found
    finally:
        for one in (*found.values(), *kept):
            one.close()


def test_every_setting_that_is_a_port_of_ours_is_in_the_table() -> None:
    said = "\n".join(p.read_text() for p in (ROOT / "portal/settings").glob("*.py"))
    names = set(re.findall(r"^BERTH_(\w*PORT) = number\(", said, re.MULTILINE))
    assert {one.setting for one in LISTENERS} == {f"BERTH_{n}" for n in names - NOT_LISTENERS}
    assert {one.name for one in LISTENERS} == set(preflight.port_numbers())


@pytest.mark.parametrize("one", LISTENERS, ids=lambda one: one.name)
def test_a_busy_port_is_one_sentence_and_none_stays_taken(
    plan: dict[str, Any], one: Listener
) -> None:
    port = plan["ports"][one.name]
    with socket.create_server(("127.0.0.1", port)):
        sentence = rf"Port {port} of 127\.0\.0\.1 can't be used.* choose another: {one.setting}="
        with pytest.raises(Refusal, match=sentence):
            preflight.check_ports(plan)
    preflight.check_ports(plan)


def test_all_are_ours_before_anything_is_started(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate's and SSH's too, although they serve only while they are wanted."""
    seen: dict[str, list[str]] = {}

    class Watching:
        def __init__(self, children: list[Any], **_: Any) -> None:
            assert not any(child.alive for child in children)
            for name, port in plan["ports"].items():
                addresses = ("127.0.0.1", "0.0.0.0", "::1", "::")
                seen[name] = [a for a in addresses if can_listen(a, port)]

        def when_ready(self, *_: Any) -> None:
            pass

        def run(self) -> int:
            return 0

    whole = {
        **plan,
        "public_url": "http://localhost:1",
        "proxy_token": "t",
        "proxy_options": [],
        "supervisor": {"wanted": False, "environments": str(tmp_path)},
    }
    monkeypatch.setattr(up, "checked_plan", lambda **_: whole)
    monkeypatch.setattr(up, "Manager", Watching)
    monkeypatch.setenv("BERTH_NODE", "/bin/true")
    monkeypatch.setenv("BERTH_VAR", str(tmp_path))
    assert up.portal(Paths(tmp_path), insecure_http=False) == 0
    people = [one.name for one in LISTENERS if one.is_open]
    assert {name: seen[name] for name in people} == {name: [] for name in people}
    ours = [one.name for one in LISTENERS if not one.is_open]  # asked by number, never by a name
    assert {name: seen[name] for name in ours} == {
        name: ["::1"] if HAS_IPV6 else [] for name in ours
    }


@pytest.mark.parametrize("name", [one.name for one in LISTENERS])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_another_has_stops_the_start_in_one_sentence(
    plan: dict[str, Any], name: str, address: str
) -> None:
    if address == "::1" and not HAS_IPV6:
        pytest.skip("this machine has no IPv6")
    one = next(one for one in LISTENERS if one.name == name)
    port = plan["ports"][name]
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((address, port))
        other.listen()
        if address == "::1" and not one.is_open:
            with bound(plan):
                return
        with pytest.raises(Refusal) as refusal:
            bind_all(plan)
    assert f"Port {port} of {address} can't be used: address already in use" in str(refusal.value)
    assert f"choose another: {one.setting}={port + 1000}" in str(refusal.value)


@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")
def test_who_asks_at_the_other_name_of_localhost_is_refused_at_once(plan: dict[str, Any]) -> None:
    """So a browser goes on to the one that serves."""
    with bound(plan), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("::1", plan["ports"]["gate"]), timeout=10)


def test_ssh_that_is_switched_off_takes_no_port(plan: dict[str, Any]) -> None:
    plan["ports"]["ssh"] = 0
    with bound(plan) as found:
        assert "ssh" not in found
