"""The places of a project: one namespace on each cluster that it uses.

A row is made with the first launch or kubeconfig there (and when the project is made, so that
the first launch need not wait). The reconciler keeps the namespace as it should be.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters import where
from clusters.installed import kubectl_reaches
from clusters.models import Cluster
from common.clock import now
from common.hooks import Hook
from projects import hooks
from projects.hooks import ContentSummary
from projects.models import KubeGrant, Project, ProjectNamespace
from runtime.hints import hint, hint_uids
from runtime.models import ONE_MACHINE
from runtime.protocol import Denied, Desired, Phase

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.choices import Role
    from runtime.reconcilers import Transition


WAITING = "preparing"  # reason of work that waits for its place
# A worker may use the driver with the old options for some seconds after a change.
OPTIONS_SETTLE = timedelta(seconds=7)

# Filled by apps whose work becomes pods, the answers are added up:
# (project, cluster key, user uids) → user uid → names of the pods that are their own
pods_of_people: Hook[[Project, str, Collection[UUID]], Mapping[UUID, Collection[str]]] = Hook()


def own_pods(project: Project, cluster_key: str, users: Collection[UUID]) -> dict[UUID, set[str]]:
    found: dict[UUID, set[str]] = {user: set() for user in users}
    for pods_by_user in pods_of_people(project, cluster_key, users):
        for user, pods in pods_by_user.items():
            found.setdefault(user, set()).update(pods)
    return found


def namespace_of(project: Project, cluster_key: str) -> str:
    """Return the name of the project's namespace there, made or not; '' where there is none."""
    cluster = Cluster.objects.with_tenants().filter(key=cluster_key).first()
    return "" if cluster is None else where.namespace_of(project, cluster)


def place_of(project: Project, cluster_key: str) -> ProjectNamespace | None:
    return ProjectNamespace.objects.filter(
        project=project, cluster_key=cluster_key, deleted_at__isnull=True
    ).first()


def place_ensure(*, project: Project, cluster_key: str) -> ProjectNamespace | None:
    """Return the place, wanted from now on; None where a cluster needs none."""
    found = place_of(project, cluster_key)
    if found is not None:
        return found
    cluster = Cluster.objects.with_tenants().filter(key=cluster_key).first()
    if cluster is None:
        return None
    try:
        with transaction.atomic():
            made = ProjectNamespace.objects.create(
                project=project,
                cluster_key=cluster_key,
                namespace=where.namespace_of(project, cluster),
                phase_since=now(),
            )
    except IntegrityError:  # somebody else made it at the same moment
        return place_of(project, cluster_key)
    hint(made)
    return made


def places_ensure(project: Project) -> None:
    """Want a place on every cluster it may use, so that its first launch need not wait."""
    allowed = clusters_of(project.uid)
    rows = Cluster.objects.with_tenants().filter(enabled=True)
    for key in rows.values_list("key", flat=True):
        if not allowed or key in allowed:
            place_ensure(project=project, cluster_key=key)


@dataclass(frozen=True)
class Where:
    """One cluster that a project may use, and its namespace there ('' phase: not made yet)."""

    cluster: str
    name: str
    namespace: str
    phase: str
    kubectl: bool = True  # people's own can be told how to reach it


def places_listed(project: Project) -> list[Where]:
    """Return where the project has, or would get, a namespace. Three queries."""
    made = ProjectNamespace.objects.filter(project=project, deleted_at__isnull=True)
    phases = dict(made.values_list("cluster_key", "phase"))
    allowed = clusters_of(project.uid)
    rows = Cluster.objects.with_tenants().filter(enabled=True).order_by("name")
    return [
        Where(
            c.key, c.name, where.namespace_of(project, c), phases.get(c.key, ""), kubectl_reaches(c)
        )
        for c in rows
        if not allowed or c.key in allowed
    ]


def all_clusters() -> list[tuple[str, str]]:
    return list(Cluster.objects.order_by("name").values_list("key", "name"))


def any_tenant_cluster() -> bool:
    return Cluster.objects.with_tenants().filter(enabled=True).exists()


def clusters_of(project_uid: Any) -> list[str]:
    """Return the keys of the clusters the project is limited to; empty: all of them."""
    rows = Cluster.objects.filter(
        pk__in=Project.clusters.through.objects.filter(project__uid=project_uid).values(
            "cluster_id"
        )
    )
    return list(rows.values_list("key", flat=True))


def tenant_ready(cluster_key: str, project_uid: str) -> str | None:
    """Answer ``runtime.ports.tenant_ready``: None when work may be made there."""
    rows = ProjectNamespace.objects.filter(
        project__uid=project_uid, cluster_key=cluster_key, deleted_at__isnull=True
    )
    found = rows.values_list("phase", "desired", "message").first()
    if found is None:
        project = Project.objects.filter(uid=project_uid, deleted_at__isnull=True).first()
        if project is None or place_ensure(project=project, cluster_key=cluster_key) is None:
            return None
        found = (Phase.PENDING, Desired.RUNNING, "")
    phase, desired, message = found
    if phase == Phase.RUNNING and desired == Desired.RUNNING:
        return None
    return message or _("The project's namespace on the cluster is being made.")


def wake_waiting(transition: Transition) -> None:
    """Listener: work that waited for this place goes on."""
    if not isinstance(transition.row, ProjectNamespace) or transition.after != Phase.RUNNING:
        return
    if transition.before == Phase.RUNNING:
        return
    from runtime import reconcilers

    place = transition.row
    for kind, reconciler in reconcilers.registered().items():
        if kind in {ProjectNamespace.KIND, Project.KIND}:
            continue
        fields = reconciler.model._meta.get_fields()  # noqa: SLF001 - any model
        if all(field.name != "project" for field in fields):
            continue
        waiting = reconcilers.rows_of(kind).filter(
            project_id=place.project_id,
            cluster_key=place.cluster_key,
            reason=WAITING,
            deleted_at__isnull=True,
        )
        hint_uids(kind, waiting.values_list("uid", flat=True))


def pods_changed(transition: Transition) -> None:
    """Listener: somebody with a kubeconfig has another workspace, or one less."""
    row = transition.row
    owner, project = getattr(row, "owner_id", None), getattr(row, "project_id", None)
    if owner is None or project is None or row.cluster_key == ONE_MACHINE:
        return
    has_left = transition.before == Phase.PENDING != transition.after
    if not transition.gone and not has_left:
        return
    grants = KubeGrant.objects.filter(
        user_id=owner,
        place__project_id=project,
        place__cluster_key=row.cluster_key,
        revoked_at__isnull=True,
    )
    hint_uids(ProjectNamespace.KIND, set(grants.values_list("place__uid", flat=True)))


def cluster_changed(cluster_key: str) -> None:
    """Apply every namespace anew with the options as they are now; forget those of a cluster
    that was detached (``clusters.services.detach`` removes those that are empty).
    """
    rows = ProjectNamespace.objects.filter(cluster_key=cluster_key, deleted_at__isnull=True)
    if not Cluster.objects.filter(key=cluster_key).exists():
        KubeGrant.objects.filter(place__in=rows, revoked_at__isnull=True).update(revoked_at=now())
        rows.update(deleted_at=now(), next_reconcile_at=None, phase=Phase.DELETED)
        return
    rows.update(next_reconcile_at=now() + OPTIONS_SETTLE)


def connect() -> None:
    hooks.register_contents(ProjectNamespace.KIND, _summarize, request_delete=_request_delete)
    hooks.role_changed.register(_role_changed)


def _role_changed(project: Project, user: User, role: Role, who: Principal | None) -> None:
    """Rights in the cluster follow the role."""
    del role, who
    grants = KubeGrant.objects.filter(user=user, place__project=project, revoked_at__isnull=True)
    hint_uids(ProjectNamespace.KIND, set(grants.values_list("place__uid", flat=True)))


# --- contents of a project ------------------------------------------------------------------
def _summarize(project: Project) -> list[ContentSummary]:
    keys = tuple(
        ProjectNamespace.objects.filter(project=project, deleted_at__isnull=True)
        .order_by("cluster_key")
        .values_list("cluster_key", flat=True)
    )
    text = ngettext("%(n)d namespace (%(where)s)", "%(n)d namespaces (%(where)s)", len(keys))
    said = text % {"n": len(keys), "where": ", ".join(keys)}
    return [ContentSummary(ProjectNamespace.KIND, said, len(keys), 0, keys)]


def _request_delete(project: Project, who: Principal | None) -> None:
    del who
    rows = ProjectNamespace.objects.filter(project=project, deleted_at__isnull=True)
    wanted = [p for p in rows if p.desired != Desired.ABSENT]
    for row in wanted:
        row.desired = Desired.ABSENT
        row.generation += 1
        row.save(update_fields=["desired", "generation", "updated_at"])
        hint(row)


# The registry sign-ins of a project, told by the app that keeps them, and the operator's own.
#
# ``credentials`` lies above and provides the answer in ``AppConfig.ready``; the reconciler of a
# project's places asks here. Passwords are only opened when the callable is called.


Logins = Mapping[str, tuple[str, str]]
Feed = Callable[[UUID], tuple[Callable[[], Logins], str]]

_feeds: list[Feed] = []


def provide_registries(feed: Feed) -> None:
    """Name the one who knows; the last one wins."""
    _feeds[:] = [feed]


def registries_of(project_uid: UUID) -> tuple[Callable[[], Logins], str]:
    """Return (registry host → (user, password) when called, version of that answer)."""
    logins, version = _feeds[0](project_uid) if _feeds else (dict, "")
    if not settings.BERTH_IMAGE_SIGN_INS_FILE:
        return logins, version
    everybodys, mark = _of_the_operator(Path(settings.BERTH_IMAGE_SIGN_INS_FILE))
    return lambda: {**everybodys, **logins()}, f"{version}-{mark}"


def _of_the_operator(file: Path) -> tuple[Logins, str]:
    """Read a ``config.json`` as Docker and a Secret for pulling images have it."""
    try:
        raw = file.read_bytes()
        said = json.loads(raw)["auths"]
        mark = hashlib.sha256(raw).hexdigest()[:16]
        return {str(host): _login(entry) for host, entry in said.items()}, mark
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        message = f"The operator's sign-ins for images can't be read ({type(error).__name__})."
        raise Denied(message) from None


def _login(entry: Mapping[str, Any]) -> tuple[str, str]:
    if "username" in entry:
        return str(entry["username"]), str(entry["password"])
    user, _colon, password = base64.b64decode(str(entry["auth"])).decode().partition(":")
    return user, password
