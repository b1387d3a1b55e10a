"""The sign-in of a container registry."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from credentials.choices import CredentialKind
from credentials.hosts import registry_host
from credentials.kinds.base import SECRET_MAX, Field, Given, Kind, Part, Read, line


def _settings(given: Given) -> dict[str, Any]:
    return {"host": registry_host(line(given, "host"))}


def _secret(given: Given) -> Read:
    username = line(given, "username")
    if ":" in username:
        raise wrong("username", _t("A user name has no “:”."))
    return Read({"username": username}, {"password": line(given, "password", limit=SECRET_MAX)})


KIND = Kind(
    kind=CredentialKind.REGISTRY,
    about=_("Private images are pulled with it. A project has one for each registry."),
    fields=(
        Field(
            "host",
            _("Registry"),
            Part.TARGET,
            help=_("The host, as images of it begin: ghcr.io, registry.example.com:5000."),
            placeholder="ghcr.io",
        ),
        Field("username", _("User name"), Part.SECRET),
        Field(
            "password",
            _("Password or token"),
            Part.SECRET,
            hidden=True,
            limit=SECRET_MAX,
            help=_("Best a token that may only pull. Nobody can read it here again."),
        ),
    ),
    settings=_settings,
    secret=_secret,
    target=lambda public: str(public["host"]),
)
