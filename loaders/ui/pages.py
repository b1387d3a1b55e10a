"""What the pages of loads say and show of their own: words, states, verbs, how far one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.ui.components import Tab
from loaders.choices import State, Task
from loaders.kind import LOAD
from loaders.selectors import matching, runs_of
from loaders.states import state_of
from loaders.templatetags.loads import SHAPES
from loaders.ui.form import load_form, named
from loaders.ui.present import bar, progress, shown_load, subtitle, way
from loaders.ui.verbs import VERBS
from loaders.words import STATES
from work.ui.pages import Column, Pages, Words

if TYPE_CHECKING:
    from django.utils.functional import Promise

    from loaders.models import Load


def _badge_word(row: Load) -> str | Promise:
    state = state_of(row)
    if state == State.STOPPED and row.launch == 0:
        return _t("Not started")
    if state == State.DONE and row.task == Task.DRY_RUN:
        return _t("Counted")
    if state == State.DONE and row.task == Task.VERIFY:
        return _t("Verified")
    return state.label


def _runs(row: Load) -> list[tuple[int, str]]:
    """Return its runs, the latest first, each with what it did and how it ended."""
    return [
        (run.launch, f"{run.launch} · {run.get_task_display()} · {ended} · {run.asked_at:%F %R}")
        for run in runs_of(row, 100)
        for ended in (run.get_result_display() if run.result else _t("not over"),)
    ]


PAGES = Pages(
    kind=LOAD,
    routes="loaders",
    path="loads",
    listed=False,
    words=Words(
        mine=LOAD.many,
        new=_("Load data"),
        none=_("No load yet"),
        about=_(
            "A load copies a bucket, or a part of it, into a volume: from S3, an S3-compatible "
            "store or Google Cloud Storage."
        ),
        again=_("Load again"),
        stop=_("Cancel"),
        stop_chosen=_("Cancel the chosen"),
        stopped=_("“%(name)s” ends. What is copied stays."),
        stop_lost=_("What is copied stays."),
        delete_lost=_(
            "The load, its schedule and its history go. What it copied stays: in the volume and "
            "in the store."
        ),
        stop_many=lambda n: ngettext("Cancel %(n)d load", "Cancel %(n)d loads", n) % {"n": n},
        stopping_many=lambda n: ngettext("%(n)d load ends.", "%(n)d loads end.", n) % {"n": n},
        delete_many=lambda n: ngettext("Delete %(n)d load", "Delete %(n)d loads", n) % {"n": n},
        deleting_many=lambda n: (
            ngettext("%(n)d load is being deleted.", "%(n)d loads are being deleted.", n) % {"n": n}
        ),
        events=_("What happened to all loads of the project"),
        document=_("Load as YAML"),
    ),
    states=STATES,
    shapes=SHAPES,
    badge_word=_badge_word,
    filters={"running": _("Running"), "scheduled": _("With a schedule")},
    matching=matching,
    matching_hint=_("Name or bucket"),
    goes_on=("running", "waiting"),
    ahead=((), ()),
    verbs=VERBS,
    form=load_form,
    starts=(
        ("load", _("Load"), "database-import"),
        ("dry-run", _("Dry run first"), "list-search"),
    ),
    named=named,
    verb="create",
    group="loads",
    repeats=True,
    unread=("objects_listed",),
    logs_of=_runs,
    subtitle=subtitle,
    shown=shown_load,
    state_part="loaders/_progress.html",
    own_part="loaders/_runs.html",
    own_part_of=progress,
    facts_part="loaders/_facts.html",
    tabs=lambda _who, _row: (Tab("history", "history", _t("History")),),
    columns=(
        *("name", "state"),
        Column("way", _("From and to"), way),
        Column("progress", _("Progress"), bar),
        *("owner", "started", "acts"),
    ),
)
