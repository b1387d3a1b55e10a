"""One good credential of each kind, with canaries in its secrets."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

S3_SECRET = "canaryS3" + "k" * 32
COMPATIBLE_SECRET = "canary-compatible-Bq31"
TOKEN = "canary-session-token-Tx90-and-more"
REGISTRY = "canary-registry-Zq81"
GIT = "canary-git-token-Uh47"
HDFS = "canary-delegation-Lm28"
MLFLOW = "canary-mlflow-Kp53"
VALUE = "canary-value-Ow62"
FILE_VALUE = "canary-file-Rm15"
CANARIES = (S3_SECRET, COMPATIBLE_SECRET, TOKEN, REGISTRY, GIT, HDFS, MLFLOW, VALUE)


@cache
def rsa_pem() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def service_account(**more: Any) -> dict[str, Any]:
    """The file as Google makes it."""
    email = "loader@tests-1234.iam.gserviceaccount.com"
    return {
        "type": "service_account",
        "project_id": "tests-1234",
        "private_key_id": "0123456789abcdef0123456789abcdef01234567",
        "private_key": rsa_pem(),
        "client_email": email,
        "client_id": "123456789012345678901",
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": "https://oauth2.googleapis.com/token",
        "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
        "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/x",
        "universe_domain": "googleapis.com",
        **more,
    }


@cache
def ssh_key() -> str:
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


@cache
def host_key() -> str:
    """``type data`` of some host."""
    from cryptography.hazmat.primitives.serialization import PublicFormat

    public = ed25519.Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def ssh_canary(text: str) -> str:
    """The part of a key's text that holds its seed and stays the same when written anew."""
    return text.splitlines()[4][:60]


def fields(kind: str, **more: Any) -> dict[str, Any]:
    """What somebody types into the form of one kind."""
    return {**_FIELDS[kind](), **more}


_FIELDS = {
    "s3": lambda: {
        "access_key": "AKIAIOSFODNN7EXAMPLE",
        "secret_key": S3_SECRET,
        "region": "eu-central-1",
    },
    "s3-compatible": lambda: {
        "endpoint": "https://s3.example.com",
        "access_key": "loader",
        "secret_key": COMPATIBLE_SECRET,
        "session_token": TOKEN,
    },
    "gcs": lambda: {"key": json.dumps(service_account())},
    "hdfs": lambda: {
        "endpoint": "https://namenode.example.com:9871",
        "username": "ann",
        "delegation_token": HDFS,
    },
    "mlflow": lambda: {
        "endpoint": "https://mlflow.example.com",
        "username": "ann",
        "password": MLFLOW,
    },
    "registry": lambda: {
        "host": "registry.example.com",
        "username": "robot",
        "password": REGISTRY,
    },
    "git": lambda: {"host": "git.example.com", "username": "robot", "token": GIT},
    "ssh": lambda: {
        "host": "git.example.com",
        "user": "git",
        "private_key": ssh_key(),
        "known_hosts": f"git.example.com {host_key()}",
    },
    "generic": lambda: {"values": {"API_TOKEN": VALUE, "OTHER": "two\nlines"}},
}
KINDS = tuple(_FIELDS)


def secrets_of(kind: str) -> tuple[str, ...]:
    """What must be seen nowhere after ``fields(kind)`` was stored."""
    return {
        "s3": (S3_SECRET,),
        "s3-compatible": (COMPATIBLE_SECRET, TOKEN),
        "gcs": (rsa_pem().splitlines()[5],),
        "hdfs": (HDFS,),
        "mlflow": (MLFLOW,),
        "registry": (REGISTRY,),
        "git": (GIT,),
        "ssh": (ssh_canary(ssh_key()),),
        "generic": (VALUE,),
    }[kind]


def spelled(secret: str) -> tuple[str, ...]:
    return secret, base64.b64encode(secret.encode()).decode().rstrip("=")
