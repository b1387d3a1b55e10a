"""What happens to workspaces when something below them changes: people, projects.

The apps below know nothing of workspaces; they call what is registered here, inside the
transaction of their act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accounts import hooks
from notebooks.choices import StopReason
from notebooks.services.lifecycle import workspaces_stop_for
from notebooks.services.sharing import shares_revoke_for

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal


def connect() -> None:
    hooks.on_user_disabled(_user_disabled)


def _user_disabled(user: User, who: Principal | None) -> None:
    """Stop (and keep) what a disabled person runs, and take away what was shared with him."""
    workspaces_stop_for(reason=StopReason.OWNER_DISABLED, owner=user, actor=who)
    shares_revoke_for(user=user, actor=who)
