"""``berth-server secrets``: what an installation needs to be secret, made once.

Without options: lines for an environment file. ``--kubernetes NAME``: into a Secret of the
namespace that this pod runs in; what is there already is never replaced.
"""

import base64
import json
import os
import secrets
import ssl
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from portal.server.paths import Paths, Refusal

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PASSWORDS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "BERTH_METRICS_TOKEN", "BERTH_ADMIN_PASSWORD")
_TIMEOUT_S = 20
_OK, _MISSING, _CONFLICT = 200, 404, 409


def made() -> dict[str, str]:
    """Every secret, fresh. Safe inside an address: letters, digits, ``-`` and ``_`` only."""
    with tempfile.TemporaryDirectory() as folder:
        places = Paths(Path(folder))
        places.ensure_secrets()
        values: dict[str, str] = json.loads(places.secrets.read_text())
    return {**values, **{name: secrets.token_urlsafe(24) for name in PASSWORDS}}


def print_lines() -> int:
    for name, value in made().items():
        print(f"{name}={value}", flush=True)
    return 0


def host_key() -> str:
    """What the SSH gate shows people; all replicas must show the same."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.generate()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        .decode()
    )


def into_secret(name: str) -> int:
    """Make the Secret, or add what a newer version needs besides."""
    namespace = _read("namespace")
    path = f"/api/v1/namespaces/{namespace}/secrets"
    values = {**made(), "BERTH_SSH_HOST_KEY": host_key()}
    fresh = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    status, found = _ask("GET", f"{path}/{name}")
    if status == _MISSING:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": _metadata(name), "data": fresh}
        status, found = _ask("POST", path, body)
        if status != _CONFLICT:
            return _told(status, found, f"made the Secret {name}.")
        status, found = _ask("GET", f"{path}/{name}")
    have = found.get("data") or {}
    lacking = {key: value for key, value in fresh.items() if key not in have}
    if not lacking:
        return _told(status, found, f"the Secret {name} has everything.")
    # A half of a pair from another making would open nothing.
    if any(("CLUSTER_P" in key) for key in lacking) and any("CLUSTER_P" in key for key in have):
        message = f"The Secret {name} has one half of the cluster keys; restore the other."
        raise Refusal(message)
    status, found = _ask("PATCH", f"{path}/{name}", {"data": lacking})
    return _told(status, found, f"added to the Secret {name}: {', '.join(sorted(lacking))}.")


class SecretRecord:
    """Which installation this is, in the Secret of its keys (``portal.server.installation``)."""

    KEY = "BERTH_INSTALLATION"

    def __init__(self, name: str) -> None:
        self.where = f"the Secret {name}"
        self._path = f"/api/v1/namespaces/{_read('namespace')}/secrets/{name}"

    def read(self) -> str:
        status, found = _ask("GET", self._path)
        if status != _OK:
            # where it may not be read (a Secret of the operators' own), there is no record
            say = found.get("message", "")
            print(f"berth: {self.where} can't be read ({status} {say})", flush=True)
            return ""
        text = (found.get("data") or {}).get(self.KEY, "")
        return base64.b64decode(text).decode(errors="replace")

    def write(self, uid: str) -> None:
        body = {"data": {self.KEY: base64.b64encode(uid.encode()).decode()}}
        status, found = _ask("PATCH", self._path, body)
        if status != _OK:
            say = found.get("message", "")
            print(f"berth: {self.where} can't be written ({status} {say})", flush=True)


def _metadata(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}
    return {"name": name, "labels": labels}


def _told(status: int, answer: dict[str, Any], sentence: str) -> int:
    if status >= 300:  # noqa: PLR2004 - not a success
        message = f"The API server answered {status}: {answer.get('message', '')}"
        raise Refusal(message)
    print(f"berth: {sentence}", flush=True)
    return 0


def _read(name: str) -> str:
    try:
        return (ACCOUNT / name).read_text().strip()
    except OSError as error:
        message = "There is no service account in this container; is it a pod?"
        raise Refusal(message) from error


def _ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = urllib.request.Request(
        f"https://{host}:{port}{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {_read('token')}", "Content-Type": kind},
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            return error.code, json.load(error)
        except ValueError:
            return error.code, {}
    except OSError as error:
        message = f"The API server does not answer ({error})."
        raise Refusal(message) from error
