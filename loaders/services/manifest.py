"""The YAML door: the same object as the form, parsed by a strict list of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common import manifests
from loaders import policies, selectors
from loaders.models import Load
from loaders.services.create import load_create
from loaders.services.edit import load_edit
from loaders.services.plan import Plan, load_plan, public_fields
from loaders.services.resolve import spec_of
from loaders.services.runs import load_start
from loaders.spec import Spec, Wanted

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

KIND = "Load"
_SPEC: dict[str, type] = {
    "direction": str,
    "url": str,
    "credential": str,
    "volume": str,
    "cache_size_mib": int,
    "folder": str,
    "mode": str,
    "delete_extra": bool,
    "include": list,
    "exclude": list,
    "objects": list,
    "bandwidth_bytes_s": int,
    "version": str,
    "endpoint": str,
    "region": str,
    "path_style": bool,
    "schedule": str,
    "time_zone": str,
}
_ALWAYS = ("direction", "url", "credential", "volume", "folder", "mode")


@dataclass(frozen=True)
class Manifest:
    """What a document says, with every key known and every value of its type."""

    name: str
    project: str
    wanted: Wanted


def manifest_parse(document: Any) -> Manifest:
    """Return what the document says; Invalid names the first thing that is not right."""
    said = manifests.parse(document, kind=KIND, spec=_SPEC)
    values = {key: value for key, value in said.spec.items() if value is not None}
    if said.spec.get("credential", "") is None:
        values["credential"] = ""  # written as null: a public bucket
    name = policies.clean_name(said.name)
    return Manifest(name, said.project, Wanted(name=name, **values))


def manifest_of(row: Load, *, inside: bool) -> dict[str, Any]:
    """Return the document that makes this load again; ``inside``: with names of files."""
    document = manifest_wrap(row.name, row.project.slug, spec_of(row))
    for name in () if inside else ("folder", "objects"):
        document["spec"].pop(name, None)
    return document


def manifest_wrap(name: str, project: str, spec: Spec) -> dict[str, Any]:
    said = public_fields(spec)
    kept = {k: v for k, v in said.items() if k in _ALWAYS or v not in ("", [], None, False)}
    return manifests.wrap(KIND, name, project, kept)


def manifest_plan(*, principal: Principal, project: Project, document: Any) -> Plan:
    """Say what ``load_apply`` would do now."""
    manifest = _for_project(document, project)
    row = selectors.load_named(project, manifest.name)
    return load_plan(principal=principal, project=project, wanted=manifest.wanted, load=row)


def load_apply(*, principal: Principal, project: Project, document: Any) -> Load:
    """Create the load the document names, or change it; start it unless its data is there."""
    manifest = _for_project(document, project)
    row = selectors.load_named(project, manifest.name)
    if row is None:
        return load_create(principal=principal, project=project, wanted=manifest.wanted)
    row = load_edit(principal=principal, load=row, wanted=manifest.wanted)
    if row.loaded_at is None and not row.is_on_its_way:
        row = load_start(principal=principal, load=row)
    return row


def _for_project(document: Any, project: Project) -> Manifest:
    manifest = manifest_parse(document)
    manifests.require_project(manifest.project, project.slug)
    return manifest
