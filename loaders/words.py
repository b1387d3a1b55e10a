"""What is said of a load: sentence, advice, share done. For pages, API and mails alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.wording import waiting_sentence
from loaders.choices import Result, State, StopReason, Task, Uploads
from loaders.codes import meaning_of
from loaders.said import in_words
from loaders.states import SETTLED, state_of
from runtime import reasons
from runtime.protocol import Resources
from runtime.reasons import Reason

if TYPE_CHECKING:
    from loaders.models import Load, LoadRun

_BY_INTENT = frozenset({Result.PAUSED, Result.CANCELLED, Result.STOPPED})


def message_of(row: Load) -> str:
    """Return why it is as it is, in one sentence; "" when there is nothing to say."""
    if row.launch == 0:
        return _("It has not been started yet.")
    if state_of(row) in SETTLED:
        return _ended(row)
    if row.goes_on:
        return _goes_on(row)
    queue = row.external_ref.get("queue")
    if row.reason == Reason.QUEUED and queue:
        size = Resources(row.cpu_milli, row.memory_mib)
        return waiting_sentence(queue.get("lacking", ()), queue.get("position", 1), size)
    if not row.is_seen:
        return _("A moment, please.")
    return row.message or str(reasons.info(row.reason).text)


def _goes_on(row: Load) -> str:
    """It was cut off and starts again by itself; why the last try could not stands first."""
    why = in_words(row.result_message) or str(meaning_of(row.result_code).text)
    said = {"n": row.tries + 1, "most": settings.BERTH_LOAD_RETRIES}
    return why + " " + _("It goes on by itself in a moment: try %(n)d of %(most)d.") % said


def _ended(row: Load) -> str:
    if row.result in _BY_INTENT or not row.result:
        if row.uploads == Uploads.LEFT:
            return _(
                "The store did not give up parts of files that were being sent: "
                "delete the unfinished uploads there."
            )
        if row.stop_reason:
            return str(StopReason(row.stop_reason).label)
        return row.message or str(reasons.info(row.reason).text)
    if row.result == Result.DONE and row.task != Task.LOAD:
        return _DONE[Task(row.task)]()
    if row.result == Result.PARTIAL and row.task == Task.VERIFY:
        return _("Some files are not as they were copied.")
    return _failed(row) if row.result == Result.FAILED else str(meaning_of(row.result_code).text)


def _failed(row: Load) -> str:
    parts = [str(meaning_of(row.result_code).text), in_words(row.result_message)]
    if row.tries:
        tried = ngettext(
            "It went on by itself %(n)d time before.",
            "It went on by itself %(n)d times before.",
            row.tries,
        )
        parts.append(tried % {"n": row.tries})
    return " ".join(part for part in parts if part)


_DONE = {
    Task.RETRY: lambda: _("What failed before is there now."),
    Task.DRY_RUN: lambda: _("Counted; nothing was copied."),
    Task.VERIFY: lambda: _("Everything is as the manifest says."),
}


def advice_of(row: Load) -> str:
    """Return what to do about it."""
    if row.result == Result.PARTIAL and row.task == Task.VERIFY:
        return _("Load again: what differs from the source is copied anew.")
    if row.result in {Result.PARTIAL, Result.FAILED}:
        return str(meaning_of(row.result_code).advice)
    if state_of(row) == State.FAILED:
        return str(reasons.info(row.reason).advice)
    return ""


def percent_of(row: Load) -> int | None:
    """Return how much is done; None while the source is still being listed."""
    if row.result == Result.DONE:
        return 100
    if not row.listed:
        return None
    if row.bytes_found:
        return min(100, int(100 * row.bytes_done / row.bytes_found))
    seen = row.files_done + row.files_unchanged + row.files_skipped + row.files_failed
    return min(100, int(100 * seen / row.files_found)) if row.files_found else None


def run_message(run: LoadRun) -> str:
    if not run.result or run.result in _BY_INTENT:
        return ""
    if run.result == Result.DONE and run.task != Task.LOAD:
        return _DONE[Task(run.task)]()
    text = str(meaning_of(run.code).text)
    return f"{text} {in_words(run.message)}".strip() if run.result == Result.FAILED else text
