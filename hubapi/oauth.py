"""The provider: codes and tokens. Every gate asks again who may, nothing is remembered."""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from accounts.models import User
from accounts.principal import Principal
from common.clock import now
from events.services import record
from hubapi import registry, services, sessions
from hubapi.models import Client, Code, Consent, NotebookToken, TokenKind
from hubapi.registry import AccessLevel, WorkloadInfo
from hubapi.services import revoke_tokens


class OAuthError(Exception):
    """An RFC 6749 error; its description is shown by the notebook server."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


CODE_AGE = timedelta(seconds=60)
_CLIENT_ID = re.compile(r"\A[A-Za-z0-9-]{1,48}\Z")
_CHALLENGE = re.compile(r"\A[A-Za-z0-9_-]{43}\Z")  # base64url of a SHA-256
_VERIFIER = re.compile(r"\A[A-Za-z0-9._~-]{43,128}\Z")


@dataclass(frozen=True)
class Gate:
    """A client that somebody may use: his level, and whether he has to be asked first."""

    client: Client
    info: WorkloadInfo
    level: AccessLevel

    @property
    def is_running(self) -> bool:
        return self.client.revoked_at is None


def client_get(client_id: str) -> Client | None:
    if not _CLIENT_ID.match(client_id):
        return None
    return Client.objects.filter(client_id=client_id).first()


def gate_for(user: User, client_id: str) -> Gate | None:
    """Return the way in, or None: unknown, gone and not allowed are never told apart."""
    client = client_get(client_id)
    info = registry.by_uid(client.uid) if client else None
    if client is None or info is None:
        return None
    level = registry.access(user, client.uid)
    return Gate(client, info, level) if level != AccessLevel.NONE else None


def needs_consent(user: User, gate: Gate) -> bool:
    """A visitor's token can be read by the owner's code: he has to know whose it is."""
    return gate.level != AccessLevel.OWNER and not has_consented(
        user, gate.info.workload_uid, gate.info.owner_pk
    )


def has_consented(user: User, uid: UUID, owner_pk: int) -> bool:
    return Consent.objects.filter(user=user, uid=uid, owner_id=owner_pk).exists()


@transaction.atomic
def consent_give(*, principal: Principal, gate: Gate) -> None:
    Consent.objects.update_or_create(
        user=principal.user,
        uid=gate.info.workload_uid,
        defaults={"owner_id": gate.info.owner_pk, "given_at": now()},
    )
    _record(principal, gate.info, "workspace.consent-given")


def challenge_ok(challenge: str, method: str) -> bool:
    """Accept no challenge at all (servers before 6), or a well-formed S256 one."""
    if not challenge:
        return not method
    return method == "S256" and bool(_CHALLENGE.match(challenge))


@transaction.atomic
def code_issue(
    *, principal: Principal, gate: Gate, redirect_uri: str, challenge: str, session_key: str
) -> str:
    """Return a code that this client can redeem once, within a minute."""
    code = services.new_secret()
    Code.objects.create(
        digest=services.digest(code),
        client=gate.client,
        user=principal.user,
        launch=gate.client.launch,
        redirect_uri=redirect_uri,
        code_challenge=challenge,
        session_key=session_key,
        expires_at=now() + CODE_AGE,
    )
    _record(principal, gate.info, "workspace.opened")
    return code


def client_authenticate(client_id: str, secret: str) -> Client:
    client = client_get(client_id)
    known = client.secret_digest if client else services.digest("")
    matches = hmac.compare_digest(services.digest(secret), known)
    if client is None or not matches or client.revoked_at is not None:
        raise OAuthError("invalid_client", "This client is unknown, or its secret is not right.")
    return client


def code_redeem(*, client: Client, code: str, redirect_uri: str, verifier: str) -> str:
    """Return a visitor's token for a code. A code that comes again takes its token with it."""
    row = Code.objects.select_related("user").filter(digest=services.digest(code)).first()
    if row is None or row.client_id != client.pk:
        raise _bad_code()
    used = Code.objects.filter(pk=row.pk, used_at=None, expires_at__gt=now())
    if used.update(used_at=now()) != 1:
        revoke_tokens(row.tokens.values_list("pk", flat=True))
        raise _bad_code()
    if row.launch != client.launch or row.redirect_uri != redirect_uri:
        raise _bad_code()
    if not _verified(row.code_challenge, verifier):
        raise OAuthError("invalid_grant", "The code verifier is not right.")
    gate = gate_for(row.user, client.client_id)
    if gate is None or needs_consent(row.user, gate):
        raise _bad_code()
    if not sessions.stands_for(row.session_key, row.user):
        raise _bad_code()
    return _token_issue(row, client)


def _bad_code() -> OAuthError:
    return OAuthError("invalid_grant", "This code is not valid: it is old, used, or not yours.")


def _verified(challenge: str, verifier: str) -> bool:
    if not challenge:
        return not verifier  # a challenge that was lost on the way is not "no challenge"
    if not _VERIFIER.match(verifier):
        return False
    raw = hashlib.sha256(verifier.encode("ascii")).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(raw).rstrip(b"=").decode(), challenge)


@transaction.atomic
def _token_issue(row: Code, client: Client) -> str:
    # Against a stop or a revocation that began meanwhile: the row decides, once more.
    standing = Client.objects.filter(pk=client.pk, launch=row.launch, revoked_at=None)
    if standing.update(launch=F("launch")) != 1:
        raise _bad_code()
    token = services.new_secret()
    NotebookToken.objects.create(
        digest=services.digest(token),
        kind=TokenKind.USER,
        user=row.user,
        uid=client.uid,
        launch=client.launch,
        session_key=row.session_key,
        code=row,
        expires_at=now() + timedelta(seconds=settings.SESSION_COOKIE_AGE),
    )
    return token


def _record(principal: Principal, info: WorkloadInfo, verb: str) -> None:
    row = _Target(info.kind, info.uid)
    record(
        actor=principal,
        verb=verb,
        target=row,
        target_kind=info.kind,
        target_name=info.name,
        project_uid=info.project_uid,
    )


@dataclass(frozen=True)
class _Target:
    KIND: str
    uid: UUID
