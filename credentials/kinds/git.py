"""Tokens for Git over https, and private SSH keys."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.services.tokens import ssh_key_parse
from common.errors import Invalid, wrong
from common.outbound import OutboundError, split_host
from credentials.choices import CredentialKind
from credentials.kinds.base import SECRET_MAX, Field, Given, Kind, Part, Read, Shape, line, word

HTTPS = 443
_PATH = re.compile(r"\A[A-Za-z0-9_~][A-Za-z0-9._~-]*(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*\Z")


def host_of(given: Given, name: str, *, port: int, required: bool = True) -> str:
    """Return ``host`` or ``host:port``, "" for none."""
    text = line(given, name, required=required).removeprefix("https://").rstrip("/")
    if not text:
        return ""
    try:
        host, found = split_host(text, default_port=port)
    except OutboundError:
        raise wrong(name, _t("The name of a host alone, as in git.example.com.")) from None
    named = f"[{host}]" if ":" in host else host
    return named if found == port else f"{named}:{found}"


def _settings(given: Given) -> dict[str, Any]:
    host = host_of(given, "host", port=HTTPS)
    path = line(given, "repository", required=False)
    path = path.removeprefix(f"https://{host}/").strip("/").removesuffix(".git")
    if path and not _PATH.match(path):
        raise wrong("repository", _t("Its path on that host, as in team/project."))
    return {"host": host, "repository": path}


def _secret(given: Given) -> Read:
    username = word(given, "username", limit=128, required=False) or "oauth2"
    if ":" in username:
        raise wrong("username", _t("A user name has no “:”."))
    return Read({"username": username}, {"token": word(given, "token", least=4, limit=2048)})


GIT = Kind(
    kind=CredentialKind.GIT,
    about=_("A personal or deploy token. git clones, pulls and pushes with it over https."),
    fields=(
        Field("host", _("Host"), Part.TARGET, placeholder="github.com"),
        Field(
            "username",
            _("User name"),
            Part.SECRET,
            required=False,
            limit=128,
            help=_("Most hosts take any name with a token. Empty: oauth2."),
        ),
        Field("token", _("Token"), Part.SECRET, hidden=True, limit=2048),
        Field(
            "repository",
            _("Repository to test with"),
            Part.SETTING,
            required=False,
            placeholder="team/project",
        ),
    ),
    settings=_settings,
    secret=_secret,
    target=lambda public: str(public["host"]),
)


# Private SSH keys.
#
# The frame is read here before the library sees it: one block, of a known kind, without a
# passphrase (opening one may be made to take minutes). What is kept is the key written anew.


PORT = 22
_HOST_KEYS = 10
_BLOCK = re.compile(
    r"\A-----BEGIN ([A-Z0-9 ]{1,40})-----\s([A-Za-z0-9+/=\s]+)-----END \1-----\Z", re.ASCII
)
_OPENSSH = "OPENSSH PRIVATE KEY"
_PEM = frozenset({"RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"})
_MAGIC = b"openssh-key-v1\0"
_NONE = b"\0\0\0\4none"
_MIN_RSA, _MAX_RSA = 2048, 16384
_USER = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}\Z")
_PASSPHRASE = _(
    "This key has a passphrase, and nobody is there to type it. Make one without for this use:"
    " ssh-keygen -p removes it from a copy."
)
_Key = rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def known_host(host: str) -> str:
    """Return the host as a file of known hosts spells it."""
    name, port = split_host(host, default_port=PORT)
    return name if port == PORT else f"[{name}]:{port}"


def _ssh_settings(given: Given) -> dict[str, Any]:
    host = host_of(given, "host", port=PORT, required=False)
    user = line(given, "user", limit=64, required=False)
    if user and not _USER.match(user):
        raise wrong("user", _t("The name that the other machine knows, as in git."))
    return {"host": host, "user": user, "known_hosts": _known(given, host)}


def _known(given: Given, host: str) -> list[str]:
    """Return ``type data`` of each key that the host may show; names and comments fall away."""
    value = given.get("known_hosts") or ""
    text = "\n".join(map(str, value)) if isinstance(value, list) else str(value)
    lines = [part for part in map(str.strip, text.split("\n")) if part and part[0] != "#"]
    if not lines:
        return []
    if not host:
        raise wrong("known_hosts", _t("Name the host that shows these keys as well."))
    if len(lines) > _HOST_KEYS or len(text) > SECRET_MAX:
        raise wrong("known_hosts", _t("At most %d lines.") % _HOST_KEYS)
    return sorted({_host_key(words.split(), host) for words in lines})


def _host_key(words: list[str], host: str) -> str:
    """Read ``type data`` or ``names type data``; the names must hold the host."""
    named = len(words) > 2 and not words[0].startswith(("ssh-", "ecdsa-", "@"))  # noqa: PLR2004
    if named and not _names(words[0], known_host(host)):
        raise wrong("known_hosts", _t("These keys belong to another host."))
    kind, data, *_rest = (words[1:] if named else words) + ["", ""]
    try:
        return ssh_key_parse(f"{kind} {data}").public_key
    except Invalid:
        sentence = _t("Lines as ssh-keyscan prints them: host, type and key.")
        raise wrong("known_hosts", sentence) from None


def _names(text: str, host: str) -> bool:
    if not text.startswith("|1|"):
        return host in text.split(",")
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in text[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, host.encode(), hashlib.sha1).digest(), digest)


def _ssh_secret(given: Given) -> Read:
    text = given.get("private_key")
    if not isinstance(text, str) or not text.strip():
        raise wrong("private_key", _t("Paste the key, or choose its file."))
    key = _loaded(text.replace("\r\n", "\n").strip())
    written = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    parsed = ssh_key_parse(public)
    shown = {"public_key": parsed.public_key, "fingerprint": parsed.fingerprint}
    return Read(shown, {"private_key": written})


def _loaded(text: str) -> _Key:
    if len(text) > SECRET_MAX:
        raise wrong("private_key", _t("It is longer than any key."))
    if text.startswith("PuTTY-User-Key-File"):
        raise wrong("private_key", _t("Export it from PuTTYgen as an OpenSSH key first."))
    if text.startswith("ssh-"):
        raise wrong("private_key", _t("This is the public half; the private one is asked for."))
    if "ENCRYPTED" in text:
        raise wrong("private_key", str(_PASSPHRASE))
    block = _BLOCK.match(text)
    if block is None or block[1] not in _PEM | {_OPENSSH}:
        sentence = _t("One private key, from “-----BEGIN” to “-----END”. Is it whole?")
        raise wrong("private_key", sentence)
    if block[1] == _OPENSSH:
        _check_frame(block[2])
    load = load_ssh_private_key if block[1] == _OPENSSH else load_pem_private_key
    try:
        key = load(text.encode() + b"\n", password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise wrong("private_key", _t("The key is damaged, or not whole.")) from None
    return _strong(key)


def _check_frame(data: str) -> None:
    """The head of OpenSSH's own format: no cipher, no derivation, one key."""
    try:
        blob = base64.b64decode("".join(data.split()), validate=True)
    except (ValueError, binascii.Error):
        raise wrong("private_key", _t("The key is damaged, or not whole.")) from None
    head = blob[len(_MAGIC) :]
    if not blob.startswith(_MAGIC):
        raise wrong("private_key", _t("The key is damaged, or not whole."))
    if not head.startswith(_NONE + _NONE):
        raise wrong("private_key", str(_PASSPHRASE))
    if head[len(_NONE) * 2 :][:8] != b"\0\0\0\0\0\0\0\1":
        raise wrong("private_key", _t("There must be one key in it, and no more."))


def _strong(key: object) -> _Key:
    if isinstance(key, rsa.RSAPrivateKey) and not _MIN_RSA <= key.key_size <= _MAX_RSA:
        raise wrong("private_key", _t("An RSA key needs at least 2048 bits."))
    if not isinstance(key, _Key):
        raise wrong("private_key", _t("Only ed25519, ecdsa and rsa keys."))
    return key


SSH = Kind(
    kind=CredentialKind.SSH,
    about=_(
        "A key of its own for this use. git and ssh sign in with it; its public half is shown."
    ),
    fields=(
        Field(
            "host",
            _("Host"),
            Part.TARGET,
            required=False,
            placeholder="git.example.com",
            help=_("Empty: the key is tried at every host."),
        ),
        Field("user", _("User name there"), Part.SETTING, required=False, placeholder="git"),
        Field(
            "private_key",
            _("Private key"),
            Part.SECRET,
            shape=Shape.TEXT,
            hidden=True,
            limit=SECRET_MAX,
            help=_("Without a passphrase. Paste it, or choose its file."),
        ),
        Field(
            "known_hosts",
            _("Keys of the host"),
            Part.SETTING,
            shape=Shape.TEXT,
            required=False,
            limit=SECRET_MAX,
            help=_("As ssh-keyscan prints them. With them, no other host is believed."),
        ),
    ),
    settings=_ssh_settings,
    secret=_ssh_secret,
    target=lambda public: str(public["host"]),
)
