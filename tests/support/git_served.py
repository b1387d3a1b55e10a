"""Git's own server over https on loopback: repositories below one folder, some behind a token."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.store_certificates import Authority

_AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.com")


class GitServed:
    """``tokens``: of which repository which is asked for. ``before``: runs before each answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority(folder)
        self.tokens: dict[str, str] = {}
        self.before: Callable[[BaseHTTPRequestHandler], bool] = lambda _handler: False
        self.asked: list[str] = []
        self.port = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def code(self, name: str, ref: str = "main") -> str:
        return f"git+https://{self.host}/{name}@{ref}"

    def make(self, name: str, **files: str) -> str:
        """Make a repository with one commit on main; return that."""
        tree = self.folder / "trees" / name
        tree.mkdir(parents=True)
        self.git(tree, "init", "-q", "-b", "main")
        return self.commit(name, **files)

    def tree(self, name: str) -> Path:
        return self.folder / "trees" / name

    def commit(self, name: str, **files: str) -> str:
        tree = self.tree(name)
        for path, text in files.items():
            target = tree / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git(tree, "add", "-A")
        self.git(tree, *_AUTHOR, "commit", "-q", "--allow-empty", "-m", "x")
        return self.git(tree, "rev-parse", "HEAD").strip()

    def git(self, tree: Path, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(tree), *words], check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def settle(self, settings: Any) -> None:
        """Let a portal in this process reach it."""
        settings.BERTH_OUTBOUND_CA_FILE = str(self.authority.certificate)
        settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.1/32:{self.port}"]

    @property
    def settings(self) -> dict[str, str]:
        """The same for a portal of its own."""
        return {
            "BERTH_OUTBOUND_CA_FILE": str(self.authority.certificate),
            "BERTH_OUTBOUND_ALLOW": f"127.0.0.1/32:{self.port}",
        }


@contextmanager
def git_served(folder: Path) -> Iterator[GitServed]:
    served = GitServed(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                self._answer(_chunks(self.rfile))
            else:
                self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _answer(self, body: bytes) -> None:
            path, _sign, query = self.path.partition("?")
            served.asked.append(path)
            if served.before(self):
                return
            name = path.split("/")[1].removesuffix(".git")
            if (token := served.tokens.get(name)) and not self._knows(token):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            around = {
                **os.environ,
                "GIT_PROJECT_ROOT": str(served.folder / "trees"),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path.replace(".git/", "/", 1),
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            }
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=around, capture_output=True, check=False
            )
            head, _line, content = done.stdout.partition(b"\r\n\r\n")
            said = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
            self.send_response(int(said.pop("Status", "200").split()[0]))
            for key, value in said.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))  # GnuTLS insists on an end
            self.end_headers()
            self.wfile.write(content)

        def _knows(self, token: str) -> bool:
            said = self.headers.get("Authorization", "").removeprefix("Basic ")
            return base64.b64decode(said).decode().partition(":")[2] == token if said else False

        def log_message(self, *_said: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = served.authority.context().wrap_socket(server.socket, server_side=True)
    served.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


def _chunks(file: Any) -> bytes:
    found = b""
    while size := int(file.readline(), 16):
        found += file.read(size)
        file.readline()
    return found


def drip(_handler: BaseHTTPRequestHandler) -> bool:
    """Never come to an answer."""
    time.sleep(600)
    return True
