"""Kubeconfigs for tests: a good one with a canary inside, and the hostile ones of C1."""

import base64
import datetime as dt
from functools import cache
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

CANARY = "canary-5d1f2b7c9e-token"


@cache
def authority() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test cluster")])
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode()


def document(**user: Any) -> dict[str, Any]:
    ca = base64.b64encode(authority().encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://k8s.example.org:6443",
                    "certificate-authority-data": ca,
                },
            }
        ],
        "users": [{"name": "u", "user": user or {"token": CANARY}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def good(server: str = "") -> str:
    made = document()
    if server:
        made["clusters"][0]["cluster"]["server"] = server
    return yaml.safe_dump(made)


def hostile(marker: str, canary_file: str) -> dict[str, str]:
    """C1: each would run a command, read a file of the portal's, or leave the way we check."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch",
        "args": [marker],
        "interactiveMode": "Never",
    }
    users = {
        "exec": {"exec": command},
        "exec-beside-token": {"token": "t", "exec": command},
        "auth-provider": {"auth-provider": {"name": "gcp", "config": {"cmd-path": marker}}},
        "token-file": {"tokenFile": canary_file},
        "certificate-file": {"client-certificate": canary_file, "client-key": canary_file},
        "password": {"username": "admin", "password": "x"},
    }
    found = {name: yaml.safe_dump(document(**user)) for name, user in users.items()}
    for name, value in (
        ("proxy-url", "http://127.0.0.1:9"),
        ("insecure-skip-tls-verify", True),
        ("certificate-authority", canary_file),
    ):
        made = document()
        made["clusters"][0]["cluster"][name] = value
        found[name] = yaml.safe_dump(made)
    several = document()
    several["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "u"}})
    found["several-contexts"] = yaml.safe_dump(several)
    found["yaml-tag"] = f"!!python/object/apply:os.system ['touch {marker}']\n" + good()
    found["huge"] = good() + "#" + "x" * 70_000
    found["not-yaml"] = "{["
    return found
