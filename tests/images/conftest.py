"""A registry of a test's own: what it holds, whom it lets in, and how it lies."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.common.conftest import Server, say, serve  # noqa: F401 - a fixture

URL = "/api/v1/projects/vision/images/check"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test fails because a registry on loopback was asked while the machine stood still."""
    from images import lookup

    monkeypatch.setattr(lookup, "SECONDS", 60.0)


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Registry:
    """Answers ``/v2/…`` from what was put in. ``login``: (user, password) that it asks for.

    ``mode``: ``open``, ``basic`` or ``token`` (then ``realm`` hands out the token).
    """

    TOKEN = "a-token-of-the-registry"

    def __init__(self) -> None:
        self.things: dict[str, tuple[bytes, str]] = {}
        self.mode = "open"
        self.login = ("robot", "secret")
        self.realm = ""
        self.redirect = ""  # blobs lie there
        self.server: Any = None

    @property
    def host(self) -> str:
        return f"{self.server.host}:{self.server.port}"

    @property
    def asked(self) -> list[tuple[str, str, dict[str, str]]]:
        found: list[tuple[str, str, dict[str, str]]] = self.server.asked
        return found

    def put(self, body: bytes, kind: str, *names: str) -> str:
        digest = digest_of(body)
        for name in (digest, *names):
            self.things[name] = (body, kind)
        return digest

    def image(
        self,
        tag: str = "1",
        *,
        architecture: str = "amd64",
        os: str = "linux",
        sizes: Any = (1000, 2000),
        config_type: str = CONFIG,
        **run: Any,
    ) -> str:
        config = json.dumps(
            {"architecture": architecture, "os": os, "config": run, "rootfs": {}}
        ).encode()
        digest = self.put(config, config_type)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": config_type, "digest": digest, "size": len(config)},
            "layers": [
                {"mediaType": LAYER, "digest": "sha256:" + "0" * 64, "size": n} for n in sizes
            ],
        }
        return self.put(json.dumps(manifest).encode(), MANIFEST, tag)

    def index(self, tag: str, **digests: str) -> str:
        entries = [
            {"mediaType": MANIFEST, "digest": d, "platform": {"os": "linux", "architecture": a}}
            for a, d in digests.items()
        ]
        entries.append(
            {
                "digest": "sha256:" + "1" * 64,
                "platform": {"os": "unknown", "architecture": "unknown"},
            }
        )
        body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self.put(json.dumps(body).encode(), INDEX, tag)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        if path == "/token":
            return self._token(handler)
        if not self._let_in(handler):
            return self._challenge(handler)
        if path == "/v2/":
            return say(b"{}")(handler)
        name = path.rpartition("/")[2]
        if "/blobs/" in path and self.redirect:
            return say(b"", 307, Location=f"{self.redirect}/{name}")(handler)
        if name not in self.things:
            return say(b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', 404)(handler)
        body, kind = self.things[name]
        return say(body, Content_Type=kind)(handler)

    def _let_in(self, handler: BaseHTTPRequestHandler) -> bool:
        said = handler.headers.get("Authorization", "")
        basic = base64.b64encode(":".join(self.login).encode()).decode()
        wanted = {"open": said, "basic": f"Basic {basic}", "token": f"Bearer {self.TOKEN}"}
        return said == wanted[self.mode]

    def _challenge(self, handler: BaseHTTPRequestHandler) -> None:
        scheme = {
            "basic": 'Basic realm="registry"',
            "token": f'Bearer realm="{self.realm}",service="registry"',
        }[self.mode]
        say(b"{}", 401, WWW_Authenticate=scheme)(handler)

    def _token(self, handler: BaseHTTPRequestHandler) -> None:
        basic = base64.b64encode(":".join(self.login).encode()).decode()
        if handler.headers.get("Authorization") != f"Basic {basic}":
            return say(b"{}", 401)(handler)
        return say(json.dumps({"token": self.TOKEN}).encode())(handler)


@pytest.fixture
def registry(serve: Callable[..., Server], settings: Any) -> Registry:  # noqa: F811
    """A registry that the operator named: plain http, on a loopback address."""
    made = Registry()
    made.server = serve(made.answer)
    made.realm = f"http://{made.host}/token"
    settings.BERTH_INSECURE_REGISTRIES = [made.host]
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["asked and answered in one process"]
    return made


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    from django.core.cache import cache

    cache.clear()


@pytest.fixture
def check(project: Any, bob: Any, as_user: Any) -> Any:
    client = as_user(bob)

    def ask(image: str, **more: Any) -> dict[str, Any]:
        body = json.dumps({"image": image, **more})
        answer = client.post(URL, body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    return ask


@pytest.fixture
def signed_in(registry: Registry, project: Any, alice: Any, principal: Any) -> Any:
    """The project has a sign-in for the registry."""
    from credentials.services import Label, credential_add

    return credential_add(
        principal=principal(alice),
        project=project,
        kind="registry",
        label=Label("ours"),
        fields={
            "host": registry.host,
            "username": registry.login[0],
            "password": registry.login[1],
        },
    )
