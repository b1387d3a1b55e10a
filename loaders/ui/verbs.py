"""What can be pressed of a load: it goes on where it was cut off, and tries again what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from loaders import services
from loaders.choices import Result, State, Task
from loaders.states import SETTLED, state_of
from runtime.protocol import Desired
from work.selectors import may_change, may_end
from work.services import workload_stop
from work.ui.pages import Verb

if TYPE_CHECKING:
    from accounts.principal import Principal
    from loaders.models import Load

_CUT = frozenset({Result.PAUSED, Result.FAILED, Result.STOPPED})
_BROKEN_OFF = frozenset({State.PAUSED, State.STOPPED, State.FAILED})


def _may_start(who: Principal, row: Load) -> bool:
    return row.desired != Desired.ABSENT and state_of(row) in SETTLED and may_change(who, row)


def is_counted(row: Load) -> bool:
    """Whether its latest run has only counted, and is over."""
    return row.task == Task.DRY_RUN and bool(row.result)


def _resume(who: Principal, row: Load) -> str:
    if row.goes_on:  # it would by itself, in a moment
        return _t("Resume") if may_change(who, row) else ""
    cut = row.result in _CUT or (state_of(row) in _BROKEN_OFF and row.launch > 0)
    return _t("Resume") if cut and not is_counted(row) and _may_start(who, row) else ""


def _retry(who: Principal, row: Load) -> str:
    number = services.failed_last(row) if _may_start(who, row) and not is_counted(row) else 0
    text = ngettext("Try the failed one again", "Try the %(n)d failed ones again", number)
    return text % {"n": number} if number else ""


def _start(who: Principal, row: Load) -> str:
    if not _may_start(who, row) or _resume(who, row):
        return ""
    return _t("Load again") if row.launch and not is_counted(row) else _t("Start loading")


def _verify(who: Principal, row: Load) -> str:
    copied = row.loaded_at is not None or bool(row.manifest)
    return _t("Verify") if copied and _may_start(who, row) else ""


def _dry_run(who: Principal, row: Load) -> str:
    return _t("Dry run") if _may_start(who, row) and not is_counted(row) else ""


def _pause(who: Principal, row: Load) -> str:
    moves = state_of(row) not in SETTLED and row.desired == Desired.RUNNING
    return _t("Pause") if moves and may_end(who, row) else ""


def _cancel(who: Principal, row: Load) -> str:
    rests = state_of(row) == State.PAUSED and row.desired != Desired.ABSENT
    return _t("Cancel") if _pause(who, row) or (rests and may_end(who, row)) else ""


VERBS = (
    Verb(
        name="resume",
        icon="player-play",
        word=_resume,
        act=services.load_resume,
        done=_("“%(name)s” goes on where it was."),
    ),
    Verb(
        name="retry",
        icon="refresh",
        word=_retry,
        act=services.load_retry_failed,
        done=_("“%(name)s” tries again what failed."),
        listed=False,
    ),
    Verb(
        name="start",
        icon="player-play",
        word=_start,
        act=services.load_start,
        done=_("“%(name)s” is starting."),
    ),
    Verb(
        name="verify",
        icon="list-check",
        word=_verify,
        act=services.load_verify,
        done=_("“%(name)s” is being checked against its manifest."),
        listed=False,
    ),
    Verb(
        name="dry-run",
        icon="list-search",
        word=_dry_run,
        act=services.load_dry_run,
        done=_("“%(name)s” counts what it would copy."),
        listed=False,
    ),
    Verb(
        name="pause",
        icon="player-pause",
        word=_pause,
        act=workload_stop,
        done=_("“%(name)s” pauses. What is copied stays."),
        ends=True,
    ),
    Verb(
        name="cancel",
        icon="player-stop",
        word=_cancel,
        act=services.load_cancel,
        done=_("“%(name)s” ends. What is copied stays."),
        ends=True,
        chosen=True,
    ),
)
