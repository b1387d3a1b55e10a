"""Kubeconfigs: made for one person in one project, tied to a grant that can be taken away.

No token is kept here. The process that holds the cluster's credential is asked for one
(``runtime.gateway``), bound to an object in the cluster that goes with the grant: what was
handed out ends within a minute of the revocation, and with the membership or the account.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import yaml
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts import hooks as accounts
from clusters import registry
from clusters.installed import kubectl_reaches
from clusters.models import Cluster
from clusters.options import ClusterOptions, options_of
from common.clock import now
from common.errors import Conflict, Invalid, NotFound, Unavailable, wrong
from events.services import record
from projects import hooks, namespaces
from projects.access import Permission, require
from projects.choices import GrantKind
from projects.models import KubeGrant, Membership, Project, ProjectNamespace
from projects.services.life import line
from runtime import gateway
from runtime.capabilities.tenants import KubeToken, Settling, SupportsKubeTokens
from runtime.hints import hint
from runtime.protocol import DriverError, NotYet, Phase

if TYPE_CHECKING:
    from accounts.models import ApiToken, User
    from accounts.principal import Principal


EXEC_LIFE = timedelta(days=90)  # of the file; its tokens live a quarter of an hour
EXEC_TOKEN_S = 900
MIN_TOKEN_S = 600  # what the API server allows
MAX_HOURS = 24
MAX_LIVE = 10  # of one person in one place
ASK_TOKEN = "kube-token"  # noqa: S105 - a name, no secret
ASK_SERVER = "kube-server"
PREPARING = "preparing"


@transaction.atomic
def grant_create(
    *,
    principal: Principal,
    project: Project,
    cluster_key: str,
    kind: str = GrantKind.EXEC,
    name: str = "",
    hours: int = 8,
) -> KubeGrant:
    """Let the person use kubectl on what is his own there. The worker makes the rights."""
    require(principal, project, Permission.KUBE_USE)
    place = _place(project, cluster_key)
    _reached(cluster_key)
    if kind not in GrantKind.values:
        raise Invalid(_("There is no such kind."), fields={"kind": [_("exec or token.")]})
    if not 1 <= hours <= MAX_HOURS:
        sentence = _("From 1 to %(n)s hours.") % {"n": MAX_HOURS}
        raise wrong("hours", sentence)
    at = now()
    live = KubeGrant.objects.select_for_update().filter(
        user=principal.user, place=place, revoked_at__isnull=True, expires_at__gt=at
    )
    if len(live) >= MAX_LIVE:
        raise Conflict(
            _(
                "You have %(n)s kubeconfigs there already. Revoke one first: under Kubeconfigs in"
                " your settings, or by berth kube-config --revoke ID."
            )
            % {"n": MAX_LIVE},
            code="too-many-kubeconfigs",
        )
    grant = KubeGrant.objects.create(
        place=place,
        user=principal.user,
        kind=kind,
        name=line(name, "name", 80) if name else "kubectl",
        token_uid=principal.token.uid if principal.token else None,
        created_at=at,
        expires_at=at + (EXEC_LIFE if kind == GrantKind.EXEC else timedelta(hours=hours)),
    )
    _told(principal, grant, "kubeconfig.created")
    hint(place)
    return grant


@transaction.atomic
def grant_revoke(*, principal: Principal, grant: KubeGrant) -> None:
    """End one's own kubeconfig, or as a manager anybody's in the project."""
    if grant.user_id != principal.user.pk:
        require(principal, grant.place.project, Permission.MEMBER_MANAGE)
    _revoke([grant], principal)


def outlives(grant: KubeGrant) -> datetime | None:
    """Return how long a token of it that was given out goes on although it is revoked.

    None where it ends within a minute: nobody has one, or the cluster is told so now.
    """
    if grant.last_used_at is None:
        return None
    cluster = Cluster.objects.filter(key=grant.place.cluster_key).first()
    if cluster is not None and cluster.enabled and cluster.reachable:
        return None
    if grant.kind == GrantKind.EXEC:
        ends = grant.last_used_at + timedelta(seconds=EXEC_TOKEN_S)
    else:
        ends = max(grant.expires_at, grant.last_used_at + timedelta(seconds=MIN_TOKEN_S))
    return ends if ends > now() else None


@transaction.atomic
def grants_revoke_for(
    *, user: User, project: Project | None = None, actor: Principal | None = None
) -> int:
    """End all kubeconfigs of a person (in one project): he left, or was disabled."""
    rows = KubeGrant.objects.filter(user=user, revoked_at__isnull=True)
    if project is not None:
        rows = rows.filter(place__project=project)
    found = list(rows.select_related("place__project", "user"))
    _revoke(found, actor)
    return len(found)


def grants_revoke_made_with(token: ApiToken, actor: Principal) -> None:
    """End the kubeconfigs that an API token made: it is revoked itself."""
    rows = KubeGrant.objects.filter(token_uid=token.uid, revoked_at__isnull=True)
    _revoke(list(rows.select_related("place__project", "user")), actor)


def _revoke(grants: list[KubeGrant], who: Principal | None) -> None:
    for grant in grants:
        changed = KubeGrant.objects.filter(pk=grant.pk, revoked_at__isnull=True).update(
            revoked_at=now()
        )
        if changed:
            _told(who, grant, "kubeconfig.revoked")
            hint(grant.place)


def token_issue(*, principal: Principal, grant: KubeGrant, patience_s: float = 0.0) -> KubeToken:
    """Return a token for kubectl. Conflict ``preparing`` until the worker has made the rights."""
    require(principal, grant.place.project, Permission.KUBE_USE)
    if grant.user_id != principal.user.pk:
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours."))
    until = time.monotonic() + patience_s
    while True:
        try:
            _check(grant)
            said = gateway.ask(ASK_TOKEN, {"grant": str(grant.uid)})
            break
        except Conflict as error:
            if error.code != PREPARING or time.monotonic() > until:
                raise
        time.sleep(0.2)
    first = not KubeGrant.objects.filter(pk=grant.pk, last_used_at__isnull=False).exists()
    KubeGrant.objects.filter(pk=grant.pk).update(last_used_at=now(), last_used_ip=principal.ip[:64])
    if first or grant.kind == GrantKind.TOKEN:
        _told(principal, grant, "kubeconfig.token-issued")
    return KubeToken(str(said["token"]), float(said["expires_at"]))


def file_of(*, principal: Principal, grant: KubeGrant, portal: str, patience_s: float = 0.0) -> str:
    """Return the kubeconfig of a grant: without a secret, or with one token in it."""
    require(principal, grant.place.project, Permission.KUBE_USE)
    place = grant.place
    _reached(place.cluster_key)
    server, ca, server_name = server_of(place.cluster_key)
    target = Target(
        server=server,
        ca=ca,
        server_name=server_name,
        cluster=place.cluster_key,
        project=place.project.slug,
        namespace=place.namespace,
        username=principal.user.username,
    )
    if grant.kind == GrantKind.EXEC:
        return with_plugin(target, portal=portal, grant=str(grant.uid))
    made = token_issue(principal=principal, grant=grant, patience_s=patience_s)
    return with_token(target, token=made.token)


def server_of(cluster_key: str) -> tuple[str, str, str]:
    """Return of a cluster's API server for people: address, certificate authority (PEM), and the
    name in its certificate where that is another one.
    """
    options = _options(cluster_key)
    if options.kube_api_url and options.kube_api_ca:
        return options.kube_api_url, options.kube_api_ca, ""
    said = gateway.ask(ASK_SERVER, {"cluster": cluster_key})
    # a gate of the release before says no name
    return str(said["server"]), str(said["ca"]), str(said.get("server_name", ""))


def connect() -> None:
    """Who leaves or is disabled loses kubectl too, a token what it made; the gate answers."""
    accounts.user_disabled.register(_user_disabled)
    accounts.token_revoked.register(grants_revoke_made_with)
    hooks.member_left.register(_member_left)
    gateway.register(ASK_TOKEN, answer_token)
    gateway.register(ASK_SERVER, answer_server)


def _user_disabled(user: User, who: Principal | None) -> None:
    grants_revoke_for(user=user, actor=who)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    grants_revoke_for(user=user, project=project, actor=who)


# --- answers of the process that holds the credentials ------------------------------------------
def answer_token(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Look again here: whoever asks only names a grant."""
    grant = (
        KubeGrant.objects.select_related("place__project", "user")
        .filter(uid=_uid(payload.get("grant")))
        .first()
    )
    if grant is None:
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours."))
    _check(grant)
    driver = _asked(grant.place.cluster_key)
    if not isinstance(driver, SupportsKubeTokens):
        raise Unavailable(_("This cluster gives no tokens."))
    try:
        token = driver.kube_token(
            namespace=grant.place.namespace,
            user=str(grant.user.uid),
            grant=str(grant.uid),
            seconds=_seconds(grant),
        )
    except Settling as error:
        raise _preparing() from error
    except NotYet as error:
        # It was made, so somebody removed it by hand: secrets are not watched.
        ProjectNamespace.objects.filter(pk=grant.place_id).update(generation=F("generation") + 1)
        hint(grant.place)
        raise _preparing() from error
    except DriverError as error:
        raise Unavailable(_("The cluster does not answer; try again.")) from error
    return {"token": token.token, "expires_at": token.expires_at}


def answer_server(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """All of it is public; only who opens the credential knows them as attached."""
    key = str(payload.get("cluster"))
    options = _options(key)
    try:
        access = registry.access_of(Cluster.objects.get(key=key))
    except DriverError as error:
        raise Unavailable(str(error)) from error
    if access is None:
        raise Unavailable(_("The gate to the clusters has no credential for this one."))
    pem = access.ca_pem.decode() if isinstance(access.ca_pem, bytes) else access.ca_pem
    return {
        "server": options.kube_api_url or access.server,
        "ca": options.kube_api_ca or pem,
        "server_name": "" if options.kube_api_url else access.tls_server_name,
    }


def _options(cluster_key: str) -> ClusterOptions:
    return options_of(_cluster(cluster_key).options)


def _cluster(cluster_key: str) -> Cluster:
    rows = Cluster.objects.with_tenants().filter(enabled=True)
    cluster = rows.filter(key=cluster_key).first()
    if cluster is None:
        raise Conflict(_("This cluster is not attached now."), code="cluster-gone")
    return cluster


def no_address(name: str) -> str:
    """Why there is no kubeconfig for a cluster, in words for its members and its operator."""
    sentence = _(
        "kubectl can't reach “%(name)s” from outside yet: an operator must say where its API server"
        " is for people (option kube_api_url)."
    )
    return sentence % {"name": name}


def _reached(cluster_key: str) -> None:
    """Refuse what could only time out: a file with the address that pods have for the server."""
    cluster = _cluster(cluster_key)
    if not kubectl_reaches(cluster):
        raise Conflict(no_address(cluster.label), code="no-kube-address")


def _check(grant: KubeGrant) -> None:
    """Raise unless the grant is alive and its person still belongs there."""
    alive = KubeGrant.objects.filter(
        pk=grant.pk, revoked_at__isnull=True, expires_at__gt=now(), user__is_active=True
    )
    members = Membership.objects.filter(project=grant.place.project, user=grant.user)
    if not alive.exists() or not members.exists():
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours."))
    place = ProjectNamespace.objects.get(pk=grant.place_id)
    if place.phase == Phase.FAILED:
        raise Conflict(place.message or _("The namespace can't be made."), code="place-failed")
    if str(grant.uid) not in place.external_ref.get("grants", ()):
        raise _preparing()


def _preparing() -> Conflict:
    return Conflict(
        _("The rights in the cluster are being made; ask again in a second."), code=PREPARING
    )


def _seconds(grant: KubeGrant) -> int:
    if grant.kind == GrantKind.EXEC:
        return EXEC_TOKEN_S
    return max(MIN_TOKEN_S, int((grant.expires_at - now()).total_seconds()))


def _asked(cluster_key: str) -> Any:
    try:
        return registry.driver_for(cluster_key)
    except DriverError as error:
        raise Unavailable(str(error)) from error


def _place(project: Project, cluster_key: str) -> ProjectNamespace:
    allowed = namespaces.clusters_of(project.uid)
    place = None
    if not allowed or cluster_key in allowed:
        place = namespaces.place_ensure(project=project, cluster_key=cluster_key)
    if place is None:
        sentence = _("This project has no namespace on a cluster called “%(name)s”.")
        said = sentence % {"name": cluster_key[:63]}
        raise wrong("cluster", said)
    return place


def _told(who: Principal | None, grant: KubeGrant, verb: str) -> None:
    record(
        actor=who,
        verb=verb,
        target=grant,
        project_uid=grant.place.project.uid,
        data={"cluster": grant.place.cluster_key, "kind": grant.kind, "of": grant.user.username},
    )


def _uid(value: Any) -> UUID:
    try:
        return UUID(str(value))
    except ValueError:
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours.")) from None


# kubectl prints it where it finds no berth: as the pages say it
HINT = "Install Berth's command line (pip install ./cli in its checkout), then run: berth login {}"


@dataclass(frozen=True)
class Target:
    """What a file points at."""

    server: str
    ca: str  # PEM
    cluster: str
    project: str
    namespace: str
    username: str
    server_name: str = ""  # that its certificate proves, where that is not the server's own


def with_plugin(target: Target, *, portal: str, grant: str) -> str:
    """Return a file without a secret: the berth command signs in with what it holds."""
    args = ["--server", portal, "kube-credential", "--cluster", target.cluster]
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "berth",
            "args": [*args, "--project", target.project, "--grant", grant],
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            "installHint": HINT.format(portal),
        }
    }
    return _file(target, user)


def with_token(target: Target, *, token: str) -> str:
    return _file(target, {"token": token})


def _file(target: Target, user: dict[str, Any]) -> str:
    context = f"{target.project}@{target.cluster}"
    who = f"{target.username}@{target.cluster}/{target.project}"
    authority = base64.b64encode(target.ca.encode()).decode()
    name = {"tls-server-name": target.server_name} if target.server_name else {}
    said = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": target.cluster,
                "cluster": {
                    "server": target.server,
                    "certificate-authority-data": authority,
                    **name,
                },
            }
        ],
        "contexts": [
            {
                "name": context,
                "context": {
                    "cluster": target.cluster,
                    "namespace": target.namespace,
                    "user": who,
                },
            }
        ],
        "current-context": context,
        "users": [{"name": who, "user": user}],
    }
    return yaml.safe_dump(said, sort_keys=False)
