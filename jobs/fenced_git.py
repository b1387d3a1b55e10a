"""git for one repository, fenced in: what it may reach, run, read and use.

Only https or ssh to an address that Berth may reach, which is asked of no name server a second
time; no redirects, hooks, filters, submodules or questions to a terminal. A token is in the
environment of ``git`` and nowhere else, a private key in the memory of this process, from which
``ssh`` reads it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import certifi
from django.conf import settings
from django.utils.translation import gettext_noop as _

from common.outbound import (
    Client,
    OutboundError,
    policy_from_settings,
    split_host,
    system_resolve,
)
from credentials.kinds.git import HTTPS, PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataplane.addresses import Policy
    from jobs.sources import Repository

SECONDS = 120  # of all of it
_RESOLVE_S, _LOOK_S = 5.0, 0.1
# 1 GiB of memory, for a small pack may mean any number of zeros; and 2 GiB (in blocks of 512 bytes)
# of each file that it writes, what it says included.
_BOUNDED = 'ulimit -v 1048576; ulimit -f 4194304; exec git "$0" "$@"'
_TOLD = 64 * 1024  # bytes of what git says
# What git says → which sentence that is; in this order.
_SAYINGS = (
    ("ssh: not found", "no-ssh"),
    ("host key verification failed", "host-key"),
    ("no matching host key type", "host-key"),
    ("permission denied", "closed"),
    ("does not appear to be a git repository", "closed"),
    ("couldn't find remote ref", "no-ref"),
    ("not our ref", "no-ref"),
    ("unadvertised object", "no-ref"),
    ("terminal prompts disabled", "closed"),
    ("authentication failed", "closed"),
    ("returned error: 401", "closed"),
    ("returned error: 403", "closed"),
    ("returned error: 404", "closed"),
    ("not found", "closed"),
    ("returned error: 3", "moved"),
    ("certificate", "tls"),
    ("returned error: 5", "away"),
    ("could not resolve", "away"),
    ("failed to connect", "away"),
    ("connection", "away"),
    ("timed out", "away"),
)
PROBLEMS = {
    "no-ref": _("There is no branch, tag or commit “%(ref)s” at %(where)s."),
    "closed": _(
        "%(where)s is not there, or may not be read. For a private one keep a Git token for "
        "%(host)s among the project's credentials."
    ),
    "key": _("The credential “%(key)s” does not open %(where)s, or there is no such repository."),
    "no-key": _(
        "%(where)s is opened by a private SSH key: keep one for %(host)s among the project's "
        "credentials, with the keys of the host."
    ),
    "unknown-host": _(
        "Nobody can tell whether it is the real %(host)s: add its keys to the credential "
        "“%(key)s”, as ssh-keyscan prints them."
    ),
    "host-key": _(
        "%(host)s shows another key than those of the credential “%(key)s”. Ask who runs it before "
        "you change them."
    ),
    "moved": _("%(host)s says that it is at another address. Write that one."),
    "tls": _("The certificate of %(host)s is not valid."),
    "away": _("%(host)s can't be reached."),
    "late": _("%(host)s did not send it within %(n)d seconds."),
    "large": _("It is larger than %(n)d MiB. Put what is large on a volume instead."),
    "many": _("It holds more than %(n)d files. Put them on a volume instead."),
    "folder": _("There is no folder “%(folder)s” in it."),
    "link": _("“%(name)s” is a link to no file of it. Only files, and links to them, go along."),
    "no-git": _("Berth's worker has no git. Tell an operator."),
    "no-ssh": _("Berth's worker has no ssh. Tell an operator."),
    "other": _("git could not read %(where)s."),
}
PASSING = frozenset({"away", "late"})  # may be otherwise a moment later


class NotFetchedError(Exception):
    """``text`` with places for ``values``; ``passes``: another try may do better."""

    def __init__(self, text: str, values: dict[str, Any], *, passes: bool = False) -> None:
        super().__init__(text % values if values else text)
        self.text, self.values, self.passes = text, values, passes


@dataclass(frozen=True)
class Login:
    """``name`` is the credential's, for people. A token, or a private key with keys of its host."""

    name: str
    username: str
    token: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    known_hosts: tuple[str, ...] = ()


class Git:
    """Runs git in one folder, with one time for all of it."""

    def __init__(
        self, source: Repository, login: Login | None, folder: Path, goes_on: Callable[[], None]
    ) -> None:
        self.source, self.folder = source, folder
        self._login, self._goes_on = login, goes_on
        self._ends = time.monotonic() + SECONDS

    def look(self) -> None:
        """Raise where nobody waits for it any more."""
        self._goes_on()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    @contextlib.contextmanager
    def connection(self) -> Iterator[dict[str, str]]:
        """Give what leads to the one address that was looked at, and signs in there."""
        source, login = self.source, self._login
        host, port = split_host(source.host, default_port=PORT if source.is_ssh else HTTPS)
        try:
            policy = policy_for(source)
            if not policy.permits_port(host, port):
                raise self.wrong(_("Port %(port)d is not one that Berth connects to."), port=port)
            found = system_resolve(host, port, _RESOLVE_S)
        except OutboundError as error:
            raise NotFetchedError(error.text, error.values, passes=True) from None
        known = [str(one) for one in found if policy.permits(host, one, port)]
        if not known:
            raise self.wrong(
                _("%(host)s is not at a public address, and Berth asks only those."), host=host
            )
        if source.is_ssh:
            with self._ssh(host, port, known[0]) as words:
                around = _as_config([("protocol.ssh.allow", "always")])
                yield around | {"GIT_SSH_COMMAND": shlex.join(words), "GIT_SSH_VARIANT": "ssh"}
            return
        said = [("http.curloptResolve", f"{host}:{port}:{','.join(known)}")]
        if login is not None:
            pair = f"{login.username}:{login.token}".encode()
            header = f"Authorization: Basic {base64.b64encode(pair).decode()}"
            said.append((f"http.https://{source.host}/.extraHeader", header))
        believed = [certifi.where(), *filter(None, [settings.BERTH_OUTBOUND_CA_FILE])]
        self.write("ca.pem", "".join(Path(one).read_text() for one in believed))
        said.append(("http.sslCAInfo", str(self.folder / "ca.pem")))
        yield _as_config([("protocol.https.allow", "always"), *said])

    @contextlib.contextmanager
    def _ssh(self, host: str, port: int, address: str) -> Iterator[list[str]]:
        """Give the words of ``ssh``, which finds the key in the memory of this process."""
        if (login := self._login) is None:
            raise self.problem("no-key")
        if not login.known_hosts:
            raise self.problem("unknown-host", key=login.name)
        self.write("known_hosts", "".join(f"{host} {key}\n" for key in login.known_hosts))
        options = {
            "HostName": address,
            "HostKeyAlias": host,
            "Port": str(port),
            "User": self.source.user or login.username,
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
        }
        with open(os.memfd_create("key"), "wb") as held:  # noqa: PTH123 - it has no path
            os.fchmod(held.fileno(), 0o600)
            held.write(login.private_key.encode())
            held.flush()
            said = {
                **_SSH_FENCE,
                **options,
                "IdentityFile": f"/proc/{os.getpid()}/fd/{held.fileno()}",
            }
            yield ["ssh", "-F", "none", *(f"-o{name}={value}" for name, value in said.items())]

    def __call__(self, *words: str, env: dict[str, str] | None = None) -> str:
        """Return what git prints; NotFetchedError says what was wrong."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            with self._running(words, env or {}, out, said) as child:
                self._watch(child)
            said.seek(0)
            text = said.read(_TOLD).decode(errors="replace").lower()
            if child.returncode:
                raise self._told(words[0], child.returncode, text)
            out.seek(0)
            return out.read().decode("utf-8", "surrogateescape")

    @contextlib.contextmanager
    def reading(self, *words: str) -> Iterator[IO[bytes]]:
        """Give what git prints as it comes: it may be too large for this machine's disk."""
        with self._running(words, {}, subprocess.PIPE, subprocess.DEVNULL) as child:
            stream: Any = child.stdout
            yield stream
            stream.read()  # the padding of an archive
            if code := child.wait():
                raise self._told(words[0], code, "")

    @contextlib.contextmanager
    def _running(
        self, words: Sequence[str], env: dict[str, str], out: Any, said: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        left = max(1, round(self._ends - time.monotonic()))
        # which ends it too where nobody lives to do so
        argv = ["timeout", "--kill-after=1", str(left), "sh", "-c", _BOUNDED, *words]
        around = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        around |= {"HOME": str(self.folder), "GIT_DIR": str(self.folder), **_FENCE, **env}
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": said}
        try:
            child = subprocess.Popen(  # noqa: S603 - no shell has a word of it
                argv, cwd=self.folder, env=around, process_group=0, **streams
            )
        except FileNotFoundError:
            raise self.problem("no-git") from None
        try:
            with child:
                try:
                    yield child
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
        finally:
            child.wait()

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_S)
                return
            if time.monotonic() > self._ends:
                raise self.problem("late", n=SECONDS)
            if _size_of(self.folder) > 2 * settings.BERTH_PACKAGE_MIB * 2**20:
                raise self.problem("large", n=settings.BERTH_PACKAGE_MIB)
            self.look()

    def _told(self, verb: str, code: int, text: str) -> NotFetchedError:
        if code in {124, 137}:
            return self.problem("late", n=SECONDS)
        if code == 127:  # noqa: PLR2004 - as a shell says it
            return self.problem("no-git")
        if verb == "ls-tree":
            return self.problem("folder", folder=self.source.folder)
        word = next((word for part, word in _SAYINGS if part in text), "other")
        if word in {"closed", "host-key"} and self._login is not None:
            return self.problem(word.replace("closed", "key"), key=self._login.name)
        return self.problem(word)

    def problem(self, word: str, **values: Any) -> NotFetchedError:
        known = {"ref": self.source.ref or "HEAD", "where": self.source.where}
        known |= {"host": self.source.host, **values}
        text = PROBLEMS[word]
        said = {name: value for name, value in known.items() if f"%({name})" in text}
        return NotFetchedError(text, said, passes=word in PASSING)

    def wrong(self, text: str, **values: Any) -> NotFetchedError:
        return NotFetchedError(text, values)


def policy_for(source: Repository) -> Policy:
    """Return which addresses may be asked: the port of SSH is one that other ways out lack."""
    policy = policy_from_settings()
    return replace(policy, ports=policy.ports | {PORT}) if source.is_ssh else policy


def require_address(source: Repository) -> None:
    """Raise OutboundError for one that may not be asked; where a name leads is looked at later."""
    host = f"{source.host}:{PORT}" if source.is_ssh and ":" not in source.host else source.host
    with Client(policy_for(source)) as client:
        client.check(f"https://{host}/{source.path}")


def _as_config(said: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return settings of git as variables: no file of them lies anywhere."""
    said = (*_SETTINGS, *said)
    found = {"GIT_CONFIG_COUNT": str(len(said))}
    for number, (name, value) in enumerate(said):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


_SETTINGS = (
    ("protocol.allow", "never"),
    ("http.followRedirects", "false"),
    ("http.sslVerify", "true"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "30"),
    ("credential.helper", ""),
    ("core.hooksPath", os.devnull),
    ("core.bigFileThreshold", "16m"),
    ("fetch.unpackLimit", "1"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("transfer.bundleURI", "false"),
    ("pack.threads", "1"),
)
_SSH_FENCE = {
    "BatchMode": "yes",
    "ConnectTimeout": "15",
    "ControlPath": "none",
    "ForwardAgent": "no",
    "GlobalKnownHostsFile": "none",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "PermitLocalCommand": "no",
    "PreferredAuthentications": "publickey",
    "ProxyCommand": "none",
    "ServerAliveInterval": "10",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
}
_FENCE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    **_as_config(()),
}


def _size_of(folder: Path) -> int:
    found = 0
    with contextlib.suppress(OSError):  # it is being written
        for path in folder.rglob("*"):
            found += path.lstat().st_size
    return found
