"""Public keys. Parsed by our own allow-list before the library sees them."""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.models import SshKey
from accounts.principal import Principal
from common.errors import Conflict, Invalid, NotFound, wrong
from events import services as events

_LOADED = {
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
}
# Keys on a security token: the library can't load all of them, so their frame is checked here.
_HARDWARE = {"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}
_MAX_LENGTH = 8192
_MIN_RSA_BITS = 2048
_MAX_RSA_BITS = 16384
_MAX_KEYS = 50


@dataclass(frozen=True)
class ParsedKey:
    """What is kept: type and data only, never an option or a comment."""

    public_key: str
    fingerprint: str
    comment: str


@transaction.atomic
def ssh_key_add(*, who: Principal, public_key: str, name: str = "") -> SshKey:
    parsed = ssh_key_parse(public_key)
    name = (name or parsed.comment or parsed.fingerprint[:20]).strip()[:80]
    if not name.isprintable():
        raise _refuse(_("The name must be one line."), "name")
    if SshKey.objects.filter(user=who.user).count() >= _MAX_KEYS:
        raise Conflict(_("You have %d keys already. Remove one first.") % _MAX_KEYS)
    try:
        with transaction.atomic():
            key = SshKey.objects.create(
                user=who.user,
                name=name,
                public_key=parsed.public_key,
                fingerprint=parsed.fingerprint,
            )
    except IntegrityError as error:
        raise Conflict(_("You have added this key already."), code="duplicate") from error
    events.record(
        actor=who, verb="ssh-key.added", target=key, data={"fingerprint": key.fingerprint}
    )
    return key


@transaction.atomic
def ssh_key_remove(*, who: Principal, uid: UUID | str) -> None:
    try:
        key = SshKey.objects.filter(uid=UUID(str(uid)), user=who.user).first()
    except ValueError:
        key = None
    if key is None:
        raise NotFound(_("There is no such key, or it is not yours."))
    events.record(
        actor=who, verb="ssh-key.removed", target=key, data={"fingerprint": key.fingerprint}
    )
    key.delete()


def ssh_key_parse(text: str) -> ParsedKey:
    """Return the key of one authorized_keys line without options, or raise Invalid."""
    text = text.strip()
    if len(text) > _MAX_LENGTH or not text.isascii() or not text.replace("\t", " ").isprintable():
        raise _refuse(_("Paste one public key, one line, as in id_ed25519.pub."))
    if "PRIVATE KEY" in text:
        raise _refuse(_("This is a private key. Never paste it anywhere; use the .pub file."))
    kind, _sep, rest = text.partition(" ")
    if kind not in _LOADED | _HARDWARE:
        raise _refuse(_("Only ed25519, ecdsa, rsa and sk- keys, without options in front of them."))
    data, _sep, comment = rest.strip().partition(" ")
    blob = _decode(data, kind)
    if kind in _LOADED:
        _load(kind, data)
    fingerprint = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return ParsedKey(f"{kind} {data}", f"SHA256:{fingerprint}", comment.strip()[:80])


def _decode(data: str, kind: str) -> bytes:
    try:
        blob = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refuse(_("The key is damaged: its data is not base64.")) from error
    fields = _fields(blob)
    if not fields or fields[0] != kind.encode():
        raise _refuse(_("The key is damaged: its data and its type differ."))
    if kind in _HARDWARE and not _is_hardware_frame(kind, fields):
        raise _refuse(_("The key is damaged."))
    return blob


def _fields(blob: bytes) -> list[bytes]:
    """Split the SSH wire format; an empty list if it does not fit exactly."""
    found, at = [], 0
    while at < len(blob):
        size = int.from_bytes(blob[at : at + 4], "big")
        value = blob[at + 4 : at + 4 + size]
        if len(blob) - at < 4 or len(value) != size:  # noqa: PLR2004 - length prefix
            return []
        found.append(value)
        at += 4 + size
    return found


def _is_hardware_frame(kind: str, fields: list[bytes]) -> bool:
    if kind.startswith("sk-ssh-ed25519"):
        return len(fields) == 3 and len(fields[1]) == 32 and bool(fields[2])  # noqa: PLR2004
    return (
        len(fields) == 4  # noqa: PLR2004
        and fields[1] == b"nistp256"
        and len(fields[2]) == 65  # noqa: PLR2004
        and bool(fields[3])
    )


def _load(kind: str, data: str) -> None:
    try:
        key = load_ssh_public_key(f"{kind} {data}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _refuse(_("The key is damaged.")) from error
    if isinstance(key, rsa.RSAPublicKey) and not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
        raise _refuse(_("RSA keys need at least %d bits.") % _MIN_RSA_BITS)


def _refuse(sentence: str, field: str = "public_key") -> Invalid:
    return wrong(field, sentence)
