"""What jobs show on pages: how the smoke run went, what failed, and "Run as job" on a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.hooks import Hook
from jobs import checkpoints, fetching, origin, runs, smoke
from jobs.choices import State
from jobs.kind import JOB
from jobs.models import Job
from jobs.sources import repository
from jobs.states import OVER, state_of
from jobs.tensorboard import is_offered, shown_by
from jobs.ui.artifacts import Offer, offers
from jobs.ui.pages import PAGES
from projects.access import permissions_of
from runtime.reasons import Reason
from work.selectors import reads_private
from work.ui.panels import Panel, Slot
from work.ui.present import took

if TYPE_CHECKING:
    from accounts.principal import Principal

# Whether a job's program is known to write no events, so that no TensorBoard is offered.
has_no_curves: Hook[[Job], bool] = Hook()


def panel(who: Principal, row: Any, slot: Slot) -> Panel | None:
    if row.kind == origin.KIND and slot is Slot.CARD:
        return _shown(who, row) if row.is_tensorboard else _run_as_job(who, row)
    if row.kind == Job.KIND and slot is Slot.NOTICE:
        return _how_it_went(who, row)
    return None


def curves(who: Principal, row: Any, slot: Slot) -> Panel | None:
    """Return the press that opens TensorBoard, of a job that keeps what it writes."""
    if row.kind != Job.KIND or slot is not Slot.CARD or not is_offered(who, row):
        return None
    if any(has_no_curves(row)):
        return None
    latest = runs.runs_of(row).values_list("launch", flat=True).first()
    return Panel("jobs/_tensorboard_card.html", {"numbers": [latest]}) if latest else None


def copies(who: Principal, row: Any, slot: Slot) -> Panel | None:
    """Return which checkpoints of a job are at the store, and what is wrong with that."""
    if row.kind != Job.KIND or slot is not Slot.CARD:
        return None
    told = checkpoints.told_of(row, private=reads_private(who, row))
    return Panel("jobs/_copies.html", told) if told else None


def _shown(who: Principal, row: Any) -> Panel | None:
    """Return the ways back from a TensorBoard to what it shows, for whose it is."""
    if row.owner_id != who.user.pk or JOB.read not in permissions_of(who, row.project):
        return None
    found = [
        (
            job,
            run,
            PAGES.address(
                "goodput" if run else "detail", job, query={"run": run.launch} if run else {}
            ),
        )
        for job, run in shown_by(row)
    ]
    return Panel("jobs/_tensorboard_shows.html", {"shown": found}) if found else None


def _run_as_job(who: Principal, row: Any) -> Panel | None:
    """Return the way from a workspace to a job, for who owns it."""
    may = JOB.create in permissions_of(who, row.project) and not row.project.archived_at
    if row.owner_id != who.user.pk or not may:
        return None
    query = {"workspace": row.short_id}
    address = PAGES.list_address("new", row.project.slug, query=query)
    return Panel("jobs/_run_as_job.html", {"run_as_job_url": address})


def _how_it_went(who: Principal, row: Job) -> Panel | None:
    """Return its smoke run, and what its program said of its failure: that to its owner only."""
    is_owner = row.owner_id == who.user.pk
    told: dict[str, Any] = {}
    if row.smoke and (one := smoke.latest(row)) is not None:
        state = state_of(one)
        told = {"smoke": one, "smoke_state": state, "smoke_took": took(one)}
        told["smoke_passed"] = state in {State.SUCCEEDED, State.CANCELLED}
        told["smoke_failed"] = state == State.FAILED
        told["smoke_lines"] = one.failure if is_owner else ""
        told["lacking"] = origin.lacking(one) if is_owner else ""
        told["smoke_log"] = PAGES.address("logs", one) if is_owner and one.started_at else ""
    # one that is queued again since tells why by its reason
    said = row.failure if state_of(row) == State.FAILED or row.reason == Reason.TRIED_AGAIN else ""
    if is_owner and (failure := fetching.problem_of(row) or said):
        told["failure"], _, told["failure_lines"] = failure.partition("\n")
        told["lacking"] = origin.lacking(row)
    if is_owner and state_of(row) in OVER and row.started_at is not None:
        if row.output:
            told |= {"files_url": PAGES.address("artifacts", row), "offers": _offers(who, row)}
        told |= {"notebook_url": PAGES.address("result", row)} if row.is_notebook else {}
    if is_owner and row.reason == Reason.FETCHING_CODE:
        told["fetches"] = repository(row.code)
    return Panel("jobs/_smoke.html", told) if told else None


def _offers(who: Principal, row: Job) -> list[Offer]:
    """Return what can be done with what its latest run left, if that ended well."""
    run = runs.runs_of(row).select_related("job__project").first()
    if run is None or state_of(row) != State.SUCCEEDED:
        return []
    return [one for one in offers(who, run) if one is not None]
