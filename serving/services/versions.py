"""Adding versions to a model, their stages, and their end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict, Invalid, wrong
from events import services as events
from loaders import services as loads
from loaders.models import Load
from projects.access import Permission, permissions_of, require
from projects.others import reason_for
from projects.services.life import require_active
from runtime.protocol import Desired
from serving.choices import Files, Framework, Source, Stage
from serving.models import Model, ModelVersion
from serving.selectors import default_of
from serving.services.model_rules import (
    clean_metrics,
    clean_name,
    clean_signature,
    fitting_signature,
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
from serving.services.version_files import fitting, may_look, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projects.models import Project

NUMBER_LONGEST = 12  # of one in a registry; a longer one names nothing here
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

    ``said``: name, origin, framework, metrics, signature, credential, cluster, read (False: no job
    reads the files by itself; nor where who asks, or their token, may begin none). What is not said
    is found: the next name, the framework by the files' names, metrics of the run that made them.
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
        signature=clean_signature(said.get("signature") or {}),
        registry=found.registry if found else {},
        read_when_there=found is not None
        and said.get("read", True) is not False
        and _may_have_it_read(principal, model.project),
        created_by=principal.user,
    )
    if found is not None and not row.signature:
        row.signature = fitting_signature(found.signature)
        row.signature_found = bool(row.signature)
    if row.name:
        row.name = clean_name(row.name)
    try:
        with transaction.atomic():
            return _create(principal, row, found, wanted)
    except IntegrityError as error:
        text = _("“%(model)s” has a version %(name)s already.")
        message = text % {"model": model.name, "name": row.name}
        raise Conflict(message, code="name-taken", fields={"name": [message]}) from error


def _may_have_it_read(principal: Principal, project: Project) -> bool:
    """Whether a job may be begun for who asks: later it is known only whose name it begins in."""
    return Permission.JOB_CREATE in permissions_of(principal, project)


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
    fitting(row.folder)
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
    tell(row)
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
    if row.created_by is None or not may_look(row):
        row.created_by = principal.user  # in whose name it is looked at
    row.read_when_there = row.read_when_there and _may_have_it_read(principal, row.model.project)
    url = _copied_from(principal, row) if row.files == Files.FAILED else ""
    if url:
        row.files, row.problem = Files.COMING, ""
        row.save(update_fields=["files", "problem", "created_by", "read_when_there"])
        _bring(principal, row, url, credential or _credential_of(row))
    else:
        row.look_at = now()
        if row.files != Files.THERE:
            row.files, row.problem = Files.COMING, ""
        row.save(update_fields=["files", "problem", "look_at", "created_by", "read_when_there"])
    tell(row)
    return row


@transaction.atomic
def version_stage(*, principal: Principal, row: ModelVersion, stage: str) -> ModelVersion:
    """Say what it is good for.

    Conflict where it is to serve while its files are not there, and those of the one that is meant
    now are: who names the model only would be refused.
    """
    row = _locked(principal, row)
    if stage not in Stage.values:
        raise wrong("stage", _("Choose one of: %(names)s.") % {"names": ", ".join(Stage.values)})
    if row.stage == stage:
        return row
    meant = default_of(row.model.versions.all()) if stage == Stage.SERVING else None
    if meant is not None and meant.is_there and not row.is_there:
        said = _("The files of %(name)s are not there: make it the default when they are.")
        raise Conflict(said % {"name": row}, code="files-not-there")
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
    number = str(row.registry.get("version", ""))
    is_number = number.isascii() and number.isdecimal()
    name = f"v{number}" if is_number and len(number) < NUMBER_LONGEST else ""
    return "" if row.model.versions.filter(name=name).exists() else name


def next_name(model: Model) -> str:
    """Return v and the number that follows the highest there is."""
    names = model.versions.values_list("name", flat=True)
    numbers = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
    return f"v{max(numbers, default=0) + 1}"


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
