"""Testing Git tokens and SSH keys at real servers of a test's own."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from credentials.kinds.git import known_host
from tests.common.conftest import say
from tests.common.test_outbound import certificate
from tests.credentials import samples
from tests.credentials.test_embedding import written

pytestmark = pytest.mark.django_db

REFS = say(
    b"001e# service=git-upload-pack\n", Content_Type="application/x-git-upload-pack-advertisement"
)
JSON = {"Content_Type": "application/json; charset=utf-8"}


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]


# --- Git ----------------------------------------------------------------------------------------


@pytest.fixture
def host(serve: Any, settings: Any, tmp_path: Path) -> Callable[[Any], str]:
    """A host of Git on loopback, with a certificate that the operator believes."""

    def make(answer: Any) -> str:
        path = certificate(tmp_path, "localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        server = serve(answer, host="127.0.0.1", tls=context)
        settings.BERTH_OUTBOUND_CA_FILE = str(path)
        settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.1/32:{server.port}"]
        return f"localhost:{server.port}"

    return make


def by_token(right: Any, wrong: Any, nobody: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    pair = base64.b64encode(f"robot:{samples.GIT}".encode()).decode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        said = handler.headers.get("Authorization")
        known = {f"Basic {pair}", f"Bearer {samples.GIT}"}
        (nobody if said is None else right if said in known else wrong)(handler)

    return answer


NO = say(b"", 401, WWW_Authenticate='Basic realm="git"')


@pytest.mark.parametrize(
    ("right", "nobody", "ok", "word"),
    [
        (REFS, NO, True, "opens"),
        (REFS, REFS, None, "Everybody may read"),
        (NO, NO, False, "does not accept"),
        (say(b"", 404), NO, False, "no such repository"),
        (say(b"", 403), NO, False, "no such repository"),
        (say(b"<html>", 200), NO, None, "not a host of Git"),
    ],
)
def test_a_token_is_tried_at_its_repository(
    host: Any, keep: Any, ask: Any, right: Any, nobody: Any, *, ok: bool | None, word: str
) -> None:
    row = keep("git", host=host(by_token(right, NO, nobody)), repository="team/project")
    found, text = ask(row)
    assert (found, word in text) == (ok, True), text


@pytest.mark.parametrize(
    ("right", "ok", "word"),
    [
        (say(b"{}", 200, **JSON), True, "accepts this token"),
        (say(b"{}", 401, **JSON), False, "does not accept"),
        (say(b"{}", 403, **JSON), None, "without a repository"),
        (say(b"", 404), None, "without a repository"),
        (say(b"<html>sign in</html>", 200, Content_Type="text/html"), None, "without a repository"),
    ],
)
def test_without_a_repository_the_host_is_asked_who_it_is(
    host: Any, keep: Any, ask: Any, right: Any, *, ok: bool | None, word: str
) -> None:
    row = keep("git", host=host(by_token(right, NO, NO)))
    found, text = ask(row)
    assert (found, word in text) == (ok, True), text


# --- SSH ----------------------------------------------------------------------------------------


class SshHost:
    """A server that lets in who shows one key, as one user."""

    def __init__(self, allowed: str, user: str = "git") -> None:
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.port = 0
        self.seen: list[str] = []
        self._allowed, self._user = allowed, user
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(60)

    @property
    def line(self) -> str:
        return " ".join(self.key.export_public_key().decode().split()[:2])

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _listen(self) -> None:
        outer = self

        class Guard(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                outer.seen.append(username)
                return True

            def public_key_auth_supported(self) -> bool:
                return True

            def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
                shown = key.export_public_key().decode().split()[:2]
                return username == outer._user and shown == outer._allowed.split()[:2]

        async def greet(process: Any) -> None:
            process.stdout.write("let in\n")
            process.exit(0)

        self._server = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=Guard, server_host_keys=[self.key], process_factory=greet
        )
        self.port = self._server.get_port()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)


@pytest.fixture
def ssh_host(settings: Any) -> Iterator[Callable[..., SshHost]]:
    running: list[SshHost] = []

    def start(allowed: str, **more: Any) -> SshHost:
        running.append(SshHost(allowed, **more))
        settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.1/32:{h.port}" for h in running]
        return running[-1]

    yield start
    for server in running:
        server.close()


def public_half() -> str:
    key = asyncssh.import_private_key(samples.ssh_key())
    return str(key.export_public_key().decode())


def test_a_host_is_shown_the_key_and_nothing_of_this_machine(
    keep: Any, ask: Any, ssh_host: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host *\n    ProxyCommand touch marker\n    User x\n")
    server = ssh_host(public_half())
    row = keep("ssh", host=f"127.0.0.1:{server.port}", known_hosts=server.line)
    assert ask(row) == (True, "The host accepts this key.")
    assert server.seen[0] == "git"
    assert not (tmp_path / "marker").exists()


def test_without_its_key_the_host_is_named_by_its_fingerprint(
    keep: Any, ask: Any, ssh_host: Any
) -> None:
    server = ssh_host(public_half())
    ok, text = ask(keep("ssh", host=f"127.0.0.1:{server.port}", known_hosts=""))
    assert (ok, server.key.get_fingerprint() in text) == (True, True)


def test_another_key_of_the_host_and_a_refusal_are_told(keep: Any, ask: Any, ssh_host: Any) -> None:
    server = ssh_host(samples.host_key())
    where = f"127.0.0.1:{server.port}"
    ok, text = ask(keep("ssh", "a", host=where, known_hosts=samples.host_key()))
    assert (ok, "another key" in text) == (False, True)
    ok, text = ask(keep("ssh", "b", host=where, known_hosts=server.line))
    assert (ok, "does not accept" in text) == (False, True)


def test_what_does_not_speak_ssh_is_told(keep: Any, ask: Any, serve: Any, settings: Any) -> None:
    server = serve(say(b"hello"), host="127.0.0.1")
    settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.1/32:{server.port}"]
    ok, text = ask(keep("ssh", host=f"127.0.0.1:{server.port}", known_hosts=""))
    assert (ok, "does not speak SSH" in text) == (None, True), text


def test_connecting_and_signing_in_share_one_limit(
    keep: Any, ask: Any, ssh_host: Any, monkeypatch: Any
) -> None:
    """Whoever asks stops waiting soon after it: what the first took the second has not."""
    from credentials.probe import hosts

    left: list[float] = []
    real_resolve, real_sign_in = hosts.system_resolve, hosts._signed_in

    def slow(*given: Any) -> Any:
        time.sleep(0.5)
        return real_resolve(*given)

    async def noted(*given: Any) -> Any:
        left.append(given[-1])
        return await real_sign_in(*given)

    monkeypatch.setattr(hosts, "system_resolve", slow)
    monkeypatch.setattr(hosts, "_signed_in", noted)
    server = ssh_host(public_half())
    where = f"127.0.0.1:{server.port}"
    assert ask(keep("ssh", host=where, known_hosts=server.line))[0] is True
    assert 0 < left[0] <= hosts.SECONDS - 0.5


def test_a_key_without_a_host_is_only_well_formed(keep: Any, ask: Any) -> None:
    ok, text = ask(keep("ssh", host="", known_hosts=""))
    assert (ok, "well formed" in text) == (None, True)


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs ssh")
def test_the_usual_ssh_signs_in_with_what_work_is_given(
    keep: Any, ssh_host: Any, tmp_path: Path
) -> None:
    server = ssh_host(public_half())
    where = f"127.0.0.1:{server.port}"
    row = keep("ssh", host=where, known_hosts=server.line)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **written([row], tmp_path / "s")}
    command = ["ssh", "-F", env["BERTH_SSH_CONFIG"], "127.0.0.1", "true"]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "let in\n", done.stderr
    (tmp_path / "s" / "ssh-known-hosts").chmod(0o600)
    known = f"{known_host(where)} {samples.host_key()}\n"
    (tmp_path / "s" / "ssh-known-hosts").write_text(known)
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert "let in" not in done.stdout
    assert "verification failed" in done.stderr
