"""Kinds that open stores: key pairs of S3 and who asks an HDFS; the one way out to them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import wrong
from common.outbound import OutboundError, policy_from_settings, split_host
from credentials.choices import CredentialKind
from credentials.kinds.base import Field, Given, Kind, Part, Read, Shape, flag, line, word
from dataplane.addresses import Policy

PLAIN = 80


def policy_of_stores() -> Policy:
    """Return what the operator allows, with the stores that he lets speak plain http."""
    policy = policy_from_settings()
    named = {split_host(text, default_port=PLAIN) for text in settings.BERTH_INSECURE_STORES}
    google = {
        _named(url) for url in (settings.BERTH_GCS_ENDPOINT, settings.BERTH_GCS_TOKEN_URI) if url
    }
    return replace(policy, hosts=policy.hosts | named | google)


def _named(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return split_host(parts.netloc, default_port=443 if parts.scheme == "https" else PLAIN)


TOKEN_MAX = 8 * 1024
DEFAULT_REGION = "us-east-1"
_AWS_REGION = re.compile(r"\A[a-z]{2,3}(-[a-z]{2,12}){1,2}-[0-9]{1,2}\Z")
_REGION = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_AWS_KEY = re.compile(r"\A(AKIA|ASIA)[A-Z0-9]{12,124}\Z")
_AWS_SECRET = re.compile(r"\A[A-Za-z0-9/+=]{40}\Z")
_KEY = re.compile(r"\A[A-Za-z0-9_.:/+=@-]{3,128}\Z")
# What some reader of settings takes for a quote, an escape or a place to fill in.
_QUOTING = re.compile(r"""["'`\\]|%\(|\$\{|\A[#;]""")
_BUCKET = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{1,254}\Z")
_PORTS = {"http": 80, "https": 443}


def bucket_of(given: Given) -> str:
    """Return the bucket that a test looks into, "" for none."""
    text = line(given, "bucket", required=False).removeprefix("s3://").removeprefix("gs://")
    text = text.rstrip("/")
    if text and not _BUCKET.match(text):
        raise wrong("bucket", _t("The name of a bucket alone, as in training-data."))
    return text


def endpoint_of(given: Given) -> str:
    """Return ``https://host[:port]``; plain http only where the operator named the host."""
    text = line(given, "endpoint").rstrip("/")
    text = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(text)
        odd = parts.path or parts.query or parts.fragment or "@" in parts.netloc or "\\" in text
        if parts.scheme not in _PORTS or odd or not text.isascii():
            raise _no_endpoint()
        host, port = split_host(parts.netloc, default_port=_PORTS[parts.scheme])
    except (OutboundError, ValueError):
        raise _no_endpoint() from None
    policy = policy_of_stores()
    if parts.scheme == "http" and (host, port) not in policy.hosts:
        sentence = _t("Only https:// here. An operator may name stores that speak plain http.")
        raise wrong("endpoint", sentence)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        if not policy.permits(host, address, port):
            sentence = _t("This is not a public address. An operator may allow private ranges.")
            raise wrong("endpoint", sentence)
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + ("" if port == _PORTS[parts.scheme] else f":{port}")


def _no_endpoint() -> Exception:
    sentence = _t("An address like https://s3.example.com: no path, no user name, no “?”.")
    return wrong("endpoint", sentence)


def aws_host(region: str) -> str:
    """Return the host of Amazon's own S3 in a region."""
    return f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _aws_settings(given: Given) -> dict[str, Any]:
    region = line(given, "region").lower()
    if not _AWS_REGION.match(region):
        raise wrong("region", _t("The name of a region, as in eu-central-1."))
    return {"region": region, "bucket": bucket_of(given)}


def _aws_secret(given: Given) -> Read:
    read = _pair(given)
    if not _AWS_KEY.match(read.public["access_key"]):
        raise wrong("access_key", _t("An access key id begins with AKIA or ASIA. Is it whole?"))
    if not _AWS_SECRET.match(read.secret["secret_key"]):
        raise wrong("secret_key", _t("A secret access key has 40 characters. Is it whole?"))
    if read.public["access_key"].startswith("ASIA") and not read.secret["session_token"]:
        raise wrong("session_token", _t("A key that begins with ASIA needs its session token."))
    return read


def _settings(given: Given) -> dict[str, Any]:
    region = line(given, "region", required=False) or DEFAULT_REGION
    if not _REGION.match(region):
        raise wrong("region", _t("The name of a region, as in us-east-1 or auto."))
    return {
        "endpoint": endpoint_of(given),
        "region": region,
        "path_style": flag(given, "path_style", default=True),
        "bucket": bucket_of(given),
    }


def _pair(given: Given) -> Read:
    access_key = word(given, "access_key", least=3, limit=128)
    if not _KEY.match(access_key):
        raise wrong("access_key", _t("Letters, digits and - _ . : / + = @ only. Is it whole?"))
    secret = {
        "secret_key": word(given, "secret_key", least=3, limit=1024),
        "session_token": word(given, "session_token", least=16, limit=TOKEN_MAX, required=False),
    }
    for name, value in secret.items():
        if _QUOTING.search(value):
            raise wrong(name, _t("No store makes keys with quotes or backslashes. Is it whole?"))
    return Read({"access_key": access_key}, secret)


_ACCESS = Field("access_key", _("Access key id"), Part.SECRET, limit=128)
_SECRET = Field("secret_key", _("Secret access key"), Part.SECRET, hidden=True, limit=1024)
_TOKEN = Field(
    "session_token",
    _("Session token"),
    Part.SECRET,
    hidden=True,
    required=False,
    limit=TOKEN_MAX,
    help=_("Only for temporary keys."),
)
BUCKET = Field(
    "bucket",
    _("Bucket to test with"),
    Part.SETTING,
    required=False,
    help=_("For keys that may not list buckets: the test looks into this one."),
)

AMAZON = Kind(
    kind=CredentialKind.S3,
    about=_("A key pair of an IAM user. aws, boto3, rclone and s5cmd use it as it is."),
    fields=(
        _ACCESS,
        _SECRET,
        _TOKEN,
        Field("region", _("Region"), Part.SETTING, placeholder="eu-central-1", limit=63),
        BUCKET,
    ),
    settings=_aws_settings,
    secret=_aws_secret,
    target=lambda public: aws_host(str(public["region"])),
)

COMPATIBLE = Kind(
    kind=CredentialKind.S3_COMPATIBLE,
    about=_("A key pair of a store that speaks S3: MinIO, Ceph, R2, Wasabi and others."),
    fields=(
        Field(
            "endpoint",
            _("Endpoint"),
            Part.TARGET,
            placeholder="https://s3.example.com",
            help=_("The address of the store, without a bucket."),
        ),
        _ACCESS,
        _SECRET,
        _TOKEN,
        Field(
            "region",
            _("Region"),
            Part.SETTING,
            required=False,
            placeholder=DEFAULT_REGION,
            limit=63,
            help=_("Empty: us-east-1, which most stores expect."),
        ),
        Field(
            "path_style",
            _("The bucket stands in the path, not in the name of the host"),
            Part.SETTING,
            shape=Shape.FLAG,
            required=False,
            initial=True,
        ),
        BUCKET,
    ),
    settings=_settings,
    secret=_pair,
    target=lambda public: str(public["endpoint"]),
)


# Who asks an HDFS, by WebHDFS: a name, which a file system without Kerberos believes, or a token.
#
# No ticket of Kerberos is taken: whoever has one gets a token with it, and stores that.


TOKEN_MAX = 8 * 1024
_USER = re.compile(r"\A[A-Za-z_][A-Za-z0-9._-]{0,62}\$?\Z")
_HDFS_TOKEN = re.compile(r"\A[A-Za-z0-9_-]+={0,2}\Z")


def folder_of(given: Given) -> str:
    """Return the folder that a test looks into, as ``/data``; "" for the whole file system."""
    text = line(given, "folder", required=False).removeprefix("hdfs://").strip("/")
    if any(part in {"", ".", ".."} for part in text.split("/")) and text:
        raise wrong("folder", _t("A folder as in /data/images: without “..”."))
    return f"/{text}" if text else ""


def _hdfs_secret(given: Given) -> Read:
    user = line(given, "username", limit=64, required=False)
    token = word(given, "delegation_token", least=16, limit=TOKEN_MAX, required=False)
    if user and not _USER.match(user):
        raise wrong("username", _t("The name of a user: letters, digits and . _ - only."))
    if token and not _HDFS_TOKEN.match(token):
        raise wrong(
            "delegation_token", _t("A token has letters, digits, - and _ only. Is it whole?")
        )
    if not user and not token:
        raise wrong("username", _t("A user name, or a delegation token."))
    return Read({"username": user}, {"delegation_token": token})


HDFS = Kind(
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
    settings=lambda given: {"endpoint": endpoint_of(given), "folder": folder_of(given)},
    secret=_hdfs_secret,
    target=lambda public: str(public["endpoint"]),
)


# Who asks an MLflow tracking server: its own sign-in, or what stands before it; or nobody.


def _mlflow_secret(given: Given) -> Read:
    user = word(given, "username", limit=64, required=False)
    password = word(given, "password", least=3, limit=TOKEN_MAX, required=False)
    if ":" in user:
        raise wrong("username", _t("A user name has no colon."))
    if user and not password:
        raise wrong("password", _t("Its password is missing."))
    return Read({"username": user}, {"password": password})


MLFLOW = Kind(
    kind=CredentialKind.MLFLOW,
    about=_(
        "Models are registered from an MLflow registry, and loads read its artifacts. Work that "
        "starts does not get it."
    ),
    fields=(
        Field(
            "endpoint",
            _("Address of the tracking server"),
            Part.TARGET,
            placeholder="https://mlflow.example.com",
        ),
        Field(
            "username",
            _("User name"),
            Part.SECRET,
            required=False,
            limit=64,
            help=_("Empty where a token alone is asked for, or nothing at all."),
        ),
        Field(
            "password",
            _("Password or token"),
            Part.SECRET,
            hidden=True,
            required=False,
            limit=TOKEN_MAX,
            help=_("Without a user name it is sent as a bearer token."),
        ),
    ),
    settings=lambda given: {"endpoint": endpoint_of(given)},
    secret=_mlflow_secret,
    target=lambda public: str(public["endpoint"]),
)
