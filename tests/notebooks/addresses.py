"""Where pages of workspaces are."""

from typing import Any

BASE = "/projects/vision/workspaces/"


def url(row: Any, tail: str = "") -> str:
    return f"{BASE}{row.short_id}/{tail}"
