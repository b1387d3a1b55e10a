"""Images and their registries: how they are named, and how one is asked about them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from common.outbound import Answer, Bounds, Client, OutboundError, split_host
from dataplane.addresses import Policy


class Problem(StrEnum):
    BAD_REFERENCE = "bad-reference"
    NOT_FOUND = "not-found"
    SIGN_IN = "sign-in"
    WRONG_LOGIN = "wrong-login"
    WRONG_ARCHITECTURE = "wrong-architecture"
    TOO_LARGE = "too-large"
    NOT_AN_IMAGE = "not-an-image"
    OLD_FORMAT = "old-format"
    DAMAGED = "damaged"
    NO_SINGLEUSER = "no-singleuser"
    OLD_SINGLEUSER = "old-singleuser"
    # What is no fault of the image, and may be otherwise in a minute or from a node.
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    NOT_A_REGISTRY = "not-a-registry"
    BUSY = "busy"


# The registry did not say: the image may be there.
UNCERTAIN = frozenset({Problem.REFUSED, Problem.UNREACHABLE, Problem.NOT_A_REGISTRY, Problem.BUSY})

SENTENCES: dict[Problem, Promise] = {
    Problem.BAD_REFERENCE: _("This is not the name of an image, as in ghcr.io/team/image:1.0."),
    Problem.NOT_FOUND: _("The registry has no such image or tag. Check the spelling."),
    Problem.SIGN_IN: _(
        "The registry asks for a sign-in, or has no such image. Store a credential for it in"
        " the project."
    ),
    Problem.WRONG_LOGIN: _(
        "The registry does not accept the project's credential for this image. Rotate the"
        " credential, or ask for the right to pull."
    ),
    Problem.WRONG_ARCHITECTURE: _("The image is for %(has)s; the machines here are %(want)s."),
    Problem.TOO_LARGE: _(
        "The image has %(size)s\N{NO-BREAK SPACE}GiB; at most %(limit)s\N{NO-BREAK SPACE}GiB are"
        " pulled here."
    ),
    Problem.NOT_AN_IMAGE: _("This is something else than a container image."),
    Problem.OLD_FORMAT: _(
        "The image is kept in a format that is no longer pulled. Push it again with a tool of"
        " this decade."
    ),
    Problem.DAMAGED: _("The registry sent something else than it was asked for."),
    Problem.NO_SINGLEUSER: _(
        "The image has no jupyterhub-singleuser, so it can't be a notebook. Install jupyterhub"
        " in it, or start it as a container."
    ),
    Problem.OLD_SINGLEUSER: _(
        "The image has jupyterhub %(has)s; notebooks need 4.0 or newer. Install a newer one, or"
        " start it as a container."
    ),
    Problem.REFUSED: _("Berth does not ask this address: %(why)s"),
    Problem.UNREACHABLE: _("The registry could not be asked: %(why)s"),
    Problem.NOT_A_REGISTRY: _("What answers there is not a registry."),
    Problem.BUSY: _("The registry refuses further questions for a while. Try again later."),
}


class ImageProblem(Exception):  # noqa: N818 - said to a person
    """An image that will not do, or that could not be looked at."""

    def __init__(self, problem: Problem, **facts: object) -> None:
        self.problem = problem
        self.facts = facts
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        text = str(SENTENCES[self.problem])
        return text % self.facts if self.facts else text

    @property
    def uncertain(self) -> bool:
        return self.problem in UNCERTAIN


LENGTH_MAX = 512
DOCKER = "docker.io"
DOCKER_API = "registry-1.docker.io"
HTTPS_PORT = 443
# The names under which people know the one registry that has several.
_DOCKER_NAMES = {DOCKER, DOCKER_API, "index.docker.io", "hub.docker.com"}
_PART = re.compile(r"\A[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*\Z")
_TAG = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = re.compile(r"\Asha256:[0-9a-f]{64}\Z")


class BadReference(ValueError):  # noqa: N818 - said to a person
    """Not the name of an image."""


@dataclass(frozen=True)
class Reference:
    """``host`` may carry a port. Without tag and digest the tag is ``latest``."""

    host: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.path}{tag}{digest}"

    @property
    def asked(self) -> str:
        """What the registry is asked for: the digest wins."""
        return self.digest or self.tag

    def pinned(self, digest: str) -> str:
        """Return the name that always means the same bytes."""
        return str(replace(self, tag="", digest=digest))


def parse_reference(text: str) -> Reference:
    """Read ``[host[:port]/]path[:tag][@digest]``, or raise BadReference."""
    if not text or len(text) > LENGTH_MAX or not text.isascii() or not text.isprintable():
        raise BadReference(text)
    name, at, digest = text.partition("@")
    if at and not _DIGEST.match(digest):
        raise BadReference(text)
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.match(tag):
        raise BadReference(text)
    host, path = _split(f"{head}{slash}{last}")
    if not all(_PART.match(part) for part in path.split("/")):
        raise BadReference(text)
    return Reference(host, path, tag or ("" if digest else "latest"), digest)


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return DOCKER, name if slash else f"library/{name}"
    host = host_of(first)
    if host == DOCKER and "/" not in rest:
        rest = f"library/{rest}"
    return host, rest


def host_of(text: str) -> str:
    """Return a registry's ``host[:port]`` in one spelling, or raise BadReference."""
    try:
        host, port = split_host(text, default_port=HTTPS_PORT)
    except OutboundError:
        raise BadReference(text) from None
    if host in _DOCKER_NAMES and port == HTTPS_PORT:
        return DOCKER
    shown = f"[{host}]" if ":" in host else host
    # "localhost:443" without its port would be read as a folder of another registry
    named = "." in shown or ":" in shown or shown == "localhost"
    return shown if port == HTTPS_PORT and named else f"{shown}:{port}"


# Asking a registry, by the one way out. Knows the distribution protocol and no tenant.
#
# Sign-in by Basic or by a token that the registry's ``realm`` hands out; the realm is an address
# that the registry wrote, so it is reached by the same checked client. Blobs may lie elsewhere:
# then that address is asked in turn, checked again and without any sign-in.


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
        scheme = "http" if self._insecure else "https"
        self._base = f"{scheme}://{DOCKER_API if host == DOCKER else host}"
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
