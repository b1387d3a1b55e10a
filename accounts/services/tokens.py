"""API tokens and SSH keys."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import ApiToken, SshKey
from accounts.principal import Principal, known_scopes
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound, wrong
from events import services as events

PREFIX = "berth_"
MAX_LIFE = timedelta(days=366)
MAX_LIVE_TOKENS = 100
_SECRET_LENGTH = 40
_SHOWN = 12  # of the secret, to recognise it: "berth_" and six characters
_ALPHABET = string.ascii_letters + string.digits
_SHAPE = re.compile(r"\Aberth_[A-Za-z0-9]{40}\Z")
_USE_NOTED_EVERY = timedelta(seconds=60)


@transaction.atomic
def token_create(
    *,
    who: Principal,
    name: str,
    scopes: list[str] | None = None,
    read_only: bool = False,
    project_uids: list[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token and return it with its secret, which is nowhere else.

    ``expires_at`` None means the longest life there is. A token made with a token is never
    wider or longer-lived than that one.
    """
    at = now()
    expires_at = _expiry(who, expires_at, at)
    token = ApiToken(
        user=who.user,
        name=_name(name),
        scopes=_scopes(scopes or []),
        read_only=read_only,
        project_uids=_project_uids(project_uids or []),
        expires_at=expires_at,
    )
    _within(who, token)
    if ApiToken.objects.filter(_live(at), user=who.user).count() >= MAX_LIVE_TOKENS:
        raise Conflict(
            _("You have %d tokens already. Revoke one first.") % MAX_LIVE_TOKENS,
            code="too-many-tokens",
        )
    secret = PREFIX + "".join(secrets.choice(_ALPHABET) for _i in range(_SECRET_LENGTH))
    token.prefix, token.digest = secret[:_SHOWN], digest_of(secret)
    token.save()
    events.record(
        actor=who,
        verb="token.created",
        target=token,
        data={"scopes": token.scopes, "read_only": read_only, "projects": token.project_uids},
    )
    return token, secret


@transaction.atomic
def token_revoke(*, who: Principal, uid: UUID | str) -> ApiToken:
    """Revoke one of the own tokens; revoking twice is no error."""
    try:
        token = ApiToken.objects.filter(uid=UUID(str(uid)), user=who.user).first()
    except ValueError:
        token = None
    if token is None:
        raise NotFound(_("There is no such token, or it is not yours."))
    if token.revoked_at is None:
        token.revoked_at = now()
        token.save(update_fields=["revoked_at"])
        events.record(actor=who, verb="token.revoked", target=token)
        hooks.token_revoked(token, who)
    return token


def token_authenticate(*, secret: str, ip: str = "") -> ApiToken | None:
    """Return the live token with its active user, or None. One query; uses noted once a minute."""
    if not _SHAPE.match(secret):
        return None
    digest = digest_of(secret)
    token = ApiToken.objects.select_related("user").filter(digest=digest).first()
    if token is None or not hmac.compare_digest(token.digest, digest):
        return None
    if not token.is_live or not token.user.is_active:
        return None
    _note_use(token, ip)
    return token


def digest_of(secret: str) -> str:
    # 238 bits of chance: no salt or slow hash is needed, and it can be looked up by an index.
    return hashlib.sha256(secret.encode()).hexdigest()


def _note_use(token: ApiToken, ip: str) -> None:
    at = now()
    if token.last_used_at and token.last_used_at > at - _USE_NOTED_EVERY:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=at - _USE_NOTED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=at, last_used_ip=ip[:64])


def _live(at: datetime) -> Q:
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=at))


def _within(who: Principal, token: ApiToken) -> None:
    """Refuse a token that may more than the one that makes it."""
    maker = who.token
    if maker is None:
        return
    wider = (
        (maker.read_only and not token.read_only)
        or (maker.scopes and not (token.scopes and set(token.scopes) <= set(maker.scopes)))
        or (
            maker.project_uids
            and not (token.project_uids and set(token.project_uids) <= set(maker.project_uids))
        )
    )
    if wider:
        raise Forbidden(_("A token can't make a token that may more than itself."))


def _expiry(who: Principal, wanted: datetime | None, at: datetime) -> datetime:
    latest = at + MAX_LIFE
    if who.token is not None and who.token.expires_at is not None:
        latest = min(latest, who.token.expires_at)
    if wanted is None:
        return latest
    if wanted <= at:
        raise Invalid(
            _("The expiry lies in the past."), fields={"expires_at": [_("Choose a later day.")]}
        )
    if wanted > at + MAX_LIFE:
        raise Invalid(
            _("A token lives at most one year."),
            fields={"expires_at": [_("At most one year from now.")]},
        )
    return min(wanted, latest)


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 80 or not name.isprintable():  # noqa: PLR2004 - column width
        raise wrong("name", _("A name of 1 to 80 characters, on one line."))
    return name


def _scopes(scopes: list[str]) -> list[str]:
    unknown = sorted(set(scopes) - set(known_scopes()))
    if unknown:
        raise wrong("scopes", _("There is no scope “%s”.") % unknown[0][:60])
    return sorted(set(scopes))


def _project_uids(uids: list[str]) -> list[str]:
    try:
        return sorted({str(UUID(str(uid))) for uid in uids})
    except ValueError as error:
        raise wrong("project_uids", _("Projects are named by their uid.")) from error


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
