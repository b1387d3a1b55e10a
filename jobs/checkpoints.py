"""Copies of a job's checkpoints at an object store, and the newest of them back before a start.

Copied is beside the running program, by a load which belongs to the job (``outputs`` does the
same with what a run leaves), so turns, limits, faults and tries are those of any load. What is at
the store is what the copying program told at its end; a start waits until its folder has the
newest of that, whatever became of the volume, the cluster or the machine.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Invalid, wrong
from jobs import output_copies, outputs
from jobs.models import Copies, Job
from loaders import services as loads
from loaders.choices import Direction, Result
from loaders.models import Load
from loaders.words import message_of
from notifications.services import notify_owner
from runtime.hints import hint_uids
from runtime.protocol import Phase
from runtime.reasons import Reason
from work.attached import attached_to, credentials_of
from work.services.base import locked

if TYPE_CHECKING:
    from datetime import datetime

    from volumes.models import Volume
    from work.attached import Attached

log = structlog.get_logger(__name__)

OUTPUT = "output"  # beside what its runs leave
BATCH = 50
SOON = timedelta(seconds=3)  # the copy before is still on its way
AGAIN = timedelta(minutes=1)  # bringing back is tried, until a person does otherwise
_KEY = re.compile(r"[0-9]{19}-.{1,255}", re.DOTALL)  # of a copy at the store


def check(row: Job, attached: Attached) -> None:
    """Raise what is wrong with ``checkpoints_to``."""
    if not row.checkpoints_to:
        return
    if not row.checkpoints:
        said = _("Name a folder of a volume for its checkpoints: they are copied from there.")
        raise wrong("checkpoints", said)
    if row.checkpoints_to == OUTPUT and not outputs.is_copied(row):
        raise wrong("checkpoints_to", _("Its output goes to no bucket."))
    try:
        outputs.credential_for(
            Principal(user=row.owner),
            row.project,
            _target(row),
            _credential_named(row),
            attached.credentials,
        )
    except Invalid as error:  # said of another field
        raise wrong("checkpoints_to", error.message) from error


def _target(row: Job) -> str:
    base = row.output if row.checkpoints_to == OUTPUT else row.checkpoints_to
    return f"{base.rstrip('/')}/checkpoints-{row.short_id}/"


def _credential_named(row: Job) -> str:
    """Return the credential of its output, where that lies in the same kind of store."""
    schemes = {_target(row).partition("://")[0], row.output.partition("://")[0]}
    return row.output_credential if len(schemes) == 1 or not outputs.is_copied(row) else ""


def _volume(row: Job) -> Volume:
    name = row.checkpoints.partition("/")[0]
    found = (seen.volume for seen in attached_to(row).volumes if seen.volume.name == name)
    if (volume := next(found, None)) is None:
        raise Conflict(_("The volume with its checkpoints is gone."), code="volume-gone")
    return volume


def _folder(row: Job) -> str:
    """Return the folder of its own, in that volume."""
    below = row.checkpoints.partition("/")[2]
    return f"{below}/{row.short_id}" if below else row.short_id


# --- to the store --------------------------------------------------------------------------------


def begins(row: Job) -> None:
    """It runs from now on: copies are due. Inside the transaction that saw it."""
    if not row.checkpoints_to:
        return
    url, due = _target(row), now() + timedelta(seconds=settings.BERTH_CHECKPOINT_SECONDS)
    rows = Copies.objects.select_for_update()
    copies, made = rows.get_or_create(job=row, defaults={"url": url, "due_at": due})
    if made:
        return
    if copies.url != url:  # another place knows nothing of what is at this one
        copies.url, copies.kept, copies.copied_at, copies.note = url, [], None, ""
    copies.due_at = min(copies.due_at or due, due)  # one that starts often is copied, too
    copies.save()


def ends(row: Job) -> None:
    """It runs no more: what it wrote last is copied, too. Inside the transaction that saw it."""
    Copies.objects.filter(job=row.pk).update(due_at=now())


def copies_due() -> int:
    """Begin the copies that are due; return how many. One question where none is."""
    due = Copies.objects.filter(due_at__lte=now()).order_by("due_at")
    return sum(_begin(pk) for pk in list(due.values_list("pk", flat=True)[:BATCH]))


def _begin(pk: int) -> bool:
    try:
        with transaction.atomic():
            copies = _locked(pk)
            if copies.due_at is None or copies.due_at > now():
                return False  # another worker was faster
            with override(copies.job.owner.reads_in):
                return _copy(copies)
    except BerthError as error:
        _is_troubled(pk, error.message)
    except Exception:
        log.exception("job-checkpoints", copies=pk)  # it holds up no other
        _is_troubled(pk, _("Something went wrong in Berth."))
    return False


def _locked(pk: int) -> Copies:
    """Its loads are locked first: who sees one end holds it, and then writes here."""
    known = Copies.objects.get(pk=pk)
    for load in Load.objects.filter(pk__in=filter(None, (known.load_id, known.back_id))):
        locked(load)
    rows = Copies.objects.select_for_update(of=("self",)).select_related("load", "back", "volume")
    return rows.select_related("job__project", "job__owner").get(pk=pk)


def _copy(copies: Copies) -> bool:
    """Start the load of copies that are locked; one that is on its way is followed by another."""
    job, every = copies.job, timedelta(seconds=settings.BERTH_CHECKPOINT_SECONDS)
    copies.due_at = None
    if job.deleted_at is not None or not job.checkpoints_to:
        copies.save()
        return False
    if copies.load is not None and copies.load.is_on_its_way:
        copies.due_at = now() + SOON
        copies.save()
        return False
    _be_at(copies, _volume(job))
    copies.load = _started(copies, copies.load, Direction.OUT)
    copies.due_at = now() + every if job.phase == Phase.RUNNING else None
    copies.save()
    return True


def _tried_again(job: Job) -> datetime | None:
    """Return when a copy that failed is tried again: of one that runs no more, for a day."""
    at = now()
    waits = job.phase == Phase.RUNNING or at - (job.phase_since or at) < output_copies.LONGEST
    return at + timedelta(seconds=settings.BERTH_CHECKPOINT_SECONDS) if waits else None


def _be_at(copies: Copies, volume: Volume) -> None:
    """Forget loads that copy from or to a volume that is not the job's any more."""
    if copies.volume_id == volume.pk:
        return
    for load in filter(None, (copies.load, copies.back)):
        loads.made_drop(load)
    copies.load = copies.back = None
    copies.volume = volume


def _started(copies: Copies, load: Load | None, direction: Direction) -> Load:
    job, who = copies.job, Principal(user=copies.job.owner)
    credential = outputs.credential_for(
        who, job.project, copies.url, _credential_named(job), credentials_of(job)
    )
    folder = _folder(job)
    newest_at = _time(copies.kept[0][0]) if copies.kept and direction == Direction.IN else 0
    if load is not None:
        has = (load.url, load.folder, load.newest)
        if has == (copies.url, folder, job.checkpoints_kept):
            return loads.made_start(
                principal=who, row=load, credential=credential, newest_at=newest_at
            )
        loads.made_drop(load)
    volume: Any = copies.volume
    words = {Direction.OUT: "checkpoints", Direction.IN: "checkpoint-back"}
    return loads.load_create(
        principal=who,
        project=job.project,
        made_for=job.uid,
        newest=(job.checkpoints_kept, newest_at),
        said={
            "name": f"{words[direction]}-{job.short_id}-{job.launch}",
            "direction": direction.value,
            "url": copies.url,
            "credential": str(credential.uid),
            "volume": str(volume.uid),
            "folder": folder,
        },
    )


def _is_troubled(pk: int, message: str) -> None:
    """Say why they can't be copied, to the owner once; it harms no training, and is tried again."""
    with transaction.atomic():
        copies = _locked(pk)
        copies.due_at = _tried_again(copies.job)
        _note(copies, message)
        copies.save()


def _note(copies: Copies, message: str) -> None:
    if message and not copies.note:
        notify_owner(copies.job, "job.checkpoints", reason=message)
    copies.note = message[:500]


def note_ended(load: Load) -> None:
    """Write down how a load of checkpoints ended, in the transaction that saw it."""
    rows = Copies.objects.select_related("job__project", "job__owner")
    said = (load.final or {}).get("files") or []
    told = [row for row in said if _KEY.fullmatch(str(row[0]))]  # its own program says it
    how = "" if load.result == Result.DONE else message_of(load)
    if (copies := rows.filter(load=load).first()) is not None:
        if load.result in {Result.DONE, Result.PARTIAL} and load.final is not None:
            copies.kept, copies.copied_at = told, now()
        if load.result in {Result.DONE, Result.PARTIAL, Result.FAILED}:
            with override(copies.job.owner.reads_in):
                _note(copies, how)
        if load.result == Result.FAILED:
            copies.due_at = copies.due_at or _tried_again(copies.job)
        copies.save(update_fields=["kept", "copied_at", "note", "due_at"])
    elif (copies := rows.filter(back=load).first()) is not None:
        copies.back_note = how[:500]
        if load.result == Result.DONE:
            copies.back_done = copies.back_launch
            copies.restored = told[0][0] if told else copies.restored
        copies.save(update_fields=["back_note", "back_done", "restored"])
        uid = copies.job.uid  # once this is over: whoever holds the job waits for these rows
        transaction.on_commit(lambda: hint_uids(Job.KIND, [uid]), robust=True)


# --- and back ------------------------------------------------------------------------------------


def waits(row: Job) -> tuple[str, str] | None:
    """Return the reason why it waits until its folder has the newest copy.

    Asked before each launch asks for its place; whoever is killed at it is followed by the next.
    What a store said is told on its owner's card only (``told_of``).
    """
    if not row.checkpoints_to or row.smoke_of is not None:
        return None
    copies = Copies.objects.filter(job=row.pk, url=_target(row)).select_related("back").first()
    if copies is None or not copies.kept or copies.back_done == row.launch:
        return None
    if _time(copies.kept[0][0]) < row.checkpoints_since_ns:
        return None  # of a run that ended well
    tried = copies.back_at is not None and copies.back_at > now() - AGAIN
    if copies.back_launch != row.launch or not (tried or _is_on_its_way(copies.back)):
        with override(row.owner.reads_in):
            _bring_back(copies.pk, row)
        copies.refresh_from_db()
        if copies.back_done == row.launch:
            return None
    return (Reason.NOT_RESTORED if copies.back_note else Reason.RESTORING), ""


def _is_on_its_way(load: Load | None) -> bool:
    return load is not None and load.is_on_its_way


def _bring_back(pk: int, row: Job) -> None:
    try:
        with transaction.atomic():
            copies = _locked(pk)
            if _is_on_its_way(copies.back):
                return
            _be_at(copies, _volume(row))
            copies.back_launch, copies.back_at = row.launch, now()
            copies.back = _started(copies, copies.back, Direction.IN)
            copies.save()
    except BerthError as error:
        said, values = error.message[:500], {"back_launch": row.launch, "back_at": now()}
        rows = Copies.objects.filter(pk=pk)
        # The folder from which they were copied: what is there is what it goes on from.
        name, mounted = row.checkpoints.partition("/")[0], attached_to(row).volumes
        here = [seen.volume for seen in mounted if seen.volume.name == name]
        same = rows.filter(volume__in=here, load__folder=_folder(row))
        if not same.update(back_done=row.launch, note=said, **values):
            rows.update(back_note=said, **values)


# --- as people read it ---------------------------------------------------------------------------


def told_of(row: Job, *, private: bool) -> dict[str, Any] | None:
    """Return what is at the store, the newest first; None: nothing is copied, or none ran yet.

    Names that its program chose, and a store's words, are its owner's (``private``), as its files.
    """
    copies = Copies.objects.filter(job=row.pk).first() if row.checkpoints_to else None
    if copies is None:
        return None
    words = (copies.note, copies.back_note)  # what it waits for is said first
    first, then = words[::-1] if row.reason == Reason.NOT_RESTORED else words
    return {
        "url": copies.url,
        "kept": [
            {"name": _name(key) if private else None, "bytes": size} for key, size in copies.kept
        ],
        "copied_at": copies.copied_at,
        "message": (first or then) if private else None,
        "restored": _name(copies.restored) if private else None,
    }


def _name(key: str) -> str:
    return key.partition("-")[2]


def _time(key: str) -> int:
    return int(key.partition("-")[0])
