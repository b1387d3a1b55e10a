"""The files of a version: brought by a load, looked at until it is known what they are."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Unavailable, wrong
from files.below import MOST, files_below
from files.selectors import place_get
from loaders.choices import Result, Task
from loaders.words import message_of
from projects.access import Permission, permissions_of
from runtime.bus import publish
from runtime.hints import hint_uids
from runtime.protocol import Desired
from serving.choices import Files
from serving.model_files import framework_of, frameworks_in, place_in
from serving.models import Endpoint, Model, ModelVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from files.below import Below
    from loaders.models import Load

log = structlog.get_logger(__name__)

BATCH = 20
FOLDER_MAX = 512
SOON = timedelta(seconds=2)
SELDOM = timedelta(minutes=5)
SLOW_FOR = timedelta(hours=1)  # of its life: so long what ran out of time is asked again
LOOKED_WITHIN_S = 3.0  # a page waits
_PAUSE_S = 0.2


def note_ended(load: Load) -> None:
    """Go on from the end of a load, in the transaction that saw it."""
    row = ModelVersion.objects.filter(load=load).select_related("model__project").first()
    if row is None or load.task != Task.LOAD or row.files != Files.COMING:
        return
    if load.result == Result.DONE:
        ModelVersion.objects.filter(pk=row.pk).update(look_at=now())
        return
    with override(load.owner.reads_in):
        said = message_of(load) or str(Result(load.result).label)
    ModelVersion.objects.filter(pk=row.pk).update(files=Files.FAILED, problem=said[:500])
    tell(row)


def versions_look() -> int:
    """Look at the files of versions that are due; return how many were seen. One question where
    none is.
    """
    due = ModelVersion.objects.filter(look_at__lte=now()).order_by("look_at")
    related = ("model__project", "created_by", "volume")
    return sum(_look(row) for row in due.select_related(*related)[:BATCH])


def version_look(row: ModelVersion, *, anew: Principal | None = None) -> ModelVersion:
    """Look at its files at once, for a person who waits a moment; later the duty does.

    ``anew``: whoever asks it also of files that were there. It is looked at in their name where
    nobody else may look any more and they may say so of versions.
    """
    if anew is not None and row.volume is not None:
        manages = Permission.MODEL_MANAGE in permissions_of(anew, row.model.project)
        if not may_look(row) and manages and may_look(row, anew):
            ModelVersion.objects.filter(pk=row.pk).update(created_by=anew.user)
        look_again(row)
        row.refresh_from_db()
    give_up = time.monotonic() + LOOKED_WITHIN_S
    waits = (Files.COMING,) if anew is None else (Files.COMING, Files.THERE)
    while row.files in waits and row.look_at and time.monotonic() < give_up:
        if not _look(row):
            time.sleep(_PAUSE_S)
        row.refresh_from_db()
    return row


def look_again(row: ModelVersion) -> None:
    """Have files looked at that were there; they stay so while nobody can look."""
    there = ModelVersion.objects.filter(pk=row.pk, files=Files.THERE, look_at=None)
    there.exclude(volume=None).update(look_at=now())


def _look(row: ModelVersion) -> bool:
    """Ask for the names below its folder, in the name of who registered it."""
    who, volume = row.created_by, row.volume
    columns: dict[str, Any]
    # What was there may be there still while nobody can look.
    keeps = Files.THERE if row.files == Files.THERE and volume is not None else Files.FAILED
    if who is None or volume is None:
        said = _("Whoever registered it, or the volume with its files, is gone.")
        return _found(row, {"files": keeps, "problem": said})
    try:
        with override(who.reads_in):
            seen = files_below(
                principal=Principal(user=who),
                project=row.model.project,
                volume_uid=volume.uid,
                folder=row.folder,
            )
            if not seen.is_open and not seen.has_failed:
                return _later(row)
            if seen.ran_out and now() - row.created_at < SLOW_FOR:
                return _later(row)
            keeps = keeps if seen.has_failed or seen.ran_out else Files.FAILED
            columns = _judged(row, seen)
    except Unavailable:
        return _later(row)
    except BerthError as error:
        columns = {"files": keeps, "problem": error.message[:500]}
    except Exception:
        log.exception("model-files", version=row.pk)  # it holds up no other
        return _later(row)
    return _found(row, columns)


def _found(row: ModelVersion, columns: Mapping[str, Any]) -> bool:
    """Write down what was seen, unless somebody asked anew meanwhile."""
    same = ModelVersion.objects.filter(pk=row.pk, look_at=row.look_at)
    if same.update(look_at=None, **columns):
        if row.files != columns["files"] == Files.THERE:  # what it said of them is over
            Endpoint.objects.filter(version=row).update(scaling_problem="")
        tell(row)
    return True


def _later(row: ModelVersion) -> bool:
    """Ask again: the sooner, the shorter it waits already."""
    assert row.look_at is not None  # noqa: S101 - that is why it was found
    waited = now() - row.created_at
    again = now() + min(max(SOON, waited / 10), SELDOM)
    ModelVersion.objects.filter(pk=row.pk, look_at=row.look_at).update(look_at=again)
    return False


def _judged(row: ModelVersion, seen: Below) -> dict[str, Any]:
    """Return the columns that follow from the files; raise what is wrong with them."""
    if seen.has_failed:
        raise Conflict(seen.message or _("The volume can't be looked into."))
    if not seen.complete:
        if len(seen.files) >= MOST:
            text = _("It has more than %(n)d files: name the folder of the model alone.")
            raise Conflict(text % {"n": MOST})
        if seen.ran_out:
            raise Conflict(_("To look through its files took too long: look again later."))
        if not seen.files:
            raise Conflict(
                _("It has more folders than can be looked into: name the model's alone.")
            )
        raise Conflict(
            _(
                "Its names are too many or too long to be looked through: name the folder of the "
                "model alone."
            )
        )
    paths = [path for path, _size in seen.files]
    columns: dict[str, Any] = {}
    if deeper := place_in(paths):
        columns["folder"] = fitting(f"{row.folder}/{deeper}".strip("/"))
        paths = [path.partition("/")[2] for path in paths]
    hint = row.registry.get("framework", "")
    framework = framework_of(paths, row.framework or (hint if hint in frameworks_in(paths) else ""))
    size = min(sum(size for _path, size in seen.files), 2**63 - 1)
    columns |= {"framework": framework, "size_bytes": size, "files": Files.THERE, "problem": ""}
    if row.files == Files.THERE and row.size_bytes not in {None, size}:
        columns["problem"] = _("Its files have changed since it was registered.")
    return columns


def may_look(row: ModelVersion, who: Principal | None = None) -> bool:
    """Whether ``who`` may see its files; None: who registered it, and may have left."""
    if who is None and row.created_by is not None:
        who = Principal(row.created_by)
    if who is None or row.volume is None:
        return False
    try:
        place_get(who, row.volume.uid, row.model.project)
    except BerthError:
        return False
    return True


def fitting(folder: str) -> str:
    if len(folder) > FOLDER_MAX:
        raise wrong("origin", _("The folder's name is too long or has control characters."))
    return folder


def tell(row: ModelVersion) -> None:
    """Pages learn that something changed, and what waits for its files is looked at."""
    waiting = Endpoint.objects.filter(version=row, desired=Desired.RUNNING)
    if found := list(waiting.values_list("uid", flat=True)):
        hint_uids(Endpoint.KIND, found)
    publish([f"project:{row.model.project.uid}"], {"kind": Model.KIND, "uid": str(row.model.uid)})
