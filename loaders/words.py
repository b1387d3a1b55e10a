"""What is said of a load: sentence, advice, share done. For pages, API and mails alike.

Plain words go first, said anew for each reader; what the engine, a driver or the copying program
wrote stands after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from loaders.choices import Direction, Result, State, StopReason, Task, Uploads
from loaders.codes import meaning_of
from loaders.concurrency import sentence_of
from loaders.states import FILTERS, SETTLED, state_of
from placement.decision import waiting
from runtime import reasons
from runtime.reasons import Reason
from runtime.spec import Resources
from work.kinds import States
from work.why import Why

if TYPE_CHECKING:
    from loaders.models import Load, LoadRun

_BY_INTENT = frozenset({Result.PAUSED, Result.CANCELLED, Result.STOPPED})


def message_of(row: Load) -> str:
    """Return why it is as it is, in one line; "" when there is nothing to say."""
    return why_of(row).sentence


def why_of(row: Load) -> Why:
    if row.launch == 0:
        return Why(_("It has not been started yet."))
    if state_of(row) in SETTLED:
        return _ended(row)
    if row.goes_on:
        return _goes_on(row)
    queue = row.external_ref.get("queue")
    if row.reason == Reason.QUEUED and queue:
        size = Resources(row.cpu_milli, row.memory_mib)
        return Why(str(waiting(queue.get("lacking", ()), queue.get("position", 1), size)))
    if not row.is_seen:
        return Why(_("A moment, please."))
    return _of_reason(row)


def _of_reason(row: Load) -> Why:
    if row.reason == Reason.QUEUED and (turn := row.external_ref.get("turn")):
        return Why(sentence_of(turn))
    if row.reason == Reason.QUEUED and row.message:
        # another line than that for the machine: the words of the reason are of what is in use
        return Why(row.message)
    return _why(str(reasons.info(row.reason).text), row.message)


def _why(text: str, message: str) -> Why:
    """Return both. What is a sentence of ours is said as the reader reads it, and said once."""
    detail = _(message) if message else ""
    return Why(text, detail if detail != text else "") if text else Why(detail)


def _goes_on(row: Load) -> Why:
    """It was cut off and starts again by itself; why the last try could not stands last."""
    said = {"n": row.tries + 1, "most": settings.BERTH_LOAD_RETRIES}
    again = _("It goes on by itself in a moment: try %(n)d of %(most)d.") % said
    return _result(row, again)


def _ended(row: Load) -> Why:
    if row.result in _BY_INTENT or not row.result:
        return _stopped(row)
    if found_nothing(row):
        below = _("Nothing was found below %(url)s: nothing was copied.") % {"url": row.url}
        empty = _("The folder holds no files: nothing was copied.")
        return Why(empty if row.direction == Direction.OUT else below)
    if row.result == Result.DONE and row.task != Task.LOAD:
        return Why(_DONE[Task(row.task)]())
    if row.result == Result.PARTIAL and row.task == Task.VERIFY:
        return Why(_("Some files are not as they were copied."))
    if row.result == Result.FAILED:
        return why_failed(row)
    return Why(str(meaning_of(row.result_code).text))


def _stopped(row: Load) -> Why:
    if row.uploads == Uploads.LEFT:
        return Why(
            _(
                "The store did not give up parts of files that were being sent: "
                "delete the unfinished uploads there."
            )
        )
    if row.stop_reason:
        return Why(str(StopReason(row.stop_reason).label))
    return _of_reason(row)


def why_failed(row: Load) -> Why:
    """Return why its latest run failed, and how often it had gone on by itself."""
    if not row.tries:
        return _result(row)
    tried = ngettext(
        "It went on by itself %(n)d time before.",
        "It went on by itself %(n)d times before.",
        row.tries,
    )
    return _result(row, tried % {"n": row.tries})


def _result(row: Load, more: str = "") -> Why:
    """Return what the code of the result means, then ``more``, and what was said of it last."""
    why = _why(str(meaning_of(row.result_code).text), row.result_message)
    return Why(f"{why.text} {more}".strip(), why.detail)


_DONE = {
    Task.RETRY: lambda: _("What failed before is there now."),
    Task.DRY_RUN: lambda: _("Counted; nothing was copied."),
    Task.VERIFY: lambda: _("Everything is as the manifest says."),
    Task.CLEAR: lambda: _("What was copied was removed here."),
}


def found_nothing(row: Load) -> bool:
    """Whether it ended well because nothing was there: most often a name that was mistyped."""
    return (
        row.result == Result.DONE
        and row.task in {Task.LOAD, Task.DRY_RUN}
        and row.listed
        and not row.files_found
    )


def advice_of(row: Load) -> str:
    """Return what to do about it."""
    if found_nothing(row):
        return _("Check the name; large and small letters differ.")
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
    return _why(text, run.message).sentence if run.result == Result.FAILED else text


STATES = States(
    words=State,
    of=state_of,
    over=SETTLED,
    filters=FILTERS,
    why=why_of,
    advice=advice_of,
    early=True,
)
