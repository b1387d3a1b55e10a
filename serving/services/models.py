"""Registering models and taking them away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, NotFound
from events import services as events
from projects.access import Permission, require
from projects.others import reason_for
from projects.services.life import require_active
from serving.models import Model
from serving.services.model_rules import clean_description, clean_name, require_unserved
from serving.services.versions import let_go, version_delete

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from serving.models import ModelVersion


def model_create(
    *, principal: Principal, project: Project, name: str, description: str = ""
) -> Model:
    """Register a model; its versions follow."""
    require(principal, project, Permission.MODEL_MANAGE)
    require_active(project)
    row = Model(
        project=project,
        name=clean_name(name),
        description=clean_description(description),
        created_by=principal.user,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            events.record(
                actor=principal, verb="model.created", target=row, project_uid=project.uid
            )
    except IntegrityError as error:
        said = _("There is a model called “%(name)s” already.") % {"name": row.name}
        raise Conflict(said, code="name-taken", fields={"name": [said]}) from error
    return row


def model_describe(*, principal: Principal, row: Model, description: str) -> Model:
    """Say what it is."""
    require(principal, row.project, Permission.MODEL_MANAGE)
    row.description = clean_description(description)
    row.save(update_fields=["description"])
    return row


@transaction.atomic
def model_delete(*, principal: Principal, row: Model, said: str = "") -> None:
    """Delete it with its versions; what serves one of them is named and stands in the way.

    The files stay where they are, except what is still being brought.
    """
    require(principal, row.project, Permission.MODEL_MANAGE)
    said = reason_for(principal, row.created_by, said)
    # not its project: who starts an endpoint refers to that while holding a version
    row = Model.objects.select_for_update(of=("self",)).select_related("project").get(pk=row.pk)
    versions = list(row.versions.select_for_update())
    require_unserved(str(row), version__in=versions)
    events.record(
        actor=principal,
        verb="model.deleted",
        target=row,
        project_uid=row.project.uid,
        message=said,
        data={"versions": [version.name for version in versions][:50]},
    )
    for version in versions:
        let_go(version)
    row.delete()


def made_together(row: ModelVersion) -> None:
    """Write down that one form made a model and this version: to the microsecond of one age."""
    row.created_at = row.model.created_at
    row.save(update_fields=["created_at"])


@transaction.atomic
def upload_cancel(*, principal: Principal, row: ModelVersion) -> None:
    """Forget a version whose files did not all come, and a model that was made with it.

    Those files are removed only afterwards: once all are there it is refused.
    """
    require(principal, row.model.project, Permission.MODEL_MANAGE)
    models = Model.objects.select_for_update(of=("self",)).select_related("project")
    model = models.get(pk=row.model.pk)
    there = model.versions.select_for_update(of=("self",)).select_related("volume")
    found = there.filter(pk=row.pk).first()
    if found is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    if not found.awaits_upload:
        raise Conflict(_("Its files have arrived: delete it instead."), code="files-there")
    is_for_it = found.created_at == model.created_at and found.created_by_id == model.created_by_id
    version_delete(principal=principal, row=found)
    if is_for_it and not model.versions.exists():
        model_delete(principal=principal, row=model)
