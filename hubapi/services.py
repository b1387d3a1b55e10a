"""Clients, the secrets of launches, what a launch is given, and revocation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import UUID, uuid5

from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.models import ApiToken
from accounts.services.tokens import PREFIX
from common.clock import now
from hubapi.models import Activity, Client, Code, Consent, NotebookToken, TokenKind
from hubapi.registry import WorkloadInfo, base_path, callback_url, redirect_uris, workload_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from django.db.models import QuerySet

    from accounts.models import User
    from projects.models import Project

# How long an honest server goes on believing an answer about a token.
CACHE_AGE_S = 10
ACTIVITY_INTERVAL_S = 60


@dataclass(frozen=True)
class LaunchCredentials:
    """What one launch signs in with; the token is the client's secret as well."""

    client_id: str
    api_token: str = field(repr=False)


def client_ensure(
    *, uid: UUID, short_id: str, owner: User, project: Project, launch: int
) -> LaunchCredentials:
    """Make the client and the tokens of a launch. The same launch gives the same secret.

    A late step of an older launch changes nothing, and a revoked launch stays revoked.
    """
    return _ensure(_Wanted(uid, short_id, owner, project, launch))


def port_uid(uid: UUID, port: int) -> UUID:
    """Return who a port of a workload is to the Hub side: always the same."""
    return uuid5(uid, f"port:{port}")


def port_short_id(short_id: str, port: int) -> str:
    return f"{short_id}-{port}"


def port_client_ensure(
    *, uid: UUID, short_id: str, port: int, owner: User, project: Project, launch: int
) -> LaunchCredentials:
    """Make the client of one web port: an address and cookies of its own, the same people."""
    own, short_id = port_uid(uid, port), port_short_id(short_id, port)
    return _ensure(_Wanted(own, short_id, owner, project, launch, parent=uid))


def _ensure(wanted: _Wanted) -> LaunchCredentials:
    uid, launch = wanted.uid, wanted.launch
    # Steps come again and again: an unchanged client costs one read and no lock.
    known = Client.objects.filter(uid=uid).first()
    if known is not None and _is_settled(known, wanted):
        return wanted.credentials(known)
    if known is None and (made := _client_make(wanted)) is not None:
        return made
    with transaction.atomic():
        known = Client.objects.select_for_update().filter(uid=uid).first()
        if known is not None and known.launch >= launch:
            addresses = redirect_uris(known.short_id)
            if known.launch == launch and known.redirect_uris != addresses:
                Client.objects.filter(pk=known.pk).update(redirect_uris=addresses)
            return wanted.credentials(known)
        made = wanted.fresh()
        Client.objects.update_or_create(uid=uid, defaults=_columns(wanted, made))
        # Tokens of earlier launches are replaced: visitors sign in again, silently.
        tokens = NotebookToken.objects.filter(uid=uid)
        _revoke(tokens, at=now(), cut=False)
        tokens.filter(kind__in=[TokenKind.SERVER, TokenKind.SERVICE]).delete()
        _tokens_make(uid=uid, owner=wanted.owner, launch=launch, made=made)
        _activity_forget(wanted)
        return made


@dataclass(frozen=True)
class _Wanted:
    uid: UUID
    short_id: str
    owner: User
    project: Project
    launch: int
    parent: UUID | None = None  # of a port: the workload

    def fresh(self) -> LaunchCredentials:
        secret = derive("server", self.uid, self.launch)
        return LaunchCredentials(f"ws-{self.short_id}", secret)

    def credentials(self, known: Client) -> LaunchCredentials:
        digest = known.secret_digest if known.launch == self.launch else ""
        secret = derive_matching("server", self.uid, self.launch, digest)
        return LaunchCredentials(f"ws-{self.short_id}", secret)


def _is_settled(known: Client, wanted: _Wanted) -> bool:
    if known.launch > wanted.launch:
        return True
    return known.launch == wanted.launch and known.redirect_uris == redirect_uris(known.short_id)


def _client_make(wanted: _Wanted) -> LaunchCredentials | None:
    """Make the client of a first launch; None when somebody made it at the same moment."""
    made = wanted.fresh()
    try:
        with transaction.atomic():
            Client.objects.create(uid=wanted.uid, **_columns(wanted, made))
            _tokens_make(uid=wanted.uid, owner=wanted.owner, launch=wanted.launch, made=made)
            _activity_forget(wanted)
    except IntegrityError:
        return None
    return made


def _columns(wanted: _Wanted, made: LaunchCredentials) -> dict[str, Any]:
    return {
        "parent_uid": wanted.parent,
        "short_id": wanted.short_id,
        "client_id": made.client_id,
        "secret_digest": digest(made.api_token),
        "redirect_uris": redirect_uris(wanted.short_id),
        "owner": wanted.owner,
        "project": wanted.project,
        "launch": wanted.launch,
        "revoked_at": None,
    }


_ACTIVITY_TIMES = ("pushed_at", "last_activity", "last_busy_at", "polled_at", "failed_at")


def _activity_forget(wanted: _Wanted) -> None:
    """A launch begins without a past."""
    Activity.objects.bulk_create(
        [Activity(uid=wanted.parent or wanted.uid)],
        update_conflicts=True,
        unique_fields=["uid"],
        update_fields=_ACTIVITY_TIMES,
    )


def _tokens_make(*, uid: UUID, owner: User, launch: int, made: LaunchCredentials) -> None:
    service = derive("service", uid, launch)
    NotebookToken.objects.bulk_create(
        NotebookToken(digest=digest(value), kind=kind, user=owner, uid=uid, launch=launch)
        for kind, value in ((TokenKind.SERVER, made.api_token), (TokenKind.SERVICE, service))
    )


def service_token(uid: UUID) -> str:
    """Return the token by which Berth asks this workload; empty when it has none."""
    row = (
        NotebookToken.objects.filter(uid=uid, kind=TokenKind.SERVICE, revoked_at=None)
        .values_list("launch", "digest")
        .first()
    )
    return derive_matching("service", uid, *row) if row else ""


def access_scope(owner_username: str, short_id: str) -> str:
    return f"access:servers!server={owner_username}/{short_id}"


def launch_environment(
    info: WorkloadInfo,
    credentials: LaunchCredentials,
    *,
    bind: str = "127.0.0.1",
    port: str = "{port}",
    hub_url: str = "",
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (environment, secret environment) of a ``jupyterhub-singleuser``.

    ``{port}`` is left for the driver to fill in. The tables of meanings: docs/dev/hubapi.md.
    """
    prefix = base_path(info.short_id)
    scopes = json.dumps([access_scope(info.owner_username, info.short_id)])
    api_url = f"{(hub_url or settings.BERTH_INTERNAL_URL).rstrip('/')}/hub/api"
    user = quote(info.owner_username, safe="")
    secure = str(settings.BERTH_NOTEBOOK_SCHEME) == "https"
    env = {
        "JUPYTERHUB_ACTIVITY_INTERVAL": str(ACTIVITY_INTERVAL_S),
        "JUPYTERHUB_ACTIVITY_URL": f"{api_url}/users/{user}/activity",
        "JUPYTERHUB_ALLOW_TOKEN_IN_URL": "0",
        "JUPYTERHUB_API_URL": api_url,
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_CLIENT_ID": credentials.client_id,
        "JUPYTERHUB_COOKIE_OPTIONS": json.dumps({"samesite": "Lax", "secure": secure}),
        "JUPYTERHUB_HOST": settings.BERTH_PUBLIC_URL,
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": scopes,
        "JUPYTERHUB_OAUTH_SCOPES": scopes,  # the name before 3.0
        "JUPYTERHUB_OAUTH_CALLBACK_URL": callback_url(info.short_id),
        "JUPYTERHUB_PUBLIC_URL": workload_url(info.short_id),
        "JUPYTERHUB_SERVER_NAME": info.short_id,
        "JUPYTERHUB_SERVICE_PREFIX": prefix,
        "JUPYTERHUB_SERVICE_URL": f"http://{bind}:{port}{prefix}",
        "JUPYTERHUB_USER": info.owner_username,
    }
    if secure and prefix == "/":
        env["JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED"] = "1"
    return env, {"JUPYTERHUB_API_TOKEN": credentials.api_token}


def server_arguments(*, root_dir: str = "") -> tuple[str, ...]:
    """Return what follows ``jupyterhub-singleuser``; understood from 4.1 on.

    Nobody may frame a workspace, the portal neither: it opens them in tabs.
    """
    headers = {"headers": {"Content-Security-Policy": "frame-ancestors 'none'"}}
    return (
        *((f"--ServerApp.root_dir={root_dir}",) if root_dir else ()),
        # An image is what it is: installing server extensions into it would not last, and the
        # manager for that asks the internet at each start.
        *(("--LabApp.extension_manager=readonly",) if root_dir else ()),
        f"--HubOAuth.cache_max_age={CACHE_AGE_S}",
        f"--ServerApp.tornado_settings={json.dumps(headers)}",
        "--ServerApp.allow_root=True",  # who it runs as is the driver's business, not Jupyter's
    )


def readiness_path(short_id: str) -> str:
    """Return the path that answers 200 without a token and without counting as activity."""
    return f"{base_path(short_id)}api"


def with_ports(uid: UUID) -> list[UUID]:
    """Return a workload and its ports: what is taken from one is taken from all."""
    ports = Client.objects.filter(parent_uid=uid).values_list("uid", flat=True)
    return [uid, *ports]


@transaction.atomic
def revoke_workload(uid: UUID) -> None:
    """Before a stop: no token of this launch is worth anything from now on.

    The route goes next and takes the open sockets with it, so nothing is left to cut.
    """
    at = now()
    uids = with_ports(uid)
    launch = (
        Client.objects.filter(uid=uid, revoked_at=None).values_list("launch", flat=True).first()
    )
    if launch is not None:
        revoke_command_lines([(uid, launch)])
    Client.objects.filter(uid__in=uids, revoked_at=None).update(revoked_at=at)
    Code.objects.filter(client__uid__in=uids, used_at=None).update(used_at=at)
    _revoke(NotebookToken.objects.filter(uid__in=uids), at=at, cut=False)


def revoke_command_lines(launches: Iterable[tuple[UUID, int]]) -> None:
    """Take back the API tokens that command lines inside of launches were given."""
    known = [digest(command_line_secret(uid, launch)) for uid, launch in launches]
    ApiToken.objects.filter(digest__in=known, revoked_at=None).update(revoked_at=now())


@transaction.atomic
def forget_workload(uid: UUID) -> None:
    """After a deletion: nothing stays."""
    uids = with_ports(uid)
    Client.objects.filter(uid__in=uids).delete()
    NotebookToken.objects.filter(uid__in=uids).delete()
    Consent.objects.filter(uid=uid).delete()
    Activity.objects.filter(uid=uid).delete()


@transaction.atomic
def revoke_visitor(uid: UUID, user: User) -> None:
    """Take one visitor out of a running workload; the owner's work goes on."""
    at, uids = now(), with_ports(uid)
    Code.objects.filter(client__uid__in=uids, user=user, used_at=None).update(used_at=at)
    Consent.objects.filter(uid=uid, user=user).delete()
    tokens = NotebookToken.objects.filter(uid__in=uids, user=user, kind=TokenKind.USER)
    _revoke(tokens, at=at)


@transaction.atomic
def revoke_user(user: User) -> None:
    """Every notebook token of a person, at his own workloads and as a visitor."""
    at = now()
    Code.objects.filter(user=user, used_at=None).update(used_at=at)
    _revoke(NotebookToken.objects.filter(user=user), at=at)


@transaction.atomic
def revoke_session(session_key: str) -> None:
    """What one portal session gave out ends with it."""
    if not session_key:
        return
    at = now()
    Code.objects.filter(session_key=session_key, used_at=None).update(used_at=at)
    _revoke(NotebookToken.objects.filter(session_key=session_key), at=at)


def revoke_tokens(pks: Iterable[int]) -> None:
    _revoke(NotebookToken.objects.filter(pk__in=list(pks)), at=now())


def _revoke(tokens: QuerySet[NotebookToken], *, at: datetime, cut: bool = True) -> None:
    """``cut``: a worker looks for these rows every two seconds (hubapi.revocation)."""
    tokens.filter(revoked_at=None).update(revoked_at=at, cut_due_at=at if cut else None)


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


_SALT = b"berth.hubapi.launch"


def digest(secret: str) -> str:
    """What is kept of a secret. Secrets here are long and random: no stretching needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def command_line_secret(uid: UUID, launch: int) -> str:
    """Return the API token of the command line in one launch (``hubapi.cli``)."""
    derived = derive("command-line", uid, launch)
    return PREFIX + hashlib.sha256(derived.encode()).hexdigest()[:40]


def derive(purpose: str, uid: UUID, launch: int) -> str:
    """Return the secret of one launch under the current SECRET_KEY."""
    return _derive(settings.SECRET_KEY, purpose, uid, launch)


def derive_matching(purpose: str, uid: UUID, launch: int, known: str) -> str:
    """Return the secret whose digest is ``known``: also one made before the key was rotated.

    A running server keeps what it was started with, so a rotated key must not change it.
    """
    for candidate in candidates(purpose, uid, launch):
        if hmac.compare_digest(digest(candidate), known):
            return candidate
    return derive(purpose, uid, launch)


def matches(purpose: str, uid: UUID, launch: int, given: str) -> bool:
    """Whether ``given`` is the secret of that launch, under the current key or an older one."""
    valid = candidates(purpose, uid, launch)
    return any(hmac.compare_digest(one.encode(), given.encode()) for one in valid)


def candidates(purpose: str, uid: UUID, launch: int) -> Iterator[str]:
    """Return the secrets that are valid for that launch: also those of older keys."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield _derive(key, purpose, uid, launch)


def _derive(key: str, purpose: str, uid: UUID, launch: int) -> str:
    root = hmac.new(_SALT, key.encode(), hashlib.sha256).digest()
    raw = hmac.new(root, f"{purpose}:{uid}:{launch}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
