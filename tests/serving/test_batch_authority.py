"""A batch asks a gateway whose certificate an authority of the operator's own signed."""

from __future__ import annotations

import io
import json
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from serving.services.batch import package_of
from tests.support.certificates import certificate

ASK = """
import sys
from serving.programs.batch_calls import Caller, Endpoint, StoppedError
try:
    print(Caller(Endpoint(sys.argv[1], "a-key"), "digits").answers([b"[1]"])[0].prediction)
except StoppedError as problem:
    sys.exit(str(problem))
"""


class Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"predictions": [7]}).encode())

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and its authority."""
    cert, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/e/team/digits", cert
        server.shutdown()


def asked(folder: Path, url: str, authority: str) -> subprocess.CompletedProcess[str]:
    """Ask as a job does: by its package alone, where that lies."""
    with tarfile.open(fileobj=io.BytesIO(package_of(authority))) as package:
        package.extractall(folder)
    words = [sys.executable, "-c", ASK, url]
    env = {"PYTHONPATH": str(folder)}
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_what_the_portal_believes_its_batches_believe(
    gateway: tuple[str, Path], tmp_path: Path
) -> None:
    url, authority = gateway
    assert asked(tmp_path, url, str(authority)).stdout == "7\n"


def test_f1_a_certificate_that_nobody_vouches_for_ends_it_at_once_with_a_sentence(
    gateway: tuple[str, Path], tmp_path: Path
) -> None:
    url, _authority = gateway
    told = asked(tmp_path, url, "")
    assert told.returncode == 1
    assert "The certificate of https://127.0.0.1:" in told.stderr
    assert "is not believed" in told.stderr
