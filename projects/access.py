"""The one door to tenant objects.

Two ways in: ``project_enter`` for one project, ``scoped`` for querysets of rows with a
``project``. A stranger gets NotFound (the same as "does not exist"), a member without the
right gets Forbidden with the reason. Effective right = role and token.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from django.db.models import Model, OuterRef, Q, QuerySet, Subquery
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.principal import Principal
from common.errors import Forbidden, NotFound
from projects.choices import Role
from projects.models import Membership, Project


class Permission(StrEnum):
    """Every right inside a project, named ``resource:action``."""

    CREDENTIAL_MANAGE = "credential:manage"
    CREDENTIAL_READ = "credential:read"
    CREDENTIAL_USE = "credential:use"
    ENDPOINT_CALL = "endpoint:call"
    ENDPOINT_CREATE = "endpoint:create"
    ENDPOINT_MANAGE = "endpoint:manage"
    ENDPOINT_READ = "endpoint:read"
    EVENT_READ = "event:read"
    JOB_CREATE = "job:create"
    JOB_MANAGE = "job:manage"
    JOB_READ = "job:read"
    KUBE_USE = "kube:use"
    LOAD_CREATE = "load:create"
    LOAD_MANAGE = "load:manage"
    LOAD_READ = "load:read"
    MEMBER_MANAGE = "member:manage"
    MEMBER_READ = "member:read"
    MODEL_MANAGE = "model:manage"
    MODEL_READ = "model:read"
    PATROL_READ = "patrol:read"
    PROJECT_ARCHIVE = "project:archive"
    PROJECT_DELETE = "project:delete"
    PROJECT_READ = "project:read"
    PROJECT_UPDATE = "project:update"
    QUOTA_READ = "quota:read"
    USAGE_READ = "usage:read"
    VOLUME_CREATE = "volume:create"
    VOLUME_MANAGE = "volume:manage"
    VOLUME_READ = "volume:read"
    VOLUME_USE = "volume:use"
    WEBHOOK_MANAGE = "webhook:manage"
    WORKSPACE_CREATE = "workspace:create"
    WORKSPACE_MANAGE = "workspace:manage"
    WORKSPACE_READ = "workspace:read"


PERMISSION_TEXT: dict[Permission, Promise] = {
    Permission.CREDENTIAL_MANAGE: _("Store, replace and remove credentials (never read them)"),
    Permission.CREDENTIAL_READ: _("See which credentials there are"),
    Permission.CREDENTIAL_USE: _("Put credentials of the project to use in own work"),
    Permission.ENDPOINT_CALL: _("Send requests to endpoints"),
    Permission.ENDPOINT_CREATE: _("Run own endpoints, make keys for them, stop and delete them"),
    Permission.ENDPOINT_MANAGE: _(
        "Change, take over, stop and delete endpoints of others, and their keys"
    ),
    Permission.ENDPOINT_READ: _("See endpoints, their state and how they are called"),
    Permission.EVENT_READ: _("Read what happened in the project"),
    Permission.JOB_CREATE: _("Run own jobs, cancel and delete them"),
    Permission.JOB_MANAGE: _("Cancel and delete jobs of others"),
    Permission.JOB_READ: _("See jobs, their state and their replicas"),
    Permission.KUBE_USE: _("Use kubectl in the project's namespace (own workspaces only)"),
    Permission.LOAD_CREATE: _("Load data into volumes and out of them; pause and end own loads"),
    Permission.LOAD_MANAGE: _("Pause, change and remove loads of others"),
    Permission.LOAD_READ: _("See loads and how far they are"),
    Permission.MEMBER_MANAGE: _("Invite, remove and change members up to the own role"),
    Permission.MEMBER_READ: _("See who belongs to the project"),
    Permission.MODEL_MANAGE: _("Register models and versions, and retire and delete them"),
    Permission.MODEL_READ: _("See models and their versions"),
    Permission.PATROL_READ: _("See who holds GPUs and does not use them"),
    Permission.PROJECT_ARCHIVE: _("Archive the project and bring it back"),
    Permission.PROJECT_DELETE: _("Delete the project with all it holds"),
    Permission.PROJECT_READ: _("See the project"),
    Permission.PROJECT_UPDATE: _("Rename the project and edit its description"),
    Permission.QUOTA_READ: _("See limits and what is used"),
    Permission.USAGE_READ: _("See the usage of the whole project"),
    Permission.VOLUME_CREATE: _("Create volumes; change and delete those of one's own making"),
    Permission.VOLUME_MANAGE: _("Change, delete and hand over every volume of the project"),
    Permission.VOLUME_READ: _("See volumes"),
    Permission.VOLUME_USE: _("Mount shared volumes, look into them and change their files"),
    Permission.WEBHOOK_MANAGE: _("Set up webhooks, which tell others what happens here"),
    Permission.WORKSPACE_CREATE: _("Start own workspaces"),
    Permission.WORKSPACE_MANAGE: _("Stop and delete workspaces of others (not open them)"),
    Permission.WORKSPACE_READ: _("See names and states of all workspaces"),
}

_VIEWER = frozenset(
    {
        Permission.ENDPOINT_READ,
        Permission.JOB_READ,
        Permission.KUBE_USE,
        Permission.LOAD_READ,
        Permission.PROJECT_READ,
        Permission.MEMBER_READ,
        Permission.MODEL_READ,
        Permission.QUOTA_READ,
        Permission.USAGE_READ,
        Permission.VOLUME_READ,
        Permission.WORKSPACE_READ,
    }
)
_MEMBER = _VIEWER | {
    Permission.CREDENTIAL_READ,
    Permission.CREDENTIAL_USE,
    Permission.ENDPOINT_CALL,
    Permission.ENDPOINT_CREATE,
    Permission.EVENT_READ,
    Permission.JOB_CREATE,
    Permission.LOAD_CREATE,
    Permission.MODEL_MANAGE,
    Permission.VOLUME_CREATE,
    Permission.VOLUME_USE,
    Permission.WORKSPACE_CREATE,
}
_MANAGER = _MEMBER | {
    Permission.CREDENTIAL_MANAGE,
    Permission.ENDPOINT_MANAGE,
    Permission.JOB_MANAGE,
    Permission.LOAD_MANAGE,
    Permission.MEMBER_MANAGE,
    Permission.PATROL_READ,
    Permission.PROJECT_UPDATE,
    Permission.VOLUME_MANAGE,
    Permission.WEBHOOK_MANAGE,
    Permission.WORKSPACE_MANAGE,
}
_OWNER = _MANAGER | {Permission.PROJECT_ARCHIVE, Permission.PROJECT_DELETE}

ROLE_PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.MEMBER: frozenset(_MEMBER),
    Role.MANAGER: frozenset(_MANAGER),
    Role.OWNER: frozenset(_OWNER),
}
# An operator acts in every project but does not become a member: he cannot start work, use
# kubectl or the project's secrets, or look into its files there and, like everybody, cannot
# open a workspace that was not shared with him.
_MEMBERS_ONLY = frozenset(
    {
        Permission.CREDENTIAL_USE,
        Permission.ENDPOINT_CALL,
        Permission.ENDPOINT_CREATE,
        Permission.JOB_CREATE,
        Permission.KUBE_USE,
        Permission.LOAD_CREATE,
        Permission.VOLUME_USE,
        Permission.WORKSPACE_CREATE,
    }
)
OPERATOR_PERMISSIONS: frozenset[Permission] = frozenset(_OWNER - _MEMBERS_ONLY)
AUDITOR_PERMISSIONS: frozenset[Permission] = frozenset(
    (_VIEWER | {Permission.EVENT_READ, Permission.PATROL_READ}) - _MEMBERS_ONLY
)

M = TypeVar("M", bound=Model)
_kept_roles: ContextVar[dict[tuple[int, int], Role | None] | None] = ContextVar(
    "kept_roles", default=None
)


def permissions_of(who: Principal, project: Project) -> frozenset[Permission]:
    """Return every right that ``who`` has in ``project``; empty for a stranger."""
    return permissions_for(who, project, role_of(who, project))


def permissions_for(who: Principal, project: Project, role: Role | None) -> frozenset[Permission]:
    """Like ``permissions_of`` for a role that is already known; asks the database nothing."""
    if not who.user.is_active or not who.allows_project(project.uid):
        return frozenset()
    granted: frozenset[Permission] = frozenset()
    if role is not None:
        granted |= ROLE_PERMISSIONS[role]
    if who.is_operator:
        granted |= OPERATOR_PERMISSIONS
    elif who.is_auditor:
        granted |= AUDITOR_PERMISSIONS
    return frozenset(p for p in granted if who.allows_scope(p))


def role_of(who: Principal, project: Project) -> Role | None:
    kept = _kept_roles.get()
    if kept is None:
        return _role_of(who, project)
    key = (who.user.pk, project.pk)
    if key not in kept:
        kept[key] = _role_of(who, project)
    return kept[key]


def _role_of(who: Principal, project: Project) -> Role | None:
    value = (
        Membership.objects.filter(project=project, user=who.user)
        .values_list("role", flat=True)
        .first()
    )
    return Role(value) if value else None


def roles_in(
    project_ids: Collection[int], user_ids: Collection[int]
) -> dict[tuple[int, int], Role]:
    """Return the role of each (project, person) that is a member, in one query."""
    rows = Membership.objects.filter(project_id__in=project_ids, user_id__in=user_ids)
    return {(p, u): Role(role) for p, u, role in rows.values_list("project_id", "user_id", "role")}


def roles_with(permission: Permission) -> list[Role]:
    """Return the roles in a project that have this right."""
    return [role for role in Role if permission in ROLE_PERMISSIONS[role]]


@contextmanager
def roles_kept() -> Iterator[None]:
    """Ask for each role once within the block.

    For one short act that needs many rights; nothing that goes on, like a stream, may use it.
    """
    token = _kept_roles.set({})
    try:
        yield
    finally:
        _kept_roles.reset(token)


def keep_roles(who: Principal, project_ids: Collection[int]) -> None:
    """Ask for the roles of ``who`` in all these at once, inside ``roles_kept``."""
    if (kept := _kept_roles.get()) is not None:
        found = roles_in(project_ids, [who.user.pk])
        kept |= {(who.user.pk, pk): found.get((pk, who.user.pk)) for pk in project_ids}


@dataclass(frozen=True)
class Entry:
    """A project that somebody entered, with all that he may do there."""

    project: Project
    role: Role | None
    granted: frozenset[Permission]

    def can(self, permission: Permission) -> bool:
        return permission in self.granted


def project_enter(who: Principal, slug: str, permission: Permission) -> Entry:
    """Return the project and the rights there, or raise NotFound (stranger) or Forbidden.

    One query whether the project is unknown, foreign or one's own, so that time tells nothing.
    """
    mine = Membership.objects.filter(project=OuterRef("pk"), user=who.user).values("role")[:1]
    project = (
        Project.objects.filter(slug=slug, deleted_at__isnull=True)
        .annotate(entered_role=Subquery(mine))
        .first()
    )
    if project is None:
        raise NotFound(_("There is no such project, or you are not a member of it."))
    role = Role(project.entered_role) if project.entered_role else None
    granted = permissions_for(who, project, role)
    _demand(granted, permission)
    return Entry(project=project, role=role, granted=granted)


def require(who: Principal, project: Project, permission: Permission) -> None:
    """Raise NotFound for strangers, Forbidden for members without the right."""
    _demand(permissions_of(who, project), permission)


def _demand(granted: frozenset[Permission], permission: Permission) -> None:
    if Permission.PROJECT_READ not in granted and permission not in granted:
        raise NotFound(_("There is no such project, or you are not a member of it."))
    if permission not in granted:
        raise Forbidden(denial(permission))


def denial(permission: Permission) -> str:
    """Return the sentence for a disabled button or a 403."""
    allowed = [str(r.label) for r in roles_with(permission)]
    return str(
        _("This needs the right “%(right)s”; %(roles)s of the project have it.")
        % {"right": PERMISSION_TEXT[permission], "roles": ", ".join(allowed)}
    )


def projects_visible_to(who: Principal) -> QuerySet[Project]:
    """Return the projects ``who`` may see, without deleted ones."""
    projects = Project.objects.filter(deleted_at__isnull=True)
    if not who.user.is_active or not who.allows_scope(Permission.PROJECT_READ):
        return projects.none()
    if who.token is not None and who.token.project_uids:
        projects = projects.filter(uid__in=who.token.project_uids)
    if who.is_auditor:
        return projects
    return projects.filter(memberships__user=who.user)


def scoped(rows: QuerySet[M], who: Principal, permission: Permission) -> QuerySet[M]:
    """Narrow rows with a ``project`` column to those where ``who`` has ``permission``."""
    if not who.user.is_active or not who.allows_scope(permission):
        return rows.none()
    if who.token is not None and who.token.project_uids:
        rows = rows.filter(project__uid__in=who.token.project_uids)
    if who.is_operator and permission in OPERATOR_PERMISSIONS:
        return rows.filter(project__deleted_at__isnull=True)
    if who.is_auditor and permission in AUDITOR_PERMISSIONS:
        return rows.filter(project__deleted_at__isnull=True)
    roles = roles_with(permission)
    mine = Membership.objects.filter(user=who.user, role__in=roles).values("project_id")
    return rows.filter(Q(project_id__in=mine), project__deleted_at__isnull=True)
