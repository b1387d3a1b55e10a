"""Real processes for the contract tests: portal, proxy, notebook servers, and a browser."""

import atexit
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore
import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.migrated import head_start
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 150.0
CACHE_AGE_S = 3
NEWEST = "6.1"


def environments() -> Path:
    return Path(os.environ.get("BERTH_TEST_ENVS", ROOT / "var" / "environments"))


def singleuser(version: str) -> Path:
    """Return its program; the newest is the environment that workspaces themselves get."""
    names = [f"singleuser-{version}"] + (["jupyterlab"] if version == NEWEST else [])
    found = [environments() / name / "bin" / "jupyterhub-singleuser" for name in names]
    return next((path for path in found if path.exists()), found[0])


def until(what: str, ask: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError):
            if found := ask():
                return found
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {patience_s} s")


class _Loopback(httpcore.SyncBackend):
    """glibc does not resolve *.localhost; browsers do."""

    def connect_tcp(self, host: str, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        return super().connect_tcp(
            "127.0.0.1" if host.endswith("localhost") else host, *args, **kwargs
        )


class _Transport(httpx.HTTPTransport):
    def __init__(self) -> None:
        super().__init__(trust_env=False)
        trusting = ssl.create_default_context()  # the certificate is one of our own making
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        self._pool = httpcore.ConnectionPool(network_backend=_Loopback(), ssl_context=trusting)


NAVIGATE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html,*/*"}


class Browser:
    """Cookies, redirects and Sec-Fetch headers as a browser sends them."""

    def __init__(self) -> None:
        self.http = httpx.Client(transport=_Transport(), timeout=60)

    def open(self, url: str) -> httpx.Response:
        return self.http.get(url, headers=NAVIGATE, follow_redirects=True)

    def script(self, method: str, url: str, **more: Any) -> httpx.Response:
        headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        headers |= {"X-XSRFToken": self.cookie(url, "_xsrf")} | more.pop("headers", {})
        return self.http.request(method, url, headers=headers, **more)

    def cookie(self, url: str, name: str) -> str:
        host = httpx.URL(url).host
        found = [
            c.value
            for c in self.http.cookies.jar
            if c.name == name and c.domain in {host, f"{host}.local"}
        ]
        return found[-1] or "" if found else ""

    def cookies(self, url: str) -> str:
        return self.http.build_request("GET", url).headers.get("Cookie", "")

    def kernel_socket(self, url: str, kernel: str, **more: Any) -> ClientConnection:
        target = httpx.URL(url)
        origin = more.pop("origin", f"{target.scheme}://{target.netloc.decode()}")
        sock = socket.create_connection(("127.0.0.1", target.port or 80), timeout=60)
        return connect(
            f"ws{url.removeprefix('http')}api/kernels/{kernel}/channels?session_id={secrets.token_hex(8)}",
            sock=sock,
            origin=origin,
            additional_headers={"Cookie": self.cookies(url)},
            open_timeout=60,
        )


def execute(ws: ClientConnection, code: str) -> None:
    header = {
        "msg_id": secrets.token_hex(8),
        "msg_type": "execute_request",
        "username": "",
        "session": "test",
        "version": "5.3",
        "date": "2026-01-01T00:00:00Z",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
    }
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
    ws.send(json.dumps({**message, "channel": "shell", "buffers": []}))


def wait_for_close(ws: ClientConnection, within_s: float) -> None:
    """Read until the connection falls."""
    end = time.monotonic() + within_s
    with contextlib.suppress(ConnectionClosed):
        while True:
            ws.recv(timeout=max(0.0, end - time.monotonic()))


def result_of(ws: ClientConnection) -> str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        message = json.loads(ws.recv(timeout=PATIENCE_S))
        if message["msg_type"] == "execute_result":
            return str(message["content"]["data"]["text/plain"])
    raise AssertionError("the kernel gave no result")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for *.nb.localhost and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nb.localhost")])
    at = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(at - timedelta(days=1))
        .not_valid_after(at + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("*.nb.localhost")]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    private = key.private_bytes(
        form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(form))
    paths[1].write_bytes(private)
    return paths


_prepared: list[Path] = []  # one migrated and seeded database, copied for every portal


def database_for(folder: Path, env: dict[str, str]) -> None:
    if not _prepared:
        made = Path(tempfile.mkdtemp(prefix="berth-hub-")) / "portal.sqlite3"
        head_start(made, "portal.settings.test")
        subprocess.run(
            [sys.executable, "-m", "tests.hubapi.live.portal", "prepare"],
            cwd=ROOT,
            env={**env, "BERTH_TEST_DATABASE_URL": f"sqlite:///{made}"},
            check=True,
        )
        atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
        _prepared.append(made)
    shutil.copy(_prepared[0], folder / "portal.sqlite3")


@dataclass
class Portal:
    """One portal with its proxy, under one kind of routing."""

    routing: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    base: str = ""
    proxy_port: int = 0
    tls: bool = False

    def start(self) -> None:
        public, self.proxy_port, internal, api = (free_port() for _ in range(4))
        self.base = f"http://localhost:{public}"
        token = secrets.token_hex(16)
        env = {
            **os.environ,
            "BERTH_VAR": str(self.folder),
            "BERTH_TEST_DATABASE_URL": f"sqlite:///{self.folder}/portal.sqlite3",
            "BERTH_PORT": str(public),
            "BERTH_PROXY_PORT": str(self.proxy_port),
            "BERTH_INTERNAL_PORT": str(internal),
            "BERTH_PROXY_API_PORT": str(api),
            "BERTH_PROXY_TOKEN": token,
            "BERTH_NOTEBOOK_ROUTING": self.routing,
            "BERTH_NOTEBOOK_SCHEME": "https" if self.tls else "http",
        }
        database_for(self.folder, env)
        self._spawn([sys.executable, "-m", "tests.hubapi.live.portal"], env, "portal.log")
        node = [
            "node",
            "proxy/berth-proxy.mjs",
            "--port",
            str(self.proxy_port),
            "--api-port",
            str(api),
        ]
        node += ["--fallback-url", f"http://127.0.0.1:{internal}/hub/424"]
        node += ["--host-routing"] if self.routing == "host" else []
        if self.tls:
            certificate, key = make_certificate(self.folder)
            node += ["--scheme", "https", "--tls-cert", str(certificate), "--tls-key", str(key)]
        self._spawn(node, {**env, "CONFIGPROXY_AUTH_TOKEN": token}, "proxy.log")

    def _spawn(self, command: list[str], env: dict[str, str], log: str) -> None:
        with (self.folder / log).open("wb") as out:
            self.processes.append(
                subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT)
            )

    def wait(self) -> None:
        until("the portal", lambda: Browser().http.get(f"{self.base}/hub/api").is_success)

    def control(self, verb: str, browser: Browser | None = None, **data: Any) -> Any:
        response = (browser or Browser()).http.post(f"{self.base}/_control/{verb}", json=data)
        assert response.status_code == 200, response.text[-2000:]
        return response.json()

    def browser(self, user: str) -> Browser:
        made = Browser()
        self.control("log_in", made, user=user)
        return made

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)


@dataclass
class Server:
    """One notebook server behind a portal's proxy."""

    version: str
    portal: Portal
    folder: Path
    told: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self) -> None:
        self.folder.mkdir()
        self.told = self.portal.control("workload", owner="alice")
        self.port = free_port()
        binary = singleuser(self.version)
        env = {k: v.replace("{port}", str(self.port)) for k, v in self.told["env"].items()}
        env |= {
            "HOME": str(self.folder),
            "PATH": f"{binary.parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        age = f"--HubOAuth.cache_max_age={CACHE_AGE_S}"
        arguments = [a for a in self.told["arguments"] if "cache_max_age" not in a]
        with (self.folder / "server.log").open("wb") as out:
            self.process = subprocess.Popen(
                [str(binary), *arguments, age],
                cwd=self.folder,
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        probe = f"{self.direct}{self.told['probe']}"
        until(f"singleuser {self.version}", lambda: httpx.get(probe, timeout=30).status_code == 200)
        self.portal.control("route", uid=self.uid, target=self.direct)

    @property
    def uid(self) -> str:
        return str(self.told["uid"])

    @property
    def url(self) -> str:
        return str(self.told["url"])

    @property
    def direct(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def terminate(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)
