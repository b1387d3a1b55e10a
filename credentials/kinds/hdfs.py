"""Who asks an HDFS, by WebHDFS: a name, which a file system without Kerberos believes, or a token.

No ticket of Kerberos is taken: whoever has one gets a token with it, and stores that.
"""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from credentials.choices import CredentialKind
from credentials.kinds.base import Field, Given, Kind, Part, Read, line, word
from credentials.kinds.s3 import endpoint_of

TOKEN_MAX = 8 * 1024
_USER = re.compile(r"\A[A-Za-z_][A-Za-z0-9._-]{0,62}\$?\Z")
_TOKEN = re.compile(r"\A[A-Za-z0-9_-]+={0,2}\Z")


def folder_of(given: Given) -> str:
    """Return the folder that a test looks into, as ``/data``; "" for the whole file system."""
    text = line(given, "folder", required=False).removeprefix("hdfs://").strip("/")
    if any(part in {"", ".", ".."} for part in text.split("/")) and text:
        raise wrong("folder", _t("A folder as in /data/images: without “..”."))
    return f"/{text}" if text else ""


def _settings(given: Given) -> dict[str, Any]:
    return {"endpoint": endpoint_of(given), "folder": folder_of(given)}


def _secret(given: Given) -> Read:
    user = line(given, "username", limit=64, required=False)
    token = word(given, "delegation_token", least=16, limit=TOKEN_MAX, required=False)
    if user and not _USER.match(user):
        raise wrong("username", _t("The name of a user: letters, digits and . _ - only."))
    if token and not _TOKEN.match(token):
        raise wrong(
            "delegation_token", _t("A token has letters, digits, - and _ only. Is it whole?")
        )
    if not user and not token:
        raise wrong("username", _t("A user name, or a delegation token."))
    return Read({"username": user}, {"delegation_token": token})


KIND = Kind(
    kind=CredentialKind.HDFS,
    about=_("Loads read a Hadoop file system by WebHDFS. Work that starts does not get it."),
    fields=(
        Field(
            "endpoint",
            _("Address of the namenode"),
            Part.TARGET,
            placeholder="https://namenode.example.com:9871",
            help=_("Where WebHDFS answers: the active namenode's address for the web."),
        ),
        Field(
            "username",
            _("User name"),
            Part.SECRET,
            required=False,
            limit=64,
            help=_("For a file system without Kerberos, which believes every name."),
        ),
        Field(
            "delegation_token",
            _("Delegation token"),
            Part.SECRET,
            hidden=True,
            required=False,
            limit=TOKEN_MAX,
            help=_("For one with Kerberos: get it as yourself and store it here. It runs out."),
        ),
        Field(
            "folder",
            _("Folder to test with"),
            Part.SETTING,
            required=False,
            placeholder="/data",
            help=_("For people who may not list the root: the test looks into this one."),
        ),
    ),
    settings=_settings,
    secret=_secret,
    target=lambda public: str(public["endpoint"]),
)
