"""Whether a portal session still stands for a person. Reads only.

``django.contrib.auth.get_user`` would renew the session under a rotated key, which must not
happen on a request that does not carry the session's cookie.
"""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from accounts.models import User


def stands_for(session_key: str, user: User) -> bool:
    """Return whether the session lives and would still be signed in as ``user``.

    A changed password ends it, as it does for pages.
    """
    if not session_key or not user.is_active:
        return False
    data = _data(session_key)
    if data.get(SESSION_KEY) != str(user.pk):
        return False
    known = data.get(HASH_SESSION_KEY, "")
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(known, one) for one in hashes)


def _data(session_key: str) -> dict[str, Any]:
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    return dict(store.load())
