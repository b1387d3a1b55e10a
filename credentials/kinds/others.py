"""The sign-in of a container registry, and other secrets as variables or files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common import manifests
from common.errors import wrong
from common.oci import BadReference, host_of
from credentials.choices import CredentialKind, GivenAs
from credentials.kinds.base import SECRET_MAX, Field, Given, Kind, Part, Read, Shape, line


def registry_host(text: str, *, field: str = "host") -> str:
    """Return ``host`` or ``host:port`` as image references spell it, or raise Invalid."""
    bare = text.strip().removeprefix("https://").rstrip("/").removesuffix("/v1")
    try:
        return host_of(bare)
    except BadReference:
        sentence = _t("The host of a registry, as in registry.example.com or ghcr.io.")
        raise wrong(field, sentence) from None


def _secret(given: Given) -> Read:
    username = line(given, "username")
    if ":" in username:
        raise wrong("username", _t("A user name has no “:”."))
    return Read({"username": username}, {"password": line(given, "password", limit=SECRET_MAX)})


REGISTRY = Kind(
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
    settings=lambda given: {"host": registry_host(line(given, "host"))},
    secret=_secret,
    target=lambda public: str(public["host"]),
)


MOST = 50
VALUE_MAX = 16 * 1024
ALL_MAX = 64 * 1024
_FILE = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")


def _generic_secret(given: Given) -> Read:
    given_as = given.get("given_as") or GivenAs.ENV.value
    if given_as not in GivenAs.values:
        raise wrong("given_as", _t("Either “env” or “file”."))
    values = given.get("values")
    if not isinstance(values, Mapping) or not 0 < len(values) <= MOST:
        raise wrong("values", _t("From 1 to %d names with their values.") % MOST)
    kept = {_name(name, given_as): _value(name, value) for name, value in values.items()}
    if sum(len(value.encode()) for value in kept.values()) > ALL_MAX:
        raise wrong("values", _t("All values together are longer than 64 KiB."))
    if len({variable_of(name) for name in kept}) != len(kept):
        raise wrong("values", _t("Two of these files would have one variable for their path."))
    return Read({"given_as": given_as, "names": sorted(kept)}, kept)


def variable_of(name: str) -> str:
    """Return the variable that holds the path of a file: kaggle.json → KAGGLE_JSON_FILE."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper()) + "_FILE"


def _name(name: Any, given_as: str) -> str:
    shown = "".join(c for c in str(name)[:40] if c.isprintable())
    if given_as == GivenAs.FILE:
        variable = variable_of(str(name))
        if not isinstance(name, str) or not _FILE.match(name):
            raise wrong("values", _t("“%(name)s” is no name of a file.") % {"name": shown})
        if not manifests.is_env_name(variable) or manifests.is_env_refused(variable):
            raise wrong("values", _t("A file can't be called “%(name)s”.") % {"name": shown})
        return name
    if not manifests.is_env_name(name):
        sentence = _t("“%(name)s” is no name of a variable: letters, digits and _.")
        raise wrong("values", sentence % {"name": shown})
    if manifests.is_env_refused(name):
        sentence = _t("“%(name)s” cannot be set: Berth sets it itself.")
        raise wrong("values", sentence % {"name": shown})
    return str(name)


def _value(name: Any, value: Any) -> str:
    shown = {"name": str(name)[:40]}
    if not isinstance(value, str) or not value:
        raise wrong("values", _t("The value of “%(name)s” must be text.") % shown)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = -1
    if size < 0 or "\0" in value:
        raise wrong("values", _t("The value of “%(name)s” holds what is not text.") % shown)
    if size > VALUE_MAX:
        raise wrong("values", _t("The value of “%(name)s” is longer than 16 KiB.") % shown)
    return value


GENERIC = Kind(
    kind=CredentialKind.GENERIC,
    about=_("Anything else: a licence, a token of another service."),
    fields=(
        Field(
            "given_as",
            _("Given to work as"),
            Part.SECRET,
            shape=Shape.CHOICE,
            required=False,
            initial=GivenAs.ENV.value,
            choices=tuple((str(value), label) for value, label in GivenAs.choices),
        ),
        Field("values", _("Values"), Part.SECRET, shape=Shape.PAIRS, hidden=True, limit=ALL_MAX),
    ),
    settings=lambda _given: {},
    secret=_generic_secret,
    target=lambda public: ", ".join(public.get("names", ()))[:255],
)
