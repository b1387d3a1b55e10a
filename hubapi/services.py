"""Clients, what a launch is given, and revocation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID, uuid5

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from accounts.models import User
from common.clock import now
from hubapi import keys
from hubapi.addresses import (
    base_path,
    callback_url,
    redirect_uris,
    route_key,
    workload_url,
)
from hubapi.models import Activity, Client, Code, Consent, NotebookToken, TokenKind
from hubapi.registry import WorkloadInfo
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
    return _ensure(
        _Wanted(
            port_uid(uid, port), port_short_id(short_id, port), owner, project, launch, parent=uid
        )
    )


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
            if known.launch == launch:
                _follow_addresses(known)
            return wanted.credentials(known)
        return _client_write(wanted)


@dataclass(frozen=True)
class _Wanted:
    uid: UUID
    short_id: str
    owner: User
    project: Project
    launch: int
    parent: UUID | None = None  # of a port: the workload

    def fresh(self) -> LaunchCredentials:
        secret = keys.derive("server", self.uid, self.launch)
        return LaunchCredentials(f"ws-{self.short_id}", secret)

    def credentials(self, known: Client) -> LaunchCredentials:
        digest = known.secret_digest if known.launch == self.launch else ""
        secret = keys.derive_matching("server", self.uid, self.launch, digest)
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


def _client_write(wanted: _Wanted) -> LaunchCredentials:
    made = wanted.fresh()
    Client.objects.update_or_create(uid=wanted.uid, defaults=_columns(wanted, made))
    _tokens_replace(uid=wanted.uid, owner=wanted.owner, launch=wanted.launch, made=made)
    _activity_forget(wanted)
    return made


def _columns(wanted: _Wanted, made: LaunchCredentials) -> dict[str, Any]:
    return {
        "parent_uid": wanted.parent,
        "short_id": wanted.short_id,
        "client_id": made.client_id,
        "secret_digest": keys.digest(made.api_token),
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


def _follow_addresses(client: Client) -> None:
    wanted = redirect_uris(client.short_id)
    if client.redirect_uris != wanted:
        Client.objects.filter(pk=client.pk).update(redirect_uris=wanted)


def _tokens_replace(*, uid: UUID, owner: User, launch: int, made: LaunchCredentials) -> None:
    """Replace the tokens of earlier launches: visitors sign in again, silently."""
    _revoke(NotebookToken.objects.filter(uid=uid), at=now(), cut=False)
    NotebookToken.objects.filter(uid=uid, kind__in=[TokenKind.SERVER, TokenKind.SERVICE]).delete()
    _tokens_make(uid=uid, owner=owner, launch=launch, made=made)


def _tokens_make(*, uid: UUID, owner: User, launch: int, made: LaunchCredentials) -> None:
    service = keys.derive("service", uid, launch)
    NotebookToken.objects.bulk_create(
        NotebookToken(digest=keys.digest(value), kind=kind, user=owner, uid=uid, launch=launch)
        for kind, value in ((TokenKind.SERVER, made.api_token), (TokenKind.SERVICE, service))
    )


def service_token(uid: UUID) -> str:
    """Return the token by which Berth asks this workload; empty when it has none."""
    row = (
        NotebookToken.objects.filter(uid=uid, kind=TokenKind.SERVICE, revoked_at=None)
        .values_list("launch", "digest")
        .first()
    )
    return keys.derive_matching("service", uid, *row) if row else ""


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
    Client.objects.filter(uid__in=uids, revoked_at=None).update(revoked_at=at)
    Code.objects.filter(client__uid__in=uids, used_at=None).update(used_at=at)
    _revoke(NotebookToken.objects.filter(uid__in=uids), at=at, cut=False)


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


__all__ = [
    "CACHE_AGE_S",
    "LaunchCredentials",
    "access_scope",
    "client_ensure",
    "forget_workload",
    "launch_environment",
    "port_client_ensure",
    "port_short_id",
    "port_uid",
    "readiness_path",
    "revoke_session",
    "revoke_tokens",
    "revoke_user",
    "revoke_visitor",
    "revoke_workload",
    "route_key",
    "server_arguments",
    "service_token",
    "workload_url",
]
