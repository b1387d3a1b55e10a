"""Usernames that are free and fit our rule, from whatever a provider says."""

import re
import secrets
import unicodedata

from accounts.models import User

_JUNK = re.compile(r"[^a-zA-Z0-9._@+-]+")
_NUMBERED = 100


def free_username(wanted: str) -> str:
    """Return ``wanted`` made valid, with a number behind it when somebody has it already."""
    plain = unicodedata.normalize("NFKD", wanted or "").encode("ascii", "ignore").decode()
    base = _JUNK.sub("-", plain).lstrip("._@+-").rstrip("-")[:56] or "user"
    taken = {
        name.lower()
        for name in User.objects.filter(username__istartswith=base).values_list(
            "username", flat=True
        )[:5000]
    }
    for number in range(1, _NUMBERED):
        name = base if number == 1 else f"{base}{number}"
        if name.lower() not in taken:
            return name
    return f"{base}-{secrets.token_hex(3)}"
