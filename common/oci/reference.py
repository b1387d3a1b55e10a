"""Names of images, read strictly: what a person means, in the one spelling that is pinned."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from common.outbound import OutboundError, split_host

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


def parse(text: str) -> Reference:
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
