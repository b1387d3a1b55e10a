"""Folders of volumes that other apps need as they are: what takes them away is refused."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from common.hooks import Hook

# Whether it has any; the check raises Conflict where one of these paths holds, is, or is in one.
has_any: Hook[[UUID], bool] = Hook()
check: Hook[[UUID, Sequence[str]], None] = Hook()
