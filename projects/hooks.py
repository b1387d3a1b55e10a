"""What other apps add to the life of a project; called inside the transaction of the act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.choices import Role
    from projects.models import Project

# What a new project has without anybody's asking.
project_created: Hook[[Project, Principal | None], None] = Hook()
# What ends when somebody is no longer a member (removed, left, group lost).
member_left: Hook[[Project, User, Principal | None], None] = Hook()
# What follows from a changed role; it gets the new one.
role_changed: Hook[[Project, User, Role, Principal | None], None] = Hook()
