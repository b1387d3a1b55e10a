"""Asking a registry, by the one way out. Knows the distribution protocol and no tenant.

Sign-in by Basic or by a token that the registry's ``realm`` hands out; the realm is an address
that the registry wrote, so it is reached by the same checked client. Blobs may lie elsewhere:
then that address is asked in turn, checked again and without any sign-in.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit

from common.oci.problems import ImageProblem, Problem
from common.oci.reference import DOCKER, DOCKER_API, Reference
from common.outbound import Answer, Bounds, Client, OutboundError, Policy, split_host

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
OLD = "application/vnd.docker.distribution.manifest.v1"
HOPS = 3
TOKEN_MAX = 32 * 1024
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _ERRORS = 200, 401, 403, 404, 429, 500
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PARAMETER = re.compile(r'([a-z]+)="([^"\\]{0,2000})"')
_DIGEST = re.compile(r"\Asha256:[0-9a-f]{64}\Z")


def is_digest(text: str) -> bool:
    """Only such a text becomes part of an address: it was written by a registry."""
    return bool(_DIGEST.match(text))


@dataclass(frozen=True)
class Login:
    username: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


@dataclass(frozen=True)
class Document:
    """A JSON document whose digest was computed here, not believed."""

    digest: str
    media_type: str
    data: Mapping[str, Any]


class Registry:
    """One registry for the length of one check. Use as a context manager."""

    def __init__(
        self, host: str, policy: Policy, *, login: Login | None = None, seconds: float = 5.0
    ) -> None:
        self.host = host
        self._login = login
        self._policy = policy
        self._client = Client(policy, Bounds(seconds=seconds))
        self._insecure = split_host(host, default_port=80) in policy.hosts
        self._base = f"{'http' if self._insecure else 'https'}://{_api_host(host)}"
        self._authorization = ""

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._client.close()

    def sign_in(self) -> bool:
        """Raise ImageProblem unless the sign-in is let in; False: it was not asked for."""
        answer = self._get("/v2/", "", {})
        if answer.status != _OK:
            raise self._problem(answer.status)
        return bool(self._authorization)

    def manifest(self, reference: Reference, digest: str = "") -> Document:
        """Return the manifest or index; ``digest`` asks for another one of the same image."""
        if digest and not is_digest(digest):
            raise ImageProblem(Problem.NOT_AN_IMAGE)
        asked = digest or reference.asked
        accept = ", ".join((*INDEXES, *MANIFESTS))
        scope = f"repository:{reference.path}:pull"
        path = f"/v2/{reference.path}/manifests/{asked}"
        answer = self._get(path, scope, {"Accept": accept})
        if answer.status != _OK:
            raise self._problem(answer.status)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip()
        return self._document(answer.body, kind, asked if asked.startswith("sha256:") else "")

    def config(self, reference: Reference, digest: str) -> Document:
        """Return the image's configuration, which is a blob like any other."""
        if not is_digest(digest):
            raise ImageProblem(Problem.NOT_AN_IMAGE)
        scope = f"repository:{reference.path}:pull"
        answer = self._get(f"/v2/{reference.path}/blobs/{digest}", scope, {})
        url = self._base
        for _hop in range(HOPS):
            if answer.status not in _REDIRECTS:
                break
            url = urljoin(url, answer.headers.get("location", ""))
            answer = self._client.request("GET", url, insecure=self._may_be_plain(url))
        if answer.status != _OK:
            raise self._problem(answer.status)
        return self._document(answer.body, "", digest)

    def _document(self, body: bytes, kind: str, asked: str) -> Document:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if asked and digest != asked:
            raise ImageProblem(Problem.DAMAGED)
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise ImageProblem(Problem.NOT_AN_IMAGE) from None
        if not isinstance(data, dict):
            raise ImageProblem(Problem.NOT_AN_IMAGE)
        return Document(digest, str(data.get("mediaType") or kind), data)

    def _get(self, path: str, scope: str, headers: Mapping[str, str]) -> Answer:
        """Ask; when told to sign in, do it once and ask again."""
        answer = self._ask(path, headers)
        if answer.status != _UNAUTHORIZED:
            return answer
        challenge = answer.headers.get("www-authenticate", "")
        scheme, _space, rest = challenge.partition(" ")
        if scheme.lower() == "bearer":
            self._authorization = f"Bearer {self._token(dict(_PARAMETER.findall(rest)), scope)}"
        elif scheme.lower() == "basic" and self._login is not None:
            self._authorization = self._login.basic
        else:
            return answer
        return self._ask(path, headers)

    def _ask(self, path: str, headers: Mapping[str, str]) -> Answer:
        sent = dict(headers)
        if self._authorization:
            sent["Authorization"] = self._authorization
        return self._client.request("GET", self._base + path, headers=sent, insecure=self._insecure)

    def _token(self, challenge: Mapping[str, str], scope: str) -> str:
        realm = challenge.get("realm", "")
        query = {"service": challenge["service"]} if challenge.get("service") else {}
        if scope:
            query["scope"] = scope
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}" if query else realm
        headers = {"Authorization": self._login.basic} if self._login else {}
        answer = self._client.request("GET", url, headers=headers, insecure=self._may_be_plain(url))
        if answer.status != _OK:
            raise self._problem(answer.status)
        try:
            said = json.loads(answer.body)
            token = said.get("token") or said.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not 0 < len(token) <= TOKEN_MAX or not token.isprintable():
            raise ImageProblem(Problem.NOT_A_REGISTRY)
        return token

    def _may_be_plain(self, url: str) -> bool:
        """Plain http only to what the operator named, whoever points there."""
        try:
            return split_host(urlsplit(url).netloc, default_port=80) in self._policy.hosts
        except (OutboundError, ValueError):
            return False

    def _problem(self, status: int) -> ImageProblem:
        if status in {_UNAUTHORIZED, _FORBIDDEN}:
            return ImageProblem(Problem.WRONG_LOGIN if self._login else Problem.SIGN_IN)
        if status == _NOT_FOUND:
            return ImageProblem(Problem.NOT_FOUND)
        if status == _TOO_MANY or status >= _ERRORS:
            return ImageProblem(Problem.BUSY)
        return ImageProblem(Problem.NOT_A_REGISTRY)


def _api_host(host: str) -> str:
    return DOCKER_API if host == DOCKER else host
