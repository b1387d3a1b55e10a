"""Whether a host takes what it is shown: Git a token, SSH a key, a registry a sign-in."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpcore
from django.utils.translation import gettext as _

from common.oci import SENTENCES, ImageProblem, Login, Problem, Registry
from common.outbound import (
    Answer,
    Bounds,
    Client,
    Deadline,
    GuardedBackend,
    OutboundError,
    Trouble,
    policy_from_settings,
    split_host,
    system_resolve,
)
from credentials.kinds.git import PORT, known_host
from credentials.kinds.stores import policy_of_stores
from credentials.models import Sentence
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_SERVICE = "application/x-git-upload-pack-advertisement"
# Hosts whose API is elsewhere; the others have it at their own address.
_GITHUB = {"github.com": "https://api.github.com/user"}


def git_tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    host, path = str(public["host"]), str(public.get("repository", ""))
    pair = f"{public['username']}:{secret['token']}"
    basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
    with Client(policy_of_stores(), Bounds(seconds=SECONDS)) as client:
        if path:
            return _repository(client, host, path, basic)
        return _person(client, host, secret["token"])


def _repository(client: Client, host: str, path: str, basic: str) -> Verdict:
    url = f"https://{host}/{path}.git/info/refs?service=git-upload-pack"
    named = {"path": path}
    if _is_refs(client.request("GET", url)):
        text = Sentence(_("Everybody may read “%(path)s”, so the token was not asked for."), named)
        return verdict.unknown(text)
    answer = client.request("GET", url, headers={"Authorization": basic})
    if _is_refs(answer):
        return verdict.accepted(Sentence(_("The token opens “%(path)s”."), named))
    if answer.status == _UNAUTHORIZED:
        return verdict.refused(_("The host does not accept this token."))
    if answer.status in {_FORBIDDEN, _NOT_FOUND}:
        text = Sentence(
            _("The token does not open “%(path)s”, or there is no such repository."), named
        )
        return verdict.refused(text)
    return verdict.unknown(_("What answers there is not a host of Git."))


def _is_refs(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    return answer.status == _OK and kind == _SERVICE


def _person(client: Client, host: str, token: str) -> Verdict:
    """Without a repository: the ways in which GitHub, GitLab and Gitea say who one is."""
    bearer = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    urls = (
        [_GITHUB[host]]
        if host in _GITHUB
        else [f"https://{host}/api/{version}/user" for version in ("v4", "v1")]
    )
    for url in urls:
        answer = client.request("GET", url, headers=bearer)
        kind = answer.headers.get("content-type", "")
        if answer.status == _OK and kind.startswith("application/json"):
            return verdict.accepted(_("The host accepts this token."))
        if answer.status == _UNAUTHORIZED and kind.startswith("application/json"):
            return verdict.refused(_("The host does not accept this token."))
        if answer.status == _FORBIDDEN and kind.startswith("application/json"):
            break
    return verdict.unknown(_("The host does not tell without a repository. Name one to test with."))


def ssh_tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    if not public.get("host"):
        return verdict.unknown(_("The key is well formed. No host was named that could be asked."))
    host, port = split_host(str(public["host"]), default_port=PORT)
    deadline = Deadline(time.monotonic() + SECONDS)  # of both: who asks waits no longer
    opened = _connected(host, port, deadline)
    try:
        return asyncio.run(_signed_in(opened, host, port, public, secret, deadline.left()))
    finally:
        opened.close()


def _connected(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Open a socket to an address that may be reached, or raise OutboundError."""
    policy = policy_from_settings()
    policy = replace(policy, ports=policy.ports | {PORT})
    if not policy.permits_port(host, port):
        text = _("Port %(port)d is not one that Berth connects to.")
        raise OutboundError(Trouble.REFUSED, text, {"port": port})
    backend = GuardedBackend(policy, deadline, system_resolve)
    try:
        found = backend.connect_tcp(host, port).get_extra_info("socket")
    except httpcore.TimeoutException:
        raise OutboundError(Trouble.TIMEOUT, _("It did not answer in time.")) from None
    except (httpcore.NetworkError, OSError):
        raise OutboundError(Trouble.UNREACHABLE, _("It can't be reached.")) from None
    assert isinstance(found, socket.socket)  # noqa: S101 - what this backend opens
    return found


async def _signed_in(
    opened: socket.socket,
    host: str,
    port: int,
    public: Mapping[str, Any],
    secret: Mapping[str, str],
    seconds: float,
) -> Verdict:
    import asyncssh  # a sixth of any process's start, and the gate alone asks this

    keys = public.get("known_hosts") or ()
    lines = "".join(f"{known_host(str(public['host']))} {key}\n" for key in keys)
    try:
        connection = await asyncio.wait_for(
            asyncssh.connect(
                host,
                port,
                sock=opened,
                username=str(public.get("user") or "git"),
                client_keys=[asyncssh.import_private_key(secret["private_key"])],
                known_hosts=asyncssh.import_known_hosts(lines) if lines else None,
                # nothing of the machine that asks: no settings, agent, tickets or other keys
                config=None,
                agent_path=None,
                gss_host=None,
                preferred_auth=["publickey"],
            ),
            seconds,
        )
    except asyncssh.PermissionDenied:
        return verdict.refused(_("The host does not accept this key for this user."))
    except asyncssh.HostKeyNotVerifiable:
        return verdict.refused(_("The host shows another key than the ones that were stored."))
    except TimeoutError:
        return verdict.unknown(_("The host did not answer in time."))
    except (asyncssh.Error, OSError):
        return verdict.unknown(_("What answers there does not speak SSH."))
    shown = connection.get_server_host_key()
    connection.abort()
    if lines or shown is None:
        return verdict.accepted(_("The host accepts this key."))
    text = _("The host accepts this key. It showed %(print)s: compare it, and store its key too.")
    return verdict.accepted(Sentence(text, {"print": shown.get_fingerprint()}))


def registry_tried(host: str, login: Login) -> Verdict:
    try:
        with Registry(host, policy_from_settings(), login=login, seconds=SECONDS) as registry:
            asked = registry.sign_in()
    except ImageProblem as problem:
        if problem.problem in {Problem.WRONG_LOGIN, Problem.SIGN_IN}:
            return verdict.refused(_("The registry does not accept this sign-in."))
        said = _sentence(problem.problem, problem.facts)
        return verdict.unknown(said) if problem.uncertain else verdict.refused(said)
    except OutboundError as error:
        if error.trouble is Trouble.REFUSED:  # as of every kind: it fails until it is allowed
            return verdict.refused(_sentence(Problem.REFUSED, {"why": error.message}))
        return verdict.unknown(_sentence(Problem.UNREACHABLE, {"why": error.message}))
    if not asked:
        text = _("The registry lets everybody in, so the sign-in was not asked for.")
        return verdict.accepted(text)
    return verdict.accepted(_("The registry accepts this sign-in."))


def _sentence(problem: Problem, facts: Mapping[str, object]) -> Sentence:
    return Sentence(str(SENTENCES[problem]), {name: str(value) for name, value in facts.items()})
