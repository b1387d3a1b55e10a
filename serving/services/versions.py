"""Adding versions to a model, how far their files are, their stages, and their end."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Invalid, Unavailable, wrong
from events import services as events
from files.below import files_below
from files.selectors import place_get
from loaders import services as loads
from loaders.choices import Result, Task
from loaders.models import Load
from loaders.words import message_of
from projects.access import Permission, require
from projects.others import reason_for
from projects.services.life import require_active
from runtime.bus import publish
from runtime.hints import hint_uids
from runtime.protocol import Desired
from serving.choices import Files, Framework, Source, Stage
from serving.model_files import framework_of, frameworks_in, place_in
from serving.models import Endpoint, Model, ModelVersion
from serving.services.model_rules import (
    clean_metrics,
    clean_name,
    clean_signature,
    require_unserved,
)
from serving.services.sources import (
    UPLOAD,
    Origin,
    Wanted,
    load_said,
    models_volume,
    origin_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from files.below import Below
    from projects.models import Project

log = structlog.get_logger(__name__)

BATCH = 20
FOLDER_MAX = 512
SOON = timedelta(seconds=2)
SELDOM = timedelta(minutes=5)
LOOKED_WITHIN_S = 3.0  # a page waits
_PAUSE_S = 0.2
_NUMBERED = re.compile(r"v([0-9]{1,6})")


def version_wanted(
    *, principal: Principal, project: Project, said: Mapping[str, Any]
) -> Origin | None:
    """Return where its files are, looked up, perhaps at a server; None: it has none.

    Before any transaction: who waits for a server holds no rows.
    """
    require(principal, project, Permission.MODEL_MANAGE)
    require_active(project)
    framework = str(said.get("framework", ""))
    if framework and framework not in Framework.values:
        names = ", ".join(Framework.values)
        raise wrong("framework", _("Choose one of: %(names)s.") % {"names": names})
    wanted = _wanted(said)
    nothing = framework == Framework.CUSTOM and not wanted.origin
    return None if nothing else origin_of(principal, project, wanted)


def version_create(
    *,
    principal: Principal,
    model: Model,
    said: Mapping[str, Any],
    found: Origin | None = None,
) -> ModelVersion:
    """Register the files of a model as they are now; bring them where they lie in a bucket.

    ``said``: name, origin, framework, metrics, signature, credential, cluster. What is not said is
    found: the next name, the framework by the files' names, metrics of the run that made them.
    ``found``: what ``version_wanted`` said of the same.
    """
    found = found or version_wanted(principal=principal, project=model.project, said=said)
    framework, wanted = str(said.get("framework", "")), _wanted(said)
    metrics = {**(found.metrics if found else {}), **clean_metrics(said.get("metrics") or {})}
    row = ModelVersion(
        model=model,
        name=str(said.get("name", "")),
        framework=framework,
        source=found.source if found else Source.UPLOAD,
        origin=((found.text if found else "") or wanted.origin)[:1024],
        metrics=metrics,
        signature=clean_signature(said.get("signature") or (found.signature if found else {})),
        registry=found.registry if found else {},
        created_by=principal.user,
    )
    if row.name:
        row.name = clean_name(row.name)
    try:
        with transaction.atomic():
            return _create(principal, row, found, wanted)
    except IntegrityError as error:
        text = _("“%(model)s” has a version %(name)s already.")
        message = text % {"model": model.name, "name": row.name}
        raise Conflict(message, code="name-taken", fields={"name": [message]}) from error


def _wanted(said: Mapping[str, Any]) -> Wanted:
    return Wanted(*(str(said.get(name, "")) for name in ("origin", "credential", "cluster")))


def _create(
    principal: Principal, row: ModelVersion, found: Origin | None, wanted: Wanted
) -> ModelVersion:
    row.model = Model.objects.select_for_update().select_related("project").get(pk=row.model.pk)
    row.name = row.name or _name_there(row) or next_name(row.model)
    row.look_at = None
    if found is not None:
        row.files = Files.COMING
        row.volume, row.folder = found.volume, found.folder
        row.run_uid = found.run.job.uid if found.run else None
        row.look_at = now() if found.volume is not None else None
        if found.volume is None:
            row.volume = models_volume(principal, row.model.project, wanted.cluster)
            row.folder = f"{row.model.name}/{row.name}-{row.uid.hex[:8]}"
    _fitting(row.folder)
    if row.source == Source.UPLOAD and row.volume is not None:
        row.origin = row.origin or f"{UPLOAD}{row.name}"
    row.save(force_insert=True)
    if found is not None and found.url:
        _bring(principal, row, found.url, found.credential or wanted.credential)
    events.record(
        actor=principal,
        verb="model.version-added",
        target=row.model,
        project_uid=row.model.project.uid,
        data={"version": row.name, "origin": row.origin, "framework": row.framework},
    )
    _tell(row)
    return row


def _bring(principal: Principal, row: ModelVersion, url: str, credential: str) -> None:
    """Start the load that copies its files, which belongs to the version."""
    tried = Load.objects.filter(made_for=row.uid).count()
    try:
        row.load = loads.load_create(
            principal=principal,
            project=row.model.project,
            made_for=row.uid,
            said=load_said(row, url, credential, tried + 1),
        )
    except Invalid as error:  # said of a load's own field
        field = "credential" if "credential" in error.fields else "origin"
        raise wrong(field, error.message) from error
    row.save(update_fields=["load"])


@transaction.atomic
def version_check(*, principal: Principal, row: ModelVersion, credential: str = "") -> ModelVersion:
    """Look at its files again: an upload is complete, or what was wrong with them is mended.

    What could not be copied is copied once more. One whose files are there and fit stays so.
    """
    row = _locked(principal, row)
    if row.volume is None:
        return row
    on_its_way = row.load is not None and row.load.is_on_its_way
    if row.files == Files.COMING and (on_its_way or row.look_at is not None):
        return row
    if row.created_by is None or not _may_look(row):
        row.created_by = principal.user  # in whose name it is looked at
    url = _copied_from(principal, row) if row.files == Files.FAILED else ""
    if url:
        row.files, row.problem = Files.COMING, ""
        row.save(update_fields=["files", "problem", "created_by"])
        _bring(principal, row, url, credential or _credential_of(row))
    else:
        row.look_at = now()
        if row.files != Files.THERE:
            row.files, row.problem = Files.COMING, ""
        row.save(update_fields=["files", "problem", "look_at", "created_by"])
    _tell(row)
    return row


@transaction.atomic
def version_stage(*, principal: Principal, row: ModelVersion, stage: str) -> ModelVersion:
    """Say what it is good for."""
    row = _locked(principal, row)
    if stage not in Stage.values:
        raise wrong("stage", _("Choose one of: %(names)s.") % {"names": ", ".join(Stage.values)})
    if row.stage == stage:
        return row
    before, row.stage = row.stage, stage
    row.save(update_fields=["stage"])
    _record(principal, row, "model.version-staged", data={"from": before, "to": stage})
    return row


@transaction.atomic
def version_default(*, principal: Principal, row: ModelVersion) -> ModelVersion:
    """Make it the one that is meant where none is named: no other is serving then."""
    row = version_stage(principal=principal, row=row, stage=Stage.SERVING)
    others = row.model.versions.filter(stage=Stage.SERVING).exclude(pk=row.pk)
    for other in others.select_for_update():
        version_stage(principal=principal, row=other, stage=Stage.CANDIDATE)
    return row


@transaction.atomic
def version_metrics(
    *, principal: Principal, row: ModelVersion, metrics: Mapping[str, Any]
) -> ModelVersion:
    """Write down how good it is, in place of what was known."""
    row = _locked(principal, row)
    row.metrics = clean_metrics(metrics)
    row.save(update_fields=["metrics"])
    return row


@transaction.atomic
def version_delete(*, principal: Principal, row: ModelVersion, said: str = "") -> None:
    """Delete it; its files stay where they are. What serves it is named and stands in the way."""
    row = _locked(principal, row)
    said = reason_for(principal, row.created_by, said)
    require_unserved(str(row), version=row)
    _record(principal, row, "model.version-deleted", message=said)
    let_go(row)
    row.delete()


def let_go(row: ModelVersion) -> None:
    """Nothing is brought for it any more; loads that failed before go with it, too."""
    there = Load.objects.filter(made_for=row.uid, deleted_at=None)
    for load in there.exclude(desired=Desired.ABSENT):
        loads.made_drop(load)


def _name_there(row: ModelVersion) -> str:
    """Return the name that goes with its number in a registry, unless that is taken here."""
    name = f"v{row.registry['version']}" if row.registry else ""
    return "" if row.model.versions.filter(name=name).exists() else name


def next_name(model: Model) -> str:
    """Return v and the number that follows the highest there is."""
    names = model.versions.values_list("name", flat=True)
    numbers = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
    return f"v{max(numbers, default=0) + 1}"


# --- its files ------------------------------------------------------------------------------------


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
    _tell(row)


def versions_look() -> int:
    """Look at the files of versions that are due; return how many were seen. One question where
    none is.
    """
    due = ModelVersion.objects.filter(look_at__lte=now()).order_by("look_at")
    related = ("model__project", "created_by", "volume")
    return sum(_look(row) for row in due.select_related(*related)[:BATCH])


def version_look(row: ModelVersion) -> ModelVersion:
    """Look at its files at once, for a person who waits a moment; later the duty does."""
    give_up = time.monotonic() + LOOKED_WITHIN_S
    while row.files == Files.COMING and row.look_at and time.monotonic() < give_up:
        if not _look(row):
            time.sleep(_PAUSE_S)
        row.refresh_from_db()
    return row


def _look(row: ModelVersion) -> bool:
    """Ask for the names below its folder, in the name of who registered it."""
    who, volume = row.created_by, row.volume
    columns: dict[str, Any]
    if who is None or volume is None:
        said = _("Whoever registered it, or the volume with its files, is gone.")
        return _found(row, {"files": Files.FAILED, "problem": said})
    # What was there may be there still while nobody can look.
    keeps = Files.THERE if row.files == Files.THERE else Files.FAILED
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
            keeps = keeps if seen.has_failed else Files.FAILED
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
        _tell(row)
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
        text = _("It has more than %(n)d files: name the folder of the model alone.")
        raise Conflict(text % {"n": len(seen.files)})
    paths = [path for path, _size in seen.files]
    columns: dict[str, Any] = {}
    if deeper := place_in(paths):
        columns["folder"] = _fitting(f"{row.folder}/{deeper}".strip("/"))
        paths = [path.partition("/")[2] for path in paths]
    hint = row.registry.get("framework", "")
    framework = framework_of(paths, row.framework or (hint if hint in frameworks_in(paths) else ""))
    size = min(sum(size for _path, size in seen.files), 2**63 - 1)
    columns |= {"framework": framework, "size_bytes": size, "files": Files.THERE, "problem": ""}
    if row.files == Files.THERE and row.size_bytes not in {None, size}:
        columns["problem"] = _("Its files have changed since it was registered.")
    return columns


def _may_look(row: ModelVersion) -> bool:
    """Whether who registered it may see its files still: they may have left."""
    who, volume = row.created_by, row.volume
    if who is None or volume is None:
        return False
    try:
        place_get(Principal(who), volume.uid, row.model.project)
    except BerthError:
        return False
    return True


def _fitting(folder: str) -> str:
    if len(folder) > FOLDER_MAX:
        raise wrong("origin", _("The folder's name is too long or has control characters."))
    return folder


def _copied_from(who: Principal, row: ModelVersion) -> str:
    """Return the bucket that its files come from; "": they are in the volume already."""
    if row.source == Source.REGISTRY:
        return str(row.registry["url"])
    if row.source not in {Source.BUCKET, Source.RUN}:
        return ""
    return origin_of(who, row.model.project, Wanted(row.origin)).url


def _credential_of(row: ModelVersion) -> str:
    """Return the one that the latest try was opened by."""
    load = Load.objects.filter(made_for=row.uid).order_by("-pk").select_related("credential")
    credential = getattr(load.first(), "credential", None)
    return str(credential.uid) if credential is not None else ""


def _locked(principal: Principal, row: ModelVersion) -> ModelVersion:
    require(principal, row.model.project, Permission.MODEL_MANAGE)
    rows = ModelVersion.objects.select_for_update(of=("self",))
    return rows.select_related("model__project", "volume", "load", "created_by").get(pk=row.pk)


def _record(principal: Principal, row: ModelVersion, verb: str, **said: Any) -> None:
    data = {"version": row.name, **said.pop("data", {})}
    project = row.model.project
    events.record(
        actor=principal, verb=verb, target=row.model, project_uid=project.uid, data=data, **said
    )


def _tell(row: ModelVersion) -> None:
    """Pages learn that something changed, and what waits for its files is looked at."""
    waiting = Endpoint.objects.filter(version=row, desired=Desired.RUNNING)
    if found := list(waiting.values_list("uid", flat=True)):
        hint_uids(Endpoint.KIND, found)
    publish([f"project:{row.model.project.uid}"], {"kind": Model.KIND, "uid": str(row.model.uid)})
