"""What people write about a load, checked by a list of our own before anything sees it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from common.errors import wrong
from dataplane import addresses
from dataplane.safepath import UnsafePath, is_own, parts_of
from loaders.choices import StoreKind

MAX_NAME = 63
MAX_KEY = 1024  # bytes, of every store
MAX_OBJECTS = 10_000
MAX_OBJECTS_BYTES = 512 * 1024  # of all keys: the plan must fit a cluster's Secret
MAX_PATTERNS = 50
MAX_PATTERN = 200
MIN_BANDWIDTH = 64 * 1024
MAX_BANDWIDTH = 2**40

_SCHEMES = {
    "s3": (StoreKind.S3, StoreKind.S3_COMPATIBLE),
    "gs": (StoreKind.GCS,),
    "hdfs": (StoreKind.HDFS,),
    "mlflow-artifacts": (StoreKind.MLFLOW,),
}
_NO_BUCKETS = frozenset({"hdfs", "mlflow-artifacts"})
_S3_BUCKET = re.compile(r"\A[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
# Compatible stores and old buckets of AWS are less strict; still nothing that ends a path.
_OTHER_BUCKET = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]\Z")
_REGION = re.compile(r"\A[a-z0-9][a-z0-9-]{0,61}\Z")
_ADDRESS = re.compile(r"\Ahttps?://[A-Za-z0-9.\[\]:_-]{1,240}/?\Z")


@dataclass(frozen=True)
class Place:
    """Where the objects lie: what ``s3://bucket/prefix`` says. HDFS and MLflow have no buckets."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def kinds(self) -> tuple[StoreKind, ...]:
        return _SCHEMES[self.scheme]

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}"


def url_of(kind: str, bucket: str, prefix: str) -> str:
    """Return a place as people write it."""
    scheme = next(name for name, kinds in _SCHEMES.items() if kind in kinds)
    return Place(scheme, bucket, prefix).url


def clean_version(text: str) -> str:
    """Return a short word of people's own, perhaps empty."""
    text = text.strip()
    if len(text) > MAX_NAME or not text.isprintable():
        raise wrong("version", _("At most %(n)d visible characters.") % {"n": MAX_NAME})
    return text


def parse_url(text: str) -> Place:
    """Return what ``s3://bucket/prefix``, ``hdfs:///path`` and their like say."""
    text = text.strip()
    scheme, found, rest = text.partition("://")
    if not found or scheme not in _SCHEMES:
        raise wrong("url", how_to_write())
    bucket, _slash, prefix = rest.partition("/")
    if scheme in _NO_BUCKETS:
        return Place(scheme, "", _path_without_bucket(scheme, rest))
    if not _OTHER_BUCKET.match(bucket) or ".." in bucket:
        raise wrong("url", _("“%(name)s” is not the name of a bucket.") % {"name": bucket[:80]})
    return Place(scheme, bucket, clean_key("url", prefix))


def how_to_write() -> str:
    return _(
        "Write it like s3://bucket/folder, gs://bucket/folder, hdfs:///folder or "
        "mlflow-artifacts:///folder."
    )


def _path_without_bucket(scheme: str, text: str) -> str:
    host, slash, path = text.partition("/")
    if host or not slash:
        message = _("Write it like %(scheme)s:///folder: the credential says which server.")
        raise wrong("url", message % {"scheme": scheme})
    inside = path.removesuffix("/")
    if inside and any(part in {"", ".", ".."} for part in inside.split("/")):
        message = _("A path as in %(scheme)s:///data/images: without “..” and empty parts.")
        raise wrong("url", message % {"scheme": scheme})
    return clean_key("url", path)


def check_bucket(kind: str, bucket: str) -> None:
    """Raise where the store of that kind can't have a bucket of this name."""
    if kind == StoreKind.S3 and not _S3_BUCKET.match(bucket):
        raise wrong("url", _("“%(name)s” is not the name of a bucket.") % {"name": bucket[:80]})


def clean_key(field: str, key: str) -> str:
    """Return a key or the beginning of keys; a store allows much, but not what breaks a line."""
    if len(key.encode(errors="surrogatepass")) > MAX_KEY:
        raise wrong(field, _("A key has at most %(n)d bytes.") % {"n": MAX_KEY})
    if any(unicodedata.category(c) in {"Cc", "Cs"} for c in key):
        raise wrong(field, _("There are control characters in it."))
    return key


def clean_objects(keys: Sequence[Any]) -> list[str] | None:
    """Return the keys that are wanted and no others; None: all below the prefix."""
    if not all(isinstance(key, str) for key in keys):
        raise wrong("objects", _("It must be a list of keys."))
    if len(keys) > MAX_OBJECTS:
        raise wrong(
            "objects",
            _("At most %(n)d keys; for more of them name a folder.") % {"n": MAX_OBJECTS},
        )
    found = dict.fromkeys(clean_key("objects", key) for key in keys if key)
    if sum(len(key.encode()) for key in found) > MAX_OBJECTS_BYTES:
        raise wrong("objects", _("The keys are too long in all; name a folder instead."))
    return list(found) or None


def clean_folder(text: str) -> str:
    """Return a folder relative to the volume's own; "" is the volume itself."""
    folder = text.strip().rstrip("/")
    try:
        parts = parts_of(folder)
    except UnsafePath as error:
        message = _("A folder inside the volume, like data/images: without “..” or a leading “/”.")
        raise wrong("folder", message) from error
    if len(folder.encode(errors="surrogatepass")) > MAX_KEY or not folder.isprintable():
        raise wrong("folder", _("The folder's name is too long or has control characters."))
    if parts and is_own(parts[0]):
        raise wrong("folder", _("“.berth” is kept by Berth itself: choose another folder."))
    return folder


def clean_patterns(field: str, patterns: Sequence[Any]) -> list[str]:
    """Return glob patterns for names below the prefix."""
    if not all(isinstance(p, str) for p in patterns):
        raise wrong(field, _("It must be a list of patterns."))
    found = list(dict.fromkeys(p.strip() for p in patterns if p.strip()))
    if len(found) > MAX_PATTERNS:
        raise wrong(field, _("At most %(n)d patterns.") % {"n": MAX_PATTERNS})
    for pattern in found:
        if len(pattern) > MAX_PATTERN or not pattern.isprintable():
            raise wrong(field, _("A pattern has at most %(n)d characters.") % {"n": MAX_PATTERN})
    return found


def clean_bandwidth(value: int | None) -> int | None:
    """Return bytes a second; None or 0: no limit."""
    if not value:
        return None
    if type(value) is not int or not MIN_BANDWIDTH <= value <= MAX_BANDWIDTH:
        raise wrong("bandwidth_bytes_s", _("At least 64 KiB a second, or nothing for no limit."))
    return value


def clean_endpoint(text: str) -> str:
    """Return the address of a public bucket's store: scheme, host and port, nothing else."""
    text = text.strip().rstrip("/")
    if not text:
        return ""
    if not _ADDRESS.match(text):
        raise wrong("endpoint", _("Write it like https://store.example.org or with a port."))
    scheme, _mark, where = text.partition("://")
    try:
        addresses.split_host(where, default_port=443 if scheme == "https" else 80)
    except addresses.NotAHost as error:
        raise wrong("endpoint", _("There is no valid host in it.")) from error
    return text


def clean_region(text: str) -> str:
    text = text.strip()
    if text and not _REGION.match(text):
        raise wrong("region", _("A region has small letters, digits and dashes: eu-central-1."))
    return text


def name_for(place: Place) -> str:
    """Return a name for a load that was given none: what the path ends with."""
    last = [part for part in place.prefix.split("/") if part]
    name = "".join(c for c in (last[-1] if last else place.bucket) if c.isprintable()).strip()
    return name[:MAX_NAME].strip() or place.bucket[:MAX_NAME] or place.scheme


def fingerprint(**parts: Any) -> str:
    """Return what is the same for two loads that would make the same copy."""
    said = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()
