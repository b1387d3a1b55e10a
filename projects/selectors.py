"""Reading projects, members, invitations."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import (
    Case,
    Count,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Lower, NullIf
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from accounts.principal import Principal
from common.clock import now
from common.errors import NotFound
from projects.access import (
    AUDITOR_PERMISSIONS,
    OPERATOR_PERMISSIONS,
    PERMISSION_TEXT,
    ROLE_PERMISSIONS,
    Permission,
    projects_visible_to,
)
from projects.choices import RANK, Role
from projects.models import Invitation, KubeGrant, Membership, Project

CREATE_TEXT: Promise = _("Make projects")


def projects_listed(
    who: Principal, *, search: str = "", archived: bool | None = None
) -> QuerySet[Project]:
    """Return visible projects with ``my_role`` and ``member_count``, by name."""
    mine = Membership.objects.filter(project=OuterRef("pk"), user=who.user).values("role")[:1]
    counted = (
        Membership.objects.filter(project=OuterRef("pk"))
        .order_by()
        .values("project")
        .annotate(n=Count("pk"))
        .values("n")
    )
    rows = projects_visible_to(who).annotate(my_role=Subquery(mine), member_count=Subquery(counted))
    if search:
        rows = rows.filter(name__icontains=search) | rows.filter(slug__icontains=search)
    if archived is not None:
        rows = rows.filter(archived_at__isnull=not archived)
    return rows.order_by("name", "id")


def members_of(project: Project) -> QuerySet[Membership]:
    return Membership.objects.filter(project=project).select_related("user").order_by("id")


def members_by_rank(project: Project, search: str = "") -> QuerySet[Membership]:
    """Return the members, owners first, then by the name that people see."""
    rows = members_of(project)
    if search:
        rows = rows.filter(
            Q(user__username__icontains=search) | Q(user__display_name__icontains=search)
        )
    ranks = [When(role=role.value, then=rank) for role, rank in RANK.items()]
    return rows.annotate(
        rank=Case(*ranks, default=0, output_field=IntegerField()),
        label=Lower(Coalesce(NullIf("user__display_name", Value("")), "user__username")),
    ).order_by("-rank", "label", "pk")


def member_user(project: Project, username: str) -> User:
    """Return a member's account by username; strangers and unknown names are alike."""
    user = User.objects.filter(username=username, memberships__project=project).first()
    if user is None:
        raise NotFound(_("There is no such member."))
    return user


def user_to_add(username: str) -> User:
    """Return an active person by exact username or mail address, to be added by a manager."""
    found = User.objects.filter(username=username, is_active=True).first()
    if found is None and "@" in username:
        found = User.objects.filter(email__iexact=username, is_active=True).first()
    if found is None:
        raise NotFound(_("There is no such person. Invite by e-mail instead."))
    return found


def invitations_open(project: Project) -> QuerySet[Invitation]:
    return (
        Invitation.objects.filter(
            project=project,
            accepted_at__isnull=True,
            revoked_at__isnull=True,
            expires_at__gt=now(),
        )
        .select_related("invited_by", "project")
        .order_by("-id")
    )


def invitation_get(project: Project, uid: str) -> Invitation:
    row = invitations_open(project).filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such invitation."))
    return row


def kube_grants_of(who: Principal, project: Project | None = None) -> QuerySet[KubeGrant]:
    """Return one's own kubeconfigs that are alive, newest first."""
    rows = KubeGrant.objects.filter(
        user=who.user,
        revoked_at__isnull=True,
        expires_at__gt=now(),
        place__project__in=projects_visible_to(who),
    )
    if project is not None:
        rows = rows.filter(place__project=project)
    return rows.select_related("place__project", "user").order_by("-id")


def kube_grant_get(who: Principal, project: Project, uid: str, *, manages: bool) -> KubeGrant:
    """Return one's own kubeconfig, or anybody's in the project for who ``manages`` members."""
    rows = KubeGrant.objects.filter(place__project=project, revoked_at__isnull=True, uid=uid)
    row = rows.select_related("place__project", "user").first()
    if row is None or not (manages or row.user_id == who.user.pk):
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours."))
    return row


def kube_grant_own(who: Principal, uid: str) -> KubeGrant:
    row = KubeGrant.objects.filter(user=who.user, revoked_at__isnull=True, uid=uid)
    found = row.select_related("place__project", "user").first()
    if found is None:
        raise NotFound(_("This kubeconfig was revoked, has ended, or is not yours."))
    return found


def projects_with_places(who: Principal) -> QuerySet[Project]:
    """Return one's projects that have a namespace somewhere, by name."""
    rows = Project.objects.filter(memberships__user=who.user, deleted_at__isnull=True)
    return rows.filter(places__deleted_at__isnull=True).distinct().order_by("name")


def kube_grants_in(project: Project) -> QuerySet[KubeGrant]:
    """Return everybody's live kubeconfigs of a project (for managers)."""
    rows = KubeGrant.objects.filter(
        place__project=project, revoked_at__isnull=True, expires_at__gt=now()
    )
    return rows.select_related("place__project", "user").order_by("-id")


def kube_grants_matching(rows: QuerySet[KubeGrant], words: str) -> QuerySet[KubeGrant]:
    """Narrow to those with the words in name, place or person."""
    if not words:
        return rows
    place = Q(place__cluster_key__icontains=words) | Q(place__project__name__icontains=words)
    person = Q(user__username__icontains=words) | Q(user__display_name__icontains=words)
    return rows.filter(Q(name__icontains=words) | place | person)


def choices_for_tokens(user: User) -> Sequence[tuple[str, str]]:
    """Return (uid, name) of the person's projects, for limiting an API token."""
    rows = Project.objects.filter(memberships__user=user, deleted_at__isnull=True)
    return [(str(uid), name) for uid, name in rows.order_by("name").values_list("uid", "name")]


@dataclass(frozen=True)
class PermissionRow:
    """One line of the table that the page and docs/permissions.md print."""

    permission: Permission
    text: Promise
    roles: tuple[bool, ...]  # in the order of Role
    operator: bool
    auditor: bool

    @property
    def labelled_roles(self) -> list[tuple[str, bool]]:
        return [(str(role.label), has) for role, has in zip(Role, self.roles, strict=True)]


def permission_table() -> list[PermissionRow]:
    return [
        PermissionRow(
            permission=permission,
            text=PERMISSION_TEXT[permission],
            roles=tuple(permission in ROLE_PERMISSIONS[r] for r in Role),
            operator=permission in OPERATOR_PERMISSIONS,
            auditor=permission in AUDITOR_PERMISSIONS,
        )
        for permission in Permission
    ]
