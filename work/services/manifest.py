"""The YAML door of any kind: the same fields as the form, parsed by its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common import manifests
from runtime.protocol import Desired
from work import kinds, selectors
from work.services.base import own
from work.services.edit import workload_edit
from work.services.launch import workload_create
from work.services.plan import Plan, workload_plan

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload


def manifest_parse(kind: Kind, document: Any) -> tuple[str, dict[str, Any]]:
    """Return the project's slug and what is said; Invalid names the first thing that is not right.

    A number that may be none is written as null.
    """
    spec = kind.table.but("name")
    known = {**kind.beside, **{one.name: one.document for one in spec}}
    said = manifests.parse(document, kind=kind.document, spec=known)
    empty = {one.name: getattr(one, "empty", None) for one in spec}
    values = {name: empty.get(name) if v is None else v for name, v in said.spec.items()}
    name = kind.table["name"].clean(said.name)
    return said.project, {"name": name, **{k: v for k, v in values.items() if v is not None}}


def manifest_of(row: Workload, *, private: bool) -> dict[str, Any]:
    """Return the document of a workload; what may hold a secret for its owner only."""
    kind = kinds.kind_of(row.kind)
    told = selectors.values_of(row, private=private)
    return manifest_wrap(kind, row.name, row.project.slug, {**kind.beside_of(row), **told})


def manifest_wrap(kind: Kind, name: str, project: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return what a row (or a form) says as a document: short where nothing is said."""
    beside = {name: told[name] for name in kind.beside if told[name]}
    table = [one for one in kind.table.but("name") if one.name in told]
    said = {one.name: told[one.name] for one in table if not one.quiet or one.says(told[one.name])}
    return manifests.wrap(kind.document, name, project, {**beside, **said})


def manifest_plan(*, principal: Principal, project: Project, kind: Kind, document: Any) -> Plan:
    """Say what ``manifest_apply`` would do now."""
    said = _for_project(document, project, kind)
    row = _existing(principal, project, kind, said["name"])
    plan = workload_plan(principal=principal, project=project, kind=kind, said=said, row=row)
    if row is None or not kind.starts(row, is_changed=plan.action != "none"):
        return plan
    return workload_plan(
        principal=principal, project=project, kind=kind, said=said, row=row, starts=True
    )


def manifest_apply(*, principal: Principal, project: Project, kind: Kind, document: Any) -> Any:
    """Create what the document names, or change it and start it when it is there.

    What has succeeded is not done twice because its document is applied twice.
    """
    said = _for_project(document, project, kind)
    row = _existing(principal, project, kind, said["name"])
    if row is None:
        return workload_create(principal=principal, project=project, kind=kind, said=said)
    return workload_edit(principal=principal, row=row, said=said, start=True)


def _for_project(document: Any, project: Project, kind: Kind) -> dict[str, Any]:
    named, said = manifest_parse(kind, document)
    manifests.require_project(named, project.slug)
    return said


def _existing(principal: Principal, project: Project, kind: Kind, name: str) -> Any:
    """Return the one of that name; Forbidden where it is somebody else's."""
    rows = selectors.visible_to(principal, kind, project).exclude(desired=Desired.ABSENT)
    if kind.model.NAMES_PER_OWNER:
        rows = rows.filter(owner=principal.user)
    row = rows.filter(name=name).first()
    if row is not None:
        own(principal, row)
    return row
