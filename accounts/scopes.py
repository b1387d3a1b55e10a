"""Words that limit an API token. Apps add theirs in ``AppConfig.ready``."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

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


def register(scope: str, text: Promise | str) -> None:
    _scopes[str(scope)] = text


def known() -> dict[str, Promise | str]:
    return dict(sorted(_scopes.items()))
