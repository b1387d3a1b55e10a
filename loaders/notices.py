"""What people are told about their loads, outside the page they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import translation

from common.hooks import Hook
from common.templatetags.berth import filesize
from loaders.choices import Result, Task
from loaders.words import why_failed
from notifications.services import notify_owner

if TYPE_CHECKING:
    from loaders.models import Load

_KINDS = {Result.DONE: "load.done", Result.PARTIAL: "load.partial", Result.FAILED: "load.failed"}


# What is copied for other work is told of by that: called with the load as it ended.
made_for: Hook[[Load], None] = Hook()


def tell_ended(row: Load) -> None:
    """Tell the owner how a run ended that he did not end himself."""
    if row.made_for is not None:
        made_for(row)
        return
    kind = _KINDS.get(Result(row.result))
    if kind is None or row.task == Task.CLEAR:  # nobody waits for that
        return
    with translation.override(row.owner.reads_in):
        params = {
            "files": row.files_done + row.files_unchanged,
            "size": filesize(row.bytes_done),
            "failed": row.files_failed + row.files_skipped,
            "reason": why_failed(row).sentence,
        }
    notify_owner(row, kind, **params)


def tell_not_started(row: Load, sentence: str) -> None:
    notify_owner(row, "load.not-started", reason=sentence)
