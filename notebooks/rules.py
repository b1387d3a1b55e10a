"""What happens to shared workspaces when something below them changes: people, projects.

The apps below know nothing of workspaces; they call what is registered here, inside the
transaction of their act. What happens to work of any kind stands in ``work.rules``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accounts import hooks as accounts
from notebooks import references
from notebooks.services.sharing import shares_cut_for, shares_revoke_for
from projects import hooks as projects

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project


def connect() -> None:
    accounts.user_disabled.register(_user_disabled)
    projects.member_left.register(_member_left)
    references.connect()


def _user_disabled(user: User, who: Principal | None) -> None:
    shares_revoke_for(user=user, actor=who)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    """Nobody may open what was his, nor he what was shared with him."""
    shares_revoke_for(user=user, project=project, actor=who)
    shares_cut_for(owner=user, project=project, actor=who)
