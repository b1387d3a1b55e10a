"""Tokens for Git over https."""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from common.outbound import OutboundError, split_host
from credentials.choices import CredentialKind
from credentials.kinds.base import Field, Given, Kind, Part, Read, line, word

HTTPS = 443
_PATH = re.compile(r"\A[A-Za-z0-9_~][A-Za-z0-9._~-]*(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*\Z")


def host_of(given: Given, name: str, *, port: int, required: bool = True) -> str:
    """Return ``host`` or ``host:port``, "" for none."""
    text = line(given, name, required=required).removeprefix("https://").rstrip("/")
    if not text:
        return ""
    try:
        host, found = split_host(text, default_port=port)
    except OutboundError:
        raise wrong(name, _t("The name of a host alone, as in git.example.com.")) from None
    named = f"[{host}]" if ":" in host else host
    return named if found == port else f"{named}:{found}"


def _settings(given: Given) -> dict[str, Any]:
    host = host_of(given, "host", port=HTTPS)
    path = line(given, "repository", required=False)
    path = path.removeprefix(f"https://{host}/").strip("/").removesuffix(".git")
    if path and not _PATH.match(path):
        raise wrong("repository", _t("Its path on that host, as in team/project."))
    return {"host": host, "repository": path}


def _secret(given: Given) -> Read:
    username = word(given, "username", limit=128, required=False) or "oauth2"
    if ":" in username:
        raise wrong("username", _t("A user name has no “:”."))
    return Read({"username": username}, {"token": word(given, "token", least=4, limit=2048)})


KIND = Kind(
    kind=CredentialKind.GIT,
    about=_("A personal or deploy token. git clones, pulls and pushes with it over https."),
    fields=(
        Field("host", _("Host"), Part.TARGET, placeholder="github.com"),
        Field(
            "username",
            _("User name"),
            Part.SECRET,
            required=False,
            limit=128,
            help=_("Most hosts take any name with a token. Empty: oauth2."),
        ),
        Field("token", _("Token"), Part.SECRET, hidden=True, limit=2048),
        Field(
            "repository",
            _("Repository to test with"),
            Part.SETTING,
            required=False,
            placeholder="team/project",
        ),
    ),
    settings=_settings,
    secret=_secret,
    target=lambda public: str(public["host"]),
)
