"""Roles that follow groups of the identity provider, compared at each sign-in."""

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.principal import Principal
from accounts.services.people import set_platform_role
from common.errors import Conflict, Forbidden, Invalid
from events.services import record
from projects import hooks
from projects.choices import RANK, Role
from projects.models import GroupRole, Membership, Project
from projects.services.life import changed, line
from projects.services.members import end_membership


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
        _tell(user, project, "member.added", mapping)
    elif member.from_group and (member.role, member.from_group) != (role, mapping.group):
        before, member.role, member.from_group = member.role, role, mapping.group
        member.save(update_fields=["role", "from_group"])
        if before != role:
            _tell(user, project, "member.role-changed", mapping)
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


def _tell(user: User, project: Project, verb: str, mapping: GroupRole) -> None:
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
