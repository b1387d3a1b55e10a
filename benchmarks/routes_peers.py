"""The proxies of ``routes``: Berth's as a portal runs it, and peers with the same routes."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.lib import poll, sized
from devcluster.programs import PROGRAMS
from portal.server.up import node
from runtime.routers.base import RouteEntry
from runtime.routers.chp import ChpProxy, ChpRouter
from tests.proxy.crowd import HOSTS
from tests.support.portal import ROOT
from tests.support.ports import free_port

WITHIN_S = 60.0
ROUTES = sized(500, 10)
CHP = "node_modules/configurable-http-proxy/bin/configurable-http-proxy"


class Side:
    """A proxy on a loopback port, with a process of its own."""

    name = ""
    hosts, routes = HOSTS, ROUTES

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[object], env: Mapping[str, str] | None = None) -> None:
        with (self.folder / f"{type(self).__name__}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in words],
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def add(self, routes: Mapping[str, str]) -> None:
        """Host to address; how each peer is told is its own."""
        raise NotImplementedError

    def memory_mib(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss / 2**20)

    def files(self, without: int) -> int:
        """Descriptors but those of connections to this port, kept there for later requests."""
        process = psutil.Process(self.pid)
        kept = [one for one in process.net_connections("tcp") if one.raddr]
        return int(process.num_fds()) - sum(one.raddr.port == without for one in kept)

    def usable(self, host: str, target: str) -> float:
        """Seconds from the request to add a route until it answers."""
        asker = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        asker.connect()
        begun = time.perf_counter()
        self.add({host: target})
        while _status(asker, host) != httpx.codes.OK:
            if time.perf_counter() > begun + WITHIN_S:
                message = f"{host} was not usable within {WITHIN_S} s"
                raise TimeoutError(message)
            time.sleep(0.001)
        seconds = time.perf_counter() - begun
        asker.close()
        return seconds

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _status(asker: http.client.HTTPConnection, host: str) -> int:
    asker.request("GET", "/small", headers={"Host": host})
    answer = asker.getresponse()
    answer.read()
    return answer.status


class _Node(Side):
    """What both have in common: options, token, the API."""

    def __init__(self, folder: Path, script: str, *more: str) -> None:
        super().__init__(folder)
        self.token, api = secrets.token_hex(16), free_port()
        self.api = f"http://127.0.0.1:{api}"
        words = ["--ip", "127.0.0.1", "--port", self.port, "--api-ip", "127.0.0.1"]
        words += ["--api-port", api, "--host-routing", "--log-level", "warn", *more]
        self.start([node(), ROOT / script, *words], {"CONFIGPROXY_AUTH_TOKEN": self.token})
        self.client = httpx.Client(
            base_url=self.api, headers={"Authorization": f"token {self.token}"}, trust_env=False
        )
        poll(self._up, within_s=WITHIN_S)

    def _up(self) -> bool:
        try:
            return self.client.get("/api/routes").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        self.client.close()
        super().close()


class Berth(_Node):
    """The portal's own router tells it, row by row, as a workload's step does."""

    name = "Berth"

    def __init__(self, folder: Path) -> None:
        nowhere = f"http://127.0.0.1:{free_port()}/hub/424"
        super().__init__(folder, "proxy/berth-proxy.mjs", "--fallback-url", nowhere)
        self.router = ChpRouter([ChpProxy(self.api, self.token)])

    def add(self, routes: Mapping[str, str]) -> None:
        for host, target in routes.items():
            self.router.put(RouteEntry(f"/{host}", target, f"uid-of-{host}"))


class Bare(_Node):
    name = "configurable-http-proxy 5.3"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CHP)

    def add(self, routes: Mapping[str, str]) -> None:
        for host, target in routes.items():
            self.client.post(f"/api/routes/{host}", json={"target": target}).raise_for_status()


class Static(Side):
    """Traefik told by files: each call of ``add`` writes one more."""

    name = "Traefik 3.6, file provider"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.files_of_routes = folder / "traefik"
        self.files_of_routes.mkdir()
        self.written = 0
        program = PROGRAMS["traefik"].kept / "traefik"
        words = [program, f"--entrypoints.web.address=127.0.0.1:{self.port}"]
        self.start([*words, *self.options(self.files_of_routes)])

    @staticmethod
    def built() -> bool:
        return PROGRAMS["traefik"].built()

    @staticmethod
    def options(folder: Path) -> list[str]:
        return [
            f"--providers.file.directory={folder}",
            "--providers.file.watch=true",
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
            "--log.level=ERROR",
        ]

    def add(self, routes: Mapping[str, str]) -> None:
        self.written += 1
        write_static(self.files_of_routes / f"routes-{self.written}.yml", routes)


def write_static(target: Path, routes: Mapping[str, str]) -> None:
    """A file for Traefik, there at once and whole."""
    names = {host: f"{target.stem}-{number}" for number, host in enumerate(routes)}
    routers: dict[str, Any] = {
        name: {"rule": f"Host(`{host}`)", "entryPoints": ["web"], "service": name}
        for host, name in names.items()
    }
    services = {
        names[host]: {"loadBalancer": {"servers": [{"url": address}]}}
        for host, address in routes.items()
    }
    fresh = target.parent.parent / f"{target.name}.new"
    fresh.write_text(json.dumps({"http": {"routers": routers, "services": services}}))
    fresh.replace(target)
