"""The registry sign-ins of a project, told by the app that keeps them, and the operator's own.

``credentials`` lies above and provides the answer in ``AppConfig.ready``; the reconciler of a
project's places asks here. Passwords are only opened when the callable is called.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from runtime.protocol import Denied

Logins = Mapping[str, tuple[str, str]]
Feed = Callable[[UUID], tuple[Callable[[], Logins], str]]

_feeds: list[Feed] = []


def provide(feed: Feed) -> None:
    """Name the one who knows; the last one wins."""
    _feeds[:] = [feed]


def of(project_uid: UUID) -> tuple[Callable[[], Logins], str]:
    """Return (registry host → (user, password) when called, version of that answer)."""
    logins, version = _feeds[0](project_uid) if _feeds else (dict, "")
    if not settings.BERTH_IMAGE_SIGN_INS_FILE:
        return logins, version
    everybodys, mark = _of_the_operator(Path(settings.BERTH_IMAGE_SIGN_INS_FILE))
    return lambda: {**everybodys, **logins()}, f"{version}-{mark}"


def _of_the_operator(file: Path) -> tuple[Logins, str]:
    """Read a ``config.json`` as Docker and a Secret for pulling images have it."""
    try:
        raw = file.read_bytes()
        said = json.loads(raw)["auths"]
        return {str(host): _login(entry) for host, entry in said.items()}, _mark(raw)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        message = f"The operator's sign-ins for images can't be read ({type(error).__name__})."
        raise Denied(message) from None


def _login(entry: Mapping[str, Any]) -> tuple[str, str]:
    if "username" in entry:
        return str(entry["username"]), str(entry["password"])
    user, _colon, password = base64.b64decode(str(entry["auth"])).decode().partition(":")
    return user, password


def _mark(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
