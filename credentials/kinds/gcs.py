"""Keys of service accounts of Google Cloud.

Google's libraries do what the file says: run a command, read a file of the machine, send the
signed request wherever it points. So only the one harmless type is taken, its addresses must be
Google's own (or the operator's, for tests), and what is kept is written anew (D4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from django.conf import settings
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from credentials.choices import CredentialKind
from credentials.kinds.base import SECRET_MAX, Field, Given, Kind, Part, Read, Shape
from credentials.kinds.stores import BUCKET, bucket_of

TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
ENDPOINT = "https://storage.googleapis.com"
UNIVERSE = "googleapis.com"
_TYPE = "service_account"
_MIN_BITS, _MAX_BITS = 2048, 8192
_CERTS = "https://www.googleapis.com/oauth2/v1/certs"
_CERT_OF = "https://www.googleapis.com/robot/v1/metadata/x509/"
_AUTH_URIS = frozenset(
    {"https://accounts.google.com/o/oauth2/auth", "https://accounts.google.com/o/oauth2/v2/auth"}
)
_TOKEN_URIS = frozenset(
    {
        TOKEN_URI,
        "https://accounts.google.com/o/oauth2/token",
        "https://www.googleapis.com/oauth2/v4/token",
    }
)
_EMAIL = re.compile(r"\A[a-z0-9][a-z0-9._-]{0,99}@[a-z0-9.-]{1,150}\.gserviceaccount\.com\Z")
_PROJECT = re.compile(r"\A[a-z0-9][a-z0-9.:-]{2,98}[a-z0-9]\Z")
_KEY_ID = re.compile(r"\A[A-Za-z0-9]{1,64}\Z")
_CLIENT_ID = re.compile(r"\A[0-9]{0,40}\Z")
_KNOWN = frozenset(
    {
        *("type", "project_id", "private_key_id", "private_key", "client_email", "client_id"),
        *("auth_uri", "token_uri", "auth_provider_x509_cert_url", "client_x509_cert_url"),
        "universe_domain",
    }
)


def token_uri() -> str:
    """Return where tokens are asked for: Google's, unless the operator's tests say otherwise."""
    return str(settings.BERTH_GCS_TOKEN_URI) or TOKEN_URI


def endpoint() -> str:
    return str(settings.BERTH_GCS_ENDPOINT).rstrip("/") or ENDPOINT


def key_file(public: Mapping[str, Any], secret: Mapping[str, str]) -> dict[str, str]:
    """Return the file that Google's libraries expect, with nothing in it that a user wrote."""
    email = str(public["client_email"])
    return {
        "type": _TYPE,
        "project_id": str(public["project_id"]),
        "private_key_id": str(public["private_key_id"]),
        "private_key": secret["private_key"],
        "client_email": email,
        "client_id": secret.get("client_id", ""),
        "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        "token_uri": token_uri(),
        "auth_provider_x509_cert_url": _CERTS,
        "client_x509_cert_url": _CERT_OF + email.replace("@", "%40"),
        "universe_domain": UNIVERSE,
    }


def _secret(given: Given) -> Read:
    found = _parsed(given.get("key"))
    _check_type(found)
    _check_addresses(found)
    said = {name: found.get(name, "").strip() for name in ("project_id", "client_email")}
    for name, pattern in (("client_email", _EMAIL), ("project_id", _PROJECT)):
        if not pattern.match(said[name]):
            raise _no_key(_t("Its “%(name)s” is missing or damaged.") % {"name": name})
    key_id, client_id = found.get("private_key_id", ""), found.get("client_id", "")
    if not _KEY_ID.match(key_id) or not _CLIENT_ID.match(client_id):
        raise _no_key(_t("Its “%(name)s” is missing or damaged.") % {"name": "private_key_id"})
    return Read(
        {**said, "private_key_id": key_id},
        {"private_key": _pem(found.get("private_key", "")), "client_id": client_id},
    )


def _parsed(value: Any) -> dict[str, str]:
    """Read the JSON: one object of texts, each name once."""
    if not isinstance(value, str) or not value.strip():
        raise _no_key(_t("Paste the file, or choose it."))
    if len(value) > SECRET_MAX:
        raise _no_key(_t("It is longer than any such file."))
    try:
        found = json.loads(value, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _no_key(_t("It is not JSON, or only a part of it.")) from None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise _no_key(_t("It is not the file of a key."))
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers may take different ones of two equal names, so there must not be two."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _check_type(found: Mapping[str, str]) -> None:
    kind = found.get("type", "")
    if kind != _TYPE:
        raise _no_key(
            _t(
                "Its type is “%(kind)s”. Only the key of a service account is taken: other types"
                " read files or ask addresses of whatever machine uses them."
            )
            % {"kind": "".join(c for c in kind[:40] if c.isprintable()) or "?"}
        )
    odd = sorted(set(found) - _KNOWN)
    if odd:
        name = "".join(c for c in odd[0][:40] if c.isprintable())
        raise _no_key(_t("“%(name)s” has no place in such a file.") % {"name": name})


def _check_addresses(found: Mapping[str, str]) -> None:
    allowed: dict[str, frozenset[str]] = {
        "token_uri": _TOKEN_URIS | {token_uri()},
        "auth_uri": _AUTH_URIS,
        "auth_provider_x509_cert_url": frozenset({_CERTS}),
        "universe_domain": frozenset({UNIVERSE}),
    }
    for name, known in allowed.items():
        if name in found and found[name] not in known:
            raise _foreign(name)
    if not found.get("client_x509_cert_url", _CERT_OF).startswith(_CERT_OF):
        raise _foreign("client_x509_cert_url")


def _pem(text: str) -> str:
    """Return the RSA key in one spelling."""
    text = text.strip()
    damaged = _t("Its “%(name)s” is missing or damaged.") % {"name": "private_key"}
    whole = text.startswith("-----BEGIN PRIVATE KEY-----") and text.endswith(
        "-----END PRIVATE KEY-----"
    )
    if not whole or text.count("-----BEGIN") != 1 or not text.isascii():
        raise _no_key(damaged)
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _no_key(damaged) from None
    if not isinstance(key, rsa.RSAPrivateKey) or not _MIN_BITS <= key.key_size <= _MAX_BITS:
        raise _no_key(_t("Its key is not an RSA key of at least 2048 bits."))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _foreign(name: str) -> Exception:
    return _no_key(
        _t("Its “%(name)s” is not Google's own. Such a file would send its tokens elsewhere.")
        % {"name": name}
    )


def _no_key(sentence: str) -> Exception:
    return wrong("key", sentence)


KIND = Kind(
    kind=CredentialKind.GCS,
    about=_("The JSON key of a service account. gcloud, rclone and gcsfs use it as it is."),
    fields=(
        Field(
            "key",
            _("Key file (JSON)"),
            Part.SECRET,
            shape=Shape.TEXT,
            hidden=True,
            limit=SECRET_MAX,
            help=_("Paste the file that Google made, or choose it."),
        ),
        BUCKET,
    ),
    settings=lambda given: {"bucket": bucket_of(given)},
    secret=_secret,
    target=lambda public: str(public.get("client_email", "")),
)
