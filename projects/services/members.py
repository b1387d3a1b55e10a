"""Who belongs to a project, and with which role.

Rules (A6): nobody grants more than his own role, edits his own role, or touches somebody
above himself; the last active owner neither goes nor is demoted.
"""

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.models import User
from accounts.principal import Principal
from accounts.services.people import set_platform_role
from common.errors import Conflict, Forbidden, Invalid, NotFound
from events.services import record
from notifications.services import notify
from projects import hooks
from projects.access import Permission, require, role_of
from projects.choices import RANK, Role
from projects.models import GroupRole, Membership, Project
from projects.services.life import changed, line, lock


def roles_grantable(who: Principal, project: Project) -> list[Role]:
    """Return the roles that ``who`` may give, highest last."""
    rank = rank_of(who, project)
    return [r for r in Role if RANK[r] <= rank]


def rank_of(who: Principal, project: Project) -> int:
    """Return how high ``who`` stands; an operator stands as high as an owner."""
    if who.is_operator:
        return RANK[Role.OWNER]
    role = role_of(who, project)
    return RANK[role] if role else 0


@transaction.atomic
def member_add(*, principal: Principal, project: Project, user: User, role: Role) -> Membership:
    """Make ``user`` a member; Conflict when he is one already."""
    require(principal, project, Permission.MEMBER_MANAGE)
    project = lock(project)
    check_grant(principal, project, role)
    if not user.is_active:
        raise Conflict(_("%(who)s is disabled.") % {"who": user.username})
    if Membership.objects.filter(project=project, user=user).exists():
        raise Conflict(
            _("%(who)s is a member already.") % {"who": user.username}, code="already-member"
        )
    row = Membership.objects.create(project=project, user=user, role=role)
    _tell(principal, row, "member.added")
    return row


@transaction.atomic
def member_set_role(
    *, principal: Principal, project: Project, user: User, role: Role
) -> Membership:
    """Change a member's role; effective with his next request."""
    require(principal, project, Permission.MEMBER_MANAGE)
    project = lock(project)
    row = membership_get(project, user)
    if user.pk == principal.user.pk:
        raise Forbidden(_("Nobody changes his own role; ask another manager or owner."))
    _check_above(principal, project, row)
    check_grant(principal, project, role)
    _check_group(row)
    if row.role == role:
        return row
    if row.role == Role.OWNER:
        require_other_owner(project, user)
    before, row.role = row.role, role
    row.save(update_fields=["role"])
    _tell(principal, row, "member.role-changed", message=f"{before} → {role.value}")
    hooks.role_changed(project, user, role, principal)
    return row


@transaction.atomic
def member_remove(*, principal: Principal, project: Project, user: User) -> None:
    """End a membership; what runs for the person there is stopped by the apps that know it."""
    require(principal, project, Permission.MEMBER_MANAGE)
    project = lock(project)
    row = membership_get(project, user)
    _check_above(principal, project, row)
    _check_group(row)
    end_membership(row, who=principal, verb="member.removed")
    if user.pk != principal.user.pk:
        notify(
            users=[user],
            kind="project.removed",
            params={"name": project.name},
            project_id=project.pk,
        )


@transaction.atomic
def member_leave(*, principal: Principal, project: Project) -> None:
    """Go by oneself; every member may, but the last owner."""
    require(principal, project, Permission.PROJECT_READ)
    project = lock(project)
    end_membership(membership_get(project, principal.user), who=principal, verb="member.left")


def end_membership(row: Membership, *, who: Principal | None, verb: str) -> None:
    """Remove the row and let the other apps end what hangs on it. Call it with the lock held."""
    project, user = row.project, row.user
    if row.role == Role.OWNER:
        require_other_owner(project, user)
    row.delete()
    record(
        actor=who,
        verb=verb,
        target=user,
        target_kind="user",
        project_uid=project.uid,
        data={"role": row.role},
    )
    hooks.member_left(project, user, who)
    changed(project)


def membership_get(project: Project, user: User) -> Membership:
    row = (
        Membership.objects.select_related("project", "user")
        .filter(project=project, user=user)
        .first()
    )
    if row is None:
        raise NotFound(_("There is no such member."))
    return row


def require_other_owner(project: Project, user: User) -> None:
    """Raise Conflict when ``user`` is the last active owner."""
    others = Membership.objects.filter(
        project=project, role=Role.OWNER, user__is_active=True
    ).exclude(user=user)
    if not others.exists():
        raise Conflict(
            _("The last owner can't go. Make somebody else an owner first."), code="last-owner"
        )


def check_grant(who: Principal, project: Project, role: Role) -> None:
    if role not in Role:
        raise Invalid(_("There is no such role."), fields={"role": [_("Unknown.")]})
    if RANK[role] > rank_of(who, project):
        raise Forbidden(_("Nobody grants a role above his own."))


def _check_above(who: Principal, project: Project, row: Membership) -> None:
    if RANK[Role(row.role)] > rank_of(who, project):
        raise Forbidden(_("%(who)s stands above you.") % {"who": row.user.username})


def _check_group(row: Membership) -> None:
    if row.from_group:
        raise Conflict(
            _("This membership follows the group “%(group)s” of the sign-in service.")
            % {"group": row.from_group},
            code="from-group",
        )


def _tell(who: Principal | None, row: Membership, verb: str, message: str = "") -> None:
    record(
        actor=who,
        verb=verb,
        target=row.user,
        target_kind="user",
        project_uid=row.project.uid,
        message=message or str(row.role),
        data={"role": row.role},
    )
    if who is None or who.user.pk != row.user_id:
        with override(row.user.reads_in):
            role = str(Role(row.role).label)
        notify(
            users=[row.user],
            kind="project.added",
            params={
                "who": who.user.label if who else "Berth",
                "role": role,
                "name": row.project.name,
            },
            url=f"/projects/{row.project.slug}/",
            project_id=row.project_id,
        )
    changed(row.project)


@transaction.atomic
def groups_sync(user: User, groups: Sequence[str]) -> None:
    """Give and take what the groups mean. What was given by hand stays as it is."""
    rows = list(
        GroupRole.objects.select_related("project").filter(group__in=list(groups)).order_by("id")
    )
    wanted: dict[Project, GroupRole] = {}
    for row in rows:
        if row.project is None or row.project.deleted_at is not None:
            continue
        best = wanted.get(row.project)
        if best is None or RANK[Role(row.role)] > RANK[Role(best.role)]:
            wanted[row.project] = row
    for project, mapping in wanted.items():
        _give(user, project, mapping)
    _take(user, {p.pk for p in wanted})
    _platform(user, rows)


@transaction.atomic
def group_role_set(
    *,
    principal: Principal,
    group: str,
    project: Project | None,
    role: str = "",
    platform_role: str = "",
) -> GroupRole:
    """Let a group mean a role. Operators only: groups come from outside."""
    _require_operator(principal)
    group = line(group, "group", 120)
    if (project is None) != (role == "") or (project is None and not platform_role):
        raise Invalid(_("A group means a role in a project, or a role on the platform."))
    if role and role not in Role.values:
        raise Invalid(_("There is no such role."), fields={"role": [_("Unknown.")]})
    if platform_role not in {"", "operator", "auditor"}:
        raise Invalid(_("There is no such role."), fields={"platform_role": [_("Unknown.")]})
    row, _made = GroupRole.objects.update_or_create(
        group=group,
        project=project,
        defaults={"role": role, "platform_role": "" if project else platform_role},
    )
    record(
        actor=principal,
        verb="group-role.set",
        target_kind="group",
        target_name=group,
        project_uid=project.uid if project else None,
        data={"role": role, "platform_role": platform_role},
    )
    return row


@transaction.atomic
def group_role_remove(*, principal: Principal, row: GroupRole) -> None:
    _require_operator(principal)
    record(
        actor=principal,
        verb="group-role.removed",
        target_kind="group",
        target_name=row.group,
        project_uid=row.project.uid if row.project else None,
    )
    row.delete()


def _give(user: User, project: Project, mapping: GroupRole) -> None:
    role = Role(mapping.role)
    member = Membership.objects.filter(project=project, user=user).first()
    if member is None:
        Membership.objects.create(project=project, user=user, role=role, from_group=mapping.group)
        _tell_of_group(user, project, "member.added", mapping)
    elif member.from_group and (member.role, member.from_group) != (role, mapping.group):
        before, member.role, member.from_group = member.role, role, mapping.group
        member.save(update_fields=["role", "from_group"])
        if before != role:
            _tell_of_group(user, project, "member.role-changed", mapping)
            hooks.role_changed(project, user, role, None)


def _take(user: User, keep: set[int]) -> None:
    gone = (
        Membership.objects.select_related("project", "user")
        .filter(user=user, project__deleted_at__isnull=True)
        .exclude(from_group="")
        .exclude(project__in=keep)
    )
    for member in gone:
        try:
            with transaction.atomic():
                end_membership(member, who=None, verb="member.removed")
        except Conflict as error:
            # an ownerless project helps nobody: he stays, and the log says so
            record(
                actor=None,
                verb="member.removed",
                outcome="denied",
                target=user,
                target_kind="user",
                project_uid=member.project.uid,
                message=error.message,
            )


def _platform(user: User, rows: list[GroupRole]) -> None:
    """The platform role follows groups only where any group means one."""
    if not GroupRole.objects.exclude(platform_role="").exists():
        return
    words = {r.platform_role for r in rows if r.project_id is None}
    role = "operator" if "operator" in words else "auditor" if "auditor" in words else ""
    if role == user.platform_role:
        return
    try:
        with transaction.atomic():
            set_platform_role(who=None, user=user, platform_role=role)
    except Conflict as error:
        record(
            actor=None,
            verb="user.role-changed",
            outcome="denied",
            target=user,
            message=error.message,
        )


def _tell_of_group(user: User, project: Project, verb: str, mapping: GroupRole) -> None:
    record(
        actor=None,
        verb=verb,
        target=user,
        target_kind="user",
        project_uid=project.uid,
        message=f"{mapping.role} ({mapping.group})",
        data={"role": mapping.role, "group": mapping.group},
    )
    changed(project)


def _require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators may do this."))
