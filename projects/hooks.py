"""What other apps add to the life of a project, without projects importing them.

Filled in ``AppConfig.ready``; called inside the transaction of the act. A callback writes
rows only (intent); the world follows by the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.choices import Role
    from projects.models import Project

ProjectCreated = Callable[["Project", "Principal | None"], None]
MemberLeft = Callable[["Project", "User", "Principal | None"], None]
RoleChanged = Callable[["Project", "User", "Role", "Principal | None"], None]

_project_created: list[ProjectCreated] = []
_member_left: list[MemberLeft] = []
_role_changed: list[RoleChanged] = []


def on_project_created(callback: ProjectCreated) -> ProjectCreated:
    """Register what a new project has without anybody's asking."""
    if callback not in _project_created:
        _project_created.append(callback)
    return callback


def on_member_left(callback: MemberLeft) -> MemberLeft:
    """Register what ends when somebody is no longer a member (removed, left, group lost)."""
    if callback not in _member_left:
        _member_left.append(callback)
    return callback


def on_role_changed(callback: RoleChanged) -> RoleChanged:
    """Register what follows from a changed role; it gets the new one."""
    if callback not in _role_changed:
        _role_changed.append(callback)
    return callback


def project_created(project: Project, who: Principal | None) -> None:
    for callback in _project_created:
        callback(project, who)


def member_left(project: Project, user: User, who: Principal | None) -> None:
    for callback in _member_left:
        callback(project, user, who)


def role_changed(project: Project, user: User, role: Role, who: Principal | None) -> None:
    for callback in _role_changed:
        callback(project, user, role, who)
