"""The YAML door: the same object as the form, parsed by a strict list of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction

from common import manifests
from notebooks import selectors
from notebooks.kind import TABLE
from notebooks.models import Preset, Workspace
from notebooks.services.image_digest import digest_edited
from notebooks.services.launch import workspace_launch, workspace_resume
from notebooks.services.lifecycle import workspace_edit
from notebooks.services.plan import Plan, workspace_plan
from notebooks.services.resolve import columns_of, spec_of
from notebooks.spec import PRIVATE, Wanted
from work.attached import attached_to
from work.standard_fields import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

KIND = "Workspace"
_TABLE = TABLE.but("name")


@dataclass(frozen=True)
class Manifest:
    """What a document says, with every key known and every value of its type."""

    name: str
    project: str
    preset: str
    wanted: Wanted


def manifest_parse(document: Any) -> Manifest:
    """Return what the document says; Invalid names the first thing that is not right."""
    said = manifests.parse(document, kind=KIND, spec={"preset": str, **_TABLE.documents()})
    values = {k: v for k, v in said.spec.items() if k != "preset" and v is not None}
    if said.spec.get("time_limit_minutes", 0) is None:
        values["time_limit_minutes"] = 0  # written as null: no limit
    cleaned = NAME.clean(said.name)
    return Manifest(
        cleaned, said.project, said.spec.get("preset") or "", Wanted(name=cleaned, **values)
    )


def manifest_of(row: Workspace, *, with_env: bool) -> dict[str, Any]:
    """Return the document of a workspace; what may hold a secret for its owner only."""
    fields = columns_of(spec_of(row))
    fields["cluster"], fields["kind"] = fields.pop("cluster_key"), fields.pop("variant")
    for name in () if with_env else PRIVATE:
        fields.pop(name)
    fields |= attached_to(row).public()
    preset = row.preset.slug if row.preset else None
    return manifest_wrap(row.name, row.project.slug, said(preset, fields))


def said(preset: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification as a document says it: short where nothing is said."""
    return {"preset": preset, **_TABLE.said_by(fields)}


def manifest_wrap(name: str, project: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return manifests.wrap(KIND, name, project, spec)


def manifest_plan(*, principal: Principal, project: Project, document: Any) -> Plan:
    """Say what ``workspace_apply`` would do now."""
    manifest = _for_project(document, project)
    row = _existing(principal, project, manifest.name)
    return workspace_plan(
        principal=principal,
        project=project,
        wanted=manifest.wanted,
        preset=_preset(project, manifest),
        workspace=row,
    )


def workspace_apply(*, principal: Principal, project: Project, document: Any) -> Workspace:
    """Create the workspace the document names, or change and start it when it is there."""
    manifest = _for_project(document, project)
    row = _existing(principal, project, manifest.name)
    if row is None:
        return workspace_launch(
            principal=principal,
            project=project,
            preset=_preset(project, manifest),
            wanted=manifest.wanted,
        )
    digest = digest_edited(principal, row, manifest.wanted)
    with transaction.atomic():
        row = workspace_edit(
            principal=principal, workspace=row, wanted=manifest.wanted, digest=digest
        )
        return workspace_resume(principal=principal, workspace=row)


def _for_project(document: Any, project: Project) -> Manifest:
    manifest = manifest_parse(document)
    manifests.require_project(manifest.project, project.slug)
    return manifest


def _existing(principal: Principal, project: Project, name: str) -> Workspace | None:
    mine = selectors.workspaces_of(principal, project).exclude(desired="absent")
    return mine.filter(name=name).first()


def _preset(project: Project, manifest: Manifest) -> Preset | None:
    return selectors.preset_get(project, manifest.preset) if manifest.preset else None
