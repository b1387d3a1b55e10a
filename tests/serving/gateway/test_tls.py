"""By TLS, where the portal has a certificate: HTTP/2 besides, and a certificate that is renewed."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import httpx
import playwright
import pytest

from serving.gateway import haproxy
from serving.gateway.program import Process, bring_certificate
from serving.gateway.table import Principal
from tests.serving.gateway.conftest import PATIENCE_S, Running, running_gateway, until
from tests.serving.gateway.replica import Replica
from tests.serving.gateway.test_program import process
from tests.support.certificates import certificate

BOTH = {
    who: Principal(word, word, frozenset({"e1"})) for who, word in [("good", "k1"), ("kept", "k2")]
}


@pytest.fixture
async def tls(listener: socket.socket, tmp_path: Path) -> AsyncIterator[Running]:
    async with running_gateway(listener, pair(tmp_path)) as running:
        yield running


def pair(folder: Path) -> str:
    return "\n".join(one.read_text() for one in certificate(folder))


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


async def test_it_speaks_tls_and_tells_the_server_so(
    tls: Running, replica: Replica, tmp_path: Path
) -> None:
    await tls.route(replica)
    url = f"https://localhost:{tls.port}/e/team/digits/v1"
    async with httpx.AsyncClient(verify=trusting(tmp_path)) as client:
        assert (await client.get(url)).status_code == 401
        answer = await client.get(url, headers={"Authorization": "Bearer good"})
    assert answer.text == "first"
    assert "x-forwarded-proto: https\r\n" in replica.seen[0].lower()
    with pytest.raises(httpx.RemoteProtocolError):
        await tls.get()  # in clear
    assert len(replica.seen) == 1


# Streams of several callers over one connection of HTTP/2, each written to a file of its own.
CALLS = """
const [address, authority, ...told] = process.argv.slice(1);
const fs = require("node:fs");
const session = require("node:http2").connect(address, {ca: fs.readFileSync(authority)});
let open = told.length / 2;
for (let n = 0; n < told.length; n += 2) {
  const headers = {":path": "/e/team/digits/stream", authorization: `Bearer ${told[n]}`};
  const stream = session.request(headers);
  stream.on("error", () => {}).on("close", () => --open || session.close());
  stream.pipe(fs.createWriteStream(told[n + 1]));
}
"""


class calls_over_one_connection:  # noqa: N801 - read as a phrase
    def __init__(self, gateway: Running, folder: Path, *callers: str) -> None:
        self.files = [folder / f"{n}-of-{caller}" for n, caller in enumerate(callers)]
        told = zip(callers, map(str, self.files), strict=True)
        node = Path(playwright.__file__).parent / "driver/node"  # every machine with tests has it
        self.words = [str(node), "-e", CALLS, f"https://localhost:{gateway.port}"]
        self.words += [str(folder / "cert.pem"), *itertools.chain.from_iterable(told)]

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(*self.words)
        await until(lambda: all(self.has(file) > 5 for file in self.files))
        return self

    def has(self, file: Path) -> int:
        return file.read_text().count("tick") if file.exists() else 0

    async def end(self) -> int:
        return await self._process.wait()

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def test_a3_who_may_no_longer_call_is_cut_off_alone_on_a_connection_of_several(
    tls: Running, replica: Replica, tmp_path: Path
) -> None:
    await tls.route(replica, principals=BOTH)
    async with calls_over_one_connection(tls, tmp_path, "good", "kept", "good") as open_ones:
        mine, theirs, mine_too = open_ones.files
        await tls.route(replica, principals={"kept": BOTH["kept"]})
        await asyncio.sleep(0.5)
        ended, went_on = open_ones.has(mine), open_ones.has(theirs)
        ended_too = open_ones.has(mine_too)
        await until(lambda: open_ones.has(theirs) > went_on + 20)
        assert (open_ones.has(mine), open_ones.has(mine_too)) == (ended, ended_too)
        await tls.route(replica, principals={})
        assert await open_ones.end() == 0


def test_a_pair_that_does_not_fit_is_no_certificate(settings: Any, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        certificate(folder)
    settings.BERTH_TLS_CERT, settings.BERTH_TLS_KEY = str(one / "cert.pem"), str(one / "key.pem")
    assert bring_certificate(tmp_path)
    assert not bring_certificate(tmp_path), "the same"
    before = (tmp_path / "tls.pem").read_text()
    assert (tmp_path / "tls.pem").stat().st_mode & 0o077 == 0
    shutil.copy(other / "cert.pem", one / "cert.pem")  # its key comes a moment later
    assert not bring_certificate(tmp_path)
    assert (tmp_path / "tls.pem").read_text() == before
    shutil.copy(other / "key.pem", one / "key.pem")
    assert bring_certificate(tmp_path)
    before = (tmp_path / "tls.pem").read_text()
    certificate(other)
    both = (one / "cert.pem").read_text() + (other / "key.pem").read_text()
    (one / "cert.pem").write_text(both)  # Python reads no key there, HAProxy reads it first
    assert not bring_certificate(tmp_path)
    assert (tmp_path / "tls.pem").read_text() == before
    settings.BERTH_TLS_CERT = ""
    assert not bring_certificate(tmp_path)
    assert not (tmp_path / "tls.pem").exists()


@pytest.mark.django_db(transaction=True)
async def test_no_gateway_comes_up_in_clear_where_its_certificate_does_not_fit(
    settings: Any, listener: socket.socket, tmp_path: Path
) -> None:
    """Keys would be read on the way: who calls waits until the pair fits, or gets nothing."""
    cert, key = certificate(tmp_path)
    fits = key.read_text()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    settings.BERTH_TLS_CERT, settings.BERTH_TLS_KEY = str(cert), str(key)
    port = listener.getsockname()[1]
    key.unlink()
    async with process(listener):
        for text in ("no key", certificate(elsewhere)[1].read_text()):
            with pytest.raises(httpx.TransportError):
                async with httpx.AsyncClient(timeout=3) as client:
                    await client.get(f"http://127.0.0.1:{port}/readyz")
            key.write_text(text)
        key.write_text(fits)
        async with httpx.AsyncClient(verify=trusting(tmp_path), timeout=PATIENCE_S) as client:
            assert (await client.get(f"https://localhost:{port}/readyz")).status_code == 200


async def test_another_certificate_is_told_to_who_comes_and_ends_no_stream(
    tls: Running, replica: Replica, tmp_path: Path
) -> None:
    await tls.route(replica)
    url = f"https://localhost:{tls.port}/e/team/digits"
    key = {"Authorization": "Bearer good"}
    async with (
        httpx.AsyncClient(verify=trusting(tmp_path), headers=key, timeout=PATIENCE_S) as client,
        client.stream("GET", f"{url}/stream") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "tick"
        (tls.gateway.folder / "tls.pem").write_text(pair(tmp_path))
        await tls.gateway.renew()
        async with httpx.AsyncClient(verify=trusting(tmp_path), headers=key) as another:
            assert (await another.get(f"{url}/v1")).text == "first"
        for _ in range(20):
            assert await anext(lines) == "tick"


async def test_a_certificate_that_no_process_took_over_with_is_tried_again(
    tls: Running, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BERTH_TLS_CERT, settings.BERTH_TLS_KEY = map(str, certificate(tmp_path))
    there = tls.gateway.folder / "tls.pem"
    before, pid = there.read_text(), tls.pid
    process = Process(tls.gateway.folder, tls.gateway._listener)
    process.gateway = tls.gateway
    with monkeypatch.context() as broken:
        broken.setattr(haproxy, "STARTS_WITHIN_S", 0.0)
        with pytest.raises(haproxy.RoutingError):
            await process._renew()
    assert (there.read_text(), tls.pid) == (before, pid)
    await process._renew()
    assert tls.pid != pid
    async with httpx.AsyncClient(verify=trusting(tmp_path)) as client:
        assert (await client.get(f"https://localhost:{tls.port}/readyz")).status_code == 200
