"""What the pages say of a load: facts in words, ready for the templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.templatetags.berth import duration, filesize
from loaders import concurrency
from loaders.choices import Result, State, Task
from loaders.codes import VERIFIED
from loaders.messages import in_words
from loaders.selectors import sees_inside
from loaders.states import MOVING, SETTLED, state_of
from loaders.ui.runs import runs_table
from loaders.ui.verbs import is_counted
from loaders.words import percent_of
from runtime.reasons import Reason
from work.ui.present import Shown

if TYPE_CHECKING:
    from accounts.principal import Principal
    from loaders.models import Load


def way(who: Principal, row: Load) -> SafeString:
    """Return from where to where; the folder as ``who`` may read it."""
    named = row.folder and sees_inside(who, row)
    there = row.volume.name + (f"/{row.folder}" if named else "")
    ends = (there, row.url) if row.is_export else (row.url, there)
    return format_html(
        '<span class="mono load-way">{} <i class="ti ti-arrow-right" aria-hidden="true"></i>'
        '<span class="visually-hidden">{}</span> {}</span>',
        ends[0],
        _("to"),
        ends[1],
    )


def subtitle(who: Principal, row: Load) -> SafeString:
    return format_html("{} · {}", way(who, row), row.owner.label)


def bar(_who: Principal, row: Load) -> SafeString:
    return render_to_string("loaders/_bar.html", {"row": row, "bar": bar_of(row)})


@dataclass(frozen=True)
class Bar:
    """``percent`` None: not known yet, the bar only says that something moves."""

    moves: bool
    percent: int | None
    words: str
    detail: str


def bar_of(row: Load) -> Bar:
    state = state_of(row)
    files = row.files_done + row.files_unchanged
    if state in MOVING:
        return Bar(True, percent_of(row), _count(row, files), _speed(row))
    if state == State.STARTING:
        return Bar(True, None, "", "")
    if state not in SETTLED or not row.launch:
        return Bar(False, None, "", "")
    if row.task == Task.DRY_RUN:
        return Bar(False, None, dry_words(row.dry_run) if row.result == Result.DONE else "", "")
    return Bar(False, None, _count(row, files) if row.files_found or files else "", "")


def _count(row: Load, files: int) -> str:
    names = {
        "done": f"{files:,}",
        "found": f"{row.files_found:,}",
        "size": filesize(row.bytes_done),
        "total": filesize(row.bytes_found),
    }
    if row.listed and row.files_found:
        return _("%(done)s of %(found)s files, %(size)s of %(total)s") % names
    if row.result:
        return _("%(done)s files, %(size)s") % names
    return _("%(done)s files, %(size)s; still listing: %(found)s found") % names


def _speed(row: Load) -> str:
    parts = [_("%(size)s/s") % {"size": filesize(row.rate_bytes_s)}]
    if row.eta_s is not None:
        parts.append(_("about %(time)s left") % {"time": duration(row.eta_s)})
    return ", ".join(parts)


def progress(who: Principal, row: Load) -> dict[str, Any]:
    """Return how far it is, what could not be copied, and its runs."""
    inside = sees_inside(who, row)
    errors = row.errors if inside else []
    return {
        "bar": bar_of(row),
        "position": _position(row),
        "counted": dry_words(row.dry_run) if is_counted(row) else "",
        "verified": [(str(VERIFIED.get(way, way)), n) for way, n in row.verified.items()],
        "errors": [{**one, "message": in_words(one.get("message", ""))} for one in errors],
        "hides_errors": bool(row.errors) and not inside,
        "runs": runs_table(who, row, 5),
    }


class LoadShown(Shown):
    @property
    def says_why(self) -> bool:
        """Whether the head tells why it is as it is: where no note does, also when it is over."""
        return not self.level


def shown_load(who: Principal, row: Load) -> Shown:
    """Tell why in the head, and in a note where there is something to do about it."""
    state = LoadShown.of(who, row)
    level = "warning" if state.state in {State.PARTIAL, State.DONE} else "error"
    return replace(state, level=level if state.advice else "", fault="")


def _position(row: Load) -> int | None:
    """Return its place in the line of the project as it is now, not as it was looked at."""
    if row.external_ref.get("queue") or row.reason != Reason.QUEUED or row.asked_at is None:
        return None
    turn = concurrency.turn_of(row) if state_of(row) == State.WAITING else None
    return None if turn is None or turn.is_now else turn.position


def dry_words(found: dict[str, Any] | None) -> str:
    """Return what a dry run counted, in one sentence."""
    if not found:
        return ""
    files = int(found.get("files", 0))
    said = ngettext(
        "%(n)s object, %(size)s would be copied.", "%(n)s objects, %(size)s would be copied.", files
    ) % {"n": f"{files:,}", "size": filesize(found.get("bytes", 0))}
    if found.get("seconds"):
        said += " " + _("It would take about %(time)s.") % {"time": duration(found["seconds"])}
    if skipped := int(found.get("skipped", 0)):
        said += " " + (
            ngettext("%(n)d object can't be copied.", "%(n)d objects can't be copied.", skipped)
            % {"n": skipped}
        )
    return said
