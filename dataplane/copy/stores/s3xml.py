"""Reads the XML that S3 answers with. It is bounded before it comes here; no entities."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from xml.etree import ElementTree as ET

from dataplane.copy.head import Broken
from dataplane.copy.problems import Final, Stop

_ERROR_MAX = 65536


class Entry(NamedTuple):
    """One object as a listing has it; ``size`` as it is written there."""

    key: str
    size: str
    etag: str
    mtime: int


class Listing(NamedTuple):
    entries: list[Entry]
    token: str
    encoded: bool


def listing(body: memoryview) -> Listing:
    root = _parsed(body)
    if root is None or _plain(root.tag) != "ListBucketResult":
        raise Stop(Final.UNREACHABLE, "The endpoint does not answer as an S3 store.")
    space = root.tag[: root.tag.rfind("}") + 1]
    names = [f"{space}{name}" for name in ("Key", "Size", "ETag", "LastModified")]
    entries = [_entry(found, *names) for found in root.findall(f"{space}Contents")]
    more = (root.findtext(f"{space}IsTruncated") or "").strip() == "true"
    token = (root.findtext(f"{space}NextContinuationToken") or "") if more else ""
    if more and not token:
        raise Broken("The store's listing goes on without saying where.")
    return Listing(entries, token, root.findtext(f"{space}EncodingType") == "url")


def _entry(found: ET.Element, key: str, size: str, etag: str, changed: str) -> Entry:
    text = found.findtext
    name = text(key)
    if name is None:
        raise Broken("The store's listing can't be read.")
    return Entry(name, text(size, ""), text(etag, ""), stamp(text(changed, "")))


def error(body: memoryview) -> tuple[str, str]:
    """Return the code and the region that an error names; empty where it names none."""
    if not body or len(body) > _ERROR_MAX:
        return "", ""
    root = _parsed(body)
    if root is None:
        return "", ""
    found = {_plain(child.tag): (child.text or "").strip() for child in root}
    return found.get("Code", ""), found.get("Region", "")


def text(body: memoryview, name: str) -> str:
    """Return the text of one child of the root."""
    root = _parsed(body)
    if root is None:
        return ""
    return next((child.text or "" for child in root if _plain(child.tag) == name), "")


def rows(body: memoryview, name: str) -> list[dict[str, str]]:
    """Return every child of the root with this name as a dictionary."""
    root = _parsed(body)
    if root is None:
        return []
    found = [child for child in root if _plain(child.tag) == name]
    return [{_plain(field.tag): field.text or "" for field in child} for child in found]


def _parsed(body: memoryview) -> ET.Element | None:
    raw = bytes(body)
    if b"<!" in raw[:4096]:  # no document types, so no entities
        return None
    try:
        return ET.fromstring(raw)  # noqa: S314 - bounded, without a document type
    except ET.ParseError:
        return None


def _plain(tag: str) -> str:
    return tag[tag.rfind("}") + 1 :]


def stamp(value: str) -> int:
    """Read ``2026-01-02T03:04:05…`` as seconds; 0 where it is no time."""
    try:
        return int(datetime.fromisoformat(f"{value[:19]}+00:00").timestamp())
    except ValueError:
        return 0
