"""Settings of single sign-on that mean nothing stop the start."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error


def refusals_are_known(**_kwargs: Any) -> list[CheckMessage]:
    """A word that is mistyped must not mean that nobody is kept out."""
    found: list[CheckMessage] = []
    refused, every = settings.BERTH_OIDC_REFUSED, settings.BERTH_OIDC_ASK_SECONDS
    if refused not in {"session", "person"}:
        found.append(_error(1, f"BERTH_OIDC_REFUSED must be session or person, not {refused!r}."))
    if every < 1:
        found.append(_error(2, f"BERTH_OIDC_ASK_SECONDS must be 1 or more, not {every}."))
    return found


def _error(number: int, message: str) -> Error:
    hint = "docs/settings.md says what they mean."
    return Error(message, hint=hint, id=f"accounts.E00{number}")
