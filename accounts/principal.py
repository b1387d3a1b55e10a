"""Who acts: a person, perhaps through a token that may do less than the person.

A token limited to projects carries no role on the platform: it
reaches its projects as their member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import PlatformRole

if TYPE_CHECKING:
    from django.http import HttpRequest

    from accounts.models import ApiToken, User


@dataclass(frozen=True)
class Principal:
    """The acting user with what limits him. Every service and selector takes one."""

    user: User
    token: ApiToken | None = None
    ip: str = ""

    @property
    def is_operator(self) -> bool:
        return self.user.is_operator and self._allows_platform("platform:operate")

    @property
    def is_auditor(self) -> bool:
        return self.user.is_active and (
            self.is_operator
            or (
                self.user.platform_role in {PlatformRole.AUDITOR, PlatformRole.OPERATOR}
                and self._allows_platform("platform:audit")
            )
        )

    def allows_scope(self, scope: str) -> bool:
        """Whether the token (if any) carries ``scope``; read-only tokens carry ``…:read``."""
        if self.token is None:
            return True
        if self.token.read_only and not scope.endswith((":read", ":audit")):
            return False
        return not self.token.scopes or scope in self.token.scopes

    def _allows_platform(self, scope: str) -> bool:
        return not self.is_in_projects_only and self.allows_scope(scope)

    @property
    def is_in_projects_only(self) -> bool:
        """Whether the token reaches some projects, and nothing of the person beside them."""
        return self.token is not None and bool(self.token.project_uids)

    def allows_project(self, project_uid: object) -> bool:
        if self.token is None or not self.token.project_uids:
            return True
        return str(project_uid) in self.token.project_uids


def principal_of(request: HttpRequest) -> Principal:
    """Return the principal that PrincipalMiddleware or the API's authentication made."""
    return cast("Principal", request.principal)  # type: ignore[attr-defined]


ACCOUNT_READ = "account:read"
ACCOUNT_MANAGE = "account:manage"
# What opens the routes of the own account, by verb: ``limited_tokens`` of their views.
ACCOUNT = {"GET": ACCOUNT_READ, **dict.fromkeys(("POST", "PUT", "PATCH", "DELETE"), ACCOUNT_MANAGE)}

_scopes: dict[str, Promise | str] = {
    ACCOUNT_READ: _("See the own profile, tokens, keys and sessions"),
    ACCOUNT_MANAGE: _("Change the own profile, tokens, keys and sessions"),
    "platform:audit": _("Read across all projects, as an auditor or operator"),
    "platform:operate": _("Act on the whole platform, as an operator"),
}


def register_scope(scope: str, text: Promise | str) -> None:
    _scopes[str(scope)] = text


def known_scopes() -> dict[str, Promise | str]:
    return dict(sorted(_scopes.items()))
