"""What one may write on the wire to the proxy of workspaces."""

import json
import socket

import pytest

from tests.proxy.conftest import Proxy, Workload, proxy, workload  # noqa: F401 - fixtures

pytestmark = pytest.mark.real
MINE, OTHER = "a.nb.localhost", "b.nb.localhost"


ANSWERS_WITHIN_S = 60.0
QUIET_S = 1.5


def raw(target: Proxy, data: str) -> str:
    """What comes until the connection ends or, when it stays open, until no more comes."""
    closes = "Connection: close" in data
    with socket.create_connection(("127.0.0.1", target.port), timeout=ANSWERS_WITHIN_S) as wire:
        wire.sendall(data.replace("\n", "\r\n").encode("latin-1"))
        said = b""
        try:
            while part := wire.recv(65536):
                said += part
                wire.settimeout(ANSWERS_WITHIN_S if closes else QUIET_S)
        except TimeoutError:
            pass
    return said.decode("latin-1")


SMUGGLED = f"GET /smuggled HTTP/1.1\nHost: {OTHER}\nX-Forwarded-User: root\n\n"


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 4\nTransfer-Encoding: chunked\n",
        "Transfer-Encoding: chunked\nContent-Length: 4\n",
        "Transfer-Encoding: xchunked\n",
        "Transfer-Encoding: chunked, identity\n",
        "Transfer-Encoding : chunked\n",
        "Transfer-Encoding:\n chunked\n",
        "Content-Length: 4\nContent-Length: 0\n",
        "Content-Length: +4\n",
        "Content-Length: 4, 4\n",
        "Content-Length: 0x4\n",
    ],
)
def test_an_ambiguous_length_is_refused(
    head: str,
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    for host in (MINE, OTHER):
        proxy.route(host, workload.port)
    said = raw(proxy, f"POST /first HTTP/1.1\nHost: {MINE}\n{head}\n0\n\n{SMUGGLED}")
    assert said.startswith("HTTP/1.1 400")
    assert "smuggled" not in said


@pytest.mark.parametrize("hosts", [(MINE, OTHER), (OTHER, MINE)])
def test_two_hosts_never_lead_to_two_workloads(
    hosts: tuple[str, str],
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    proxy.route(hosts[0], workload.port)
    said = raw(proxy, f"GET /x HTTP/1.1\nHost: {hosts[0]}\nHost: {hosts[1]}\nConnection: close\n\n")
    if " 200 " in said.splitlines()[0]:
        seen = json.loads(said.partition("\r\n\r\n")[2])["headers"]
        assert seen["host"] == seen["x-forwarded-host"] == hosts[0]
    else:
        assert said.startswith("HTTP/1.1 400")


def test_the_host_of_an_absolute_address_routes_nothing(
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    proxy.route(MINE, workload.port)
    said = raw(
        proxy, f"GET http://{MINE}/lab HTTP/1.1\nHost: {OTHER}\nAccept: x\nConnection: close\n\n"
    )
    assert "/lab" not in said or "/hub/424" in said


@pytest.mark.parametrize("odd", ["constructor", "__proto__", "a.nb.localhost.", "[::1", "..", ":"])
def test_an_odd_host_ends_nothing(
    odd: str,
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    proxy.route(MINE, workload.port)
    raw(proxy, f"GET / HTTP/1.1\nHost: {odd}\nConnection: close\n\n")
    raw(proxy, f"GET / HTTP/1.1\nHost: {odd}\nConnection: Upgrade\nUpgrade: websocket\n\n")
    assert proxy.get("/lab").json()["path"] == "/lab"


def test_headers_with_underscores_are_no_way_around(
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    """A WSGI application in a workspace reads X_Remote_User and X-Remote-User as one."""
    proxy.route(MINE, workload.port)
    forged = (
        "X_Remote_User: root\nX_Forwarded_For: root\nRemote_User: root\nKubeflow_Userid: root\n"
    )
    said = raw(proxy, f"GET / HTTP/1.1\nHost: {MINE}\n{forged}Connection: close\n\n")
    assert said.startswith("HTTP/1.1 200")
    assert "root" not in said


def test_a_request_behind_an_upgrade_reaches_nobody_else(
    proxy: Proxy,  # noqa: F811
    workload: Workload,  # noqa: F811
) -> None:
    for host in (MINE, OTHER):
        proxy.route(host, workload.port)
    said = raw(
        proxy, f"GET / HTTP/1.1\nHost: {MINE}\nConnection: Upgrade\nUpgrade: h2c\n\n{SMUGGLED}"
    )
    assert '"path": "/smuggled"' not in said
