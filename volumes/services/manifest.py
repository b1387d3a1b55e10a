"""The YAML door and the plan before every act: one object, the same answer everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common import manifests
from common.errors import BerthError, Invalid
from common.manifests import Change
from common.templatetags.berth import money
from projects.access import Permission, require
from projects.services.life import require_active
from quotas import selectors as quotas
from quotas.choices import STORAGE_MIB, words
from volumes.choices import VolumeKind, WritePolicy
from volumes.models import Volume
from volumes.services.base import payer_of
from volumes.services.create import NewVolume, choose, name_taken, volume_create
from volumes.services.edit import COLUMNS, Changes, check_edit, volume_edit

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

KIND = "Volume"
_SPEC: dict[str, type] = {
    "size_mib": int,
    "class": str,
    "cluster": str,
    "description": str,
    "write_policy": str,
}


@dataclass(frozen=True)
class Plan:
    """``action`` is create, update or none; ``allowed`` False: it would be refused now."""

    action: str
    name: str
    changes: tuple[Change, ...] = ()
    refusal: str = ""
    sentences: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.refusal


def volume_plan(
    *,
    principal: Principal,
    project: Project,
    wanted: NewVolume | None = None,
    volume: Volume | None = None,
    changes: Changes | None = None,
) -> Plan:
    """Say what a creation (or an edit of ``volume``) would do now, and do none of it.

    What is wrong with the request itself is raised, as the act would; a refusal by what is
    there now (a name, a limit, somebody who uses it) is part of the answer.
    """
    if volume is not None:
        return _plan_edit(principal, volume, changes or Changes())
    require(principal, project, Permission.VOLUME_CREATE)
    require_active(project)
    wanted = wanted or NewVolume("", 0)
    chosen = choose(project, wanted)
    said = {
        "class": chosen.volume_class.key,
        "cluster": chosen.cluster_key,
        "size_mib": chosen.size_mib,
        "description": chosen.description,
        "write_policy": chosen.write_policy,
    }
    refusal = _refused_by_limit(principal, project, chosen.size_mib)
    if _named(project, chosen.name, chosen.cluster_key) is not None:
        refusal = name_taken(chosen.name).message
    sentences = []
    if cost := chosen.volume_class.price * chosen.size_mib / 1024:
        sentences.append(_("Costs %(price)s a month.") % {"price": money(cost)})
    return _finished(
        Plan(
            action="create",
            name=chosen.name,
            changes=tuple(Change(k, None, v) for k, v in said.items() if v != ""),
            refusal=refusal,
            sentences=tuple(sentences),
        )
    )


def _plan_edit(principal: Principal, volume: Volume, changes: Changes) -> Plan:
    before = {c: getattr(volume, c) for c in COLUMNS}
    refusal = ""
    try:
        row = check_edit(principal, volume, changes)
    except Invalid:
        raise
    except BerthError as error:
        refusal, row = error.message, volume
    after = {c: getattr(row, c) for c in COLUMNS}
    told = tuple(Change(c, before[c], after[c]) for c in COLUMNS if before[c] != after[c])
    grows = (after["size_limit_mib"] or 0) - (before["size_limit_mib"] or 0)
    if not refusal and grows > 0:
        refusal = _refused_by_limit(principal, volume.project, row.size_limit_mib or 0, volume)
    action = "update" if told or refusal else "none"
    return _finished(Plan(action=action, name=row.name, changes=told, refusal=refusal))


def _refused_by_limit(
    principal: Principal, project: Project, size_mib: int, volume: Volume | None = None
) -> str:
    payer = payer_of(volume) if volume is not None else None
    verdict = quotas.would_fit(
        project=project,
        owner=payer or principal.user,
        amounts={STORAGE_MIB: size_mib},
        uid=volume.uid if volume is not None else None,
    )
    return verdict.sentence


def _finished(plan: Plan) -> Plan:
    lines = list(plan.sentences)
    if plan.refusal:
        lines.insert(0, plan.refusal)
    elif plan.action == "none":
        lines.insert(0, _("Nothing would change."))
    lines += [
        _("Size: %(size)s") % {"size": words(STORAGE_MIB, change.after)}
        for change in plan.changes
        if change.field in {"size_mib", "size_limit_mib"} and change.after
    ]
    return Plan(plan.action, plan.name, plan.changes, plan.refusal, tuple(lines))


# --- documents --------------------------------------------------------------------------------
def manifest_of(row: Volume) -> dict[str, Any]:
    """Return the document that makes the same volume again."""
    spec: dict[str, Any] = {
        "cluster": row.cluster_key,
        "class": row.volume_class.key if row.volume_class else None,
        "size_mib": row.size_limit_mib,
        "write_policy": row.write_policy,
        "description": row.description or None,
    }
    return manifests.wrap(
        KIND, row.name, row.project.slug, {k: v for k, v in spec.items() if v is not None}
    )


def manifest_plan(*, principal: Principal, project: Project, document: Any) -> Plan:
    """Say what ``volume_apply`` would do now."""
    said = _read(document, project)
    row = _named(project, said.name, said.spec.get("cluster") or "")
    if row is not None:
        return volume_plan(
            principal=principal, project=project, volume=row, changes=_changes(said, row)
        )
    return volume_plan(principal=principal, project=project, wanted=_wanted(said))


def volume_apply(*, principal: Principal, project: Project, document: Any) -> Volume:
    """Make the volume that the document names, or change it when it is there."""
    said = _read(document, project)
    row = _named(project, said.name, said.spec.get("cluster") or "")
    if row is not None:
        return volume_edit(principal=principal, volume=row, changes=_changes(said, row))
    return volume_create(principal=principal, project=project, wanted=_wanted(said))


def _read(document: Any, project: Project) -> manifests.Document:
    said = manifests.parse(document, kind=KIND, spec=_SPEC)
    manifests.require_project(said.project, project.slug)
    return said


def _named(project: Project, name: str, cluster: str) -> Volume | None:
    """Return the live volume of that name, on the cluster named or the only one that has it."""
    rows = Volume.objects.select_related("project", "owner", "created_by", "volume_class").filter(
        project=project,
        name=name,
        kind__in=[VolumeKind.DATA, VolumeKind.PROJECT],
        deleted_at__isnull=True,
        delete_requested_at__isnull=True,
    )
    if cluster:
        rows = rows.filter(cluster_key=cluster)
    found = list(rows.order_by("id")[:2])
    if len(found) > 1:
        raise manifests.wrong(
            "spec.cluster", _("Several clusters have a volume of that name: say which.")
        )
    return found[0] if found else None


def _wanted(said: manifests.Document) -> NewVolume:
    size = said.spec.get("size_mib")
    if size is None:
        raise manifests.wrong("spec.size_mib", _("Say how large it is."))
    return NewVolume(
        name=said.name,
        size_mib=size,
        cluster=said.spec.get("cluster") or "",
        volume_class=said.spec.get("class") or "",
        description=said.spec.get("description") or "",
        write_policy=said.spec.get("write_policy") or WritePolicy.EVERYBODY,
    )


def _changes(said: manifests.Document, row: Volume) -> Changes:
    """Return what differs; what was not written stays. The class of a volume never changes."""
    wanted = said.spec.get("class")
    if wanted and row.volume_class is not None and wanted != row.volume_class.key:
        raise manifests.wrong(
            "spec.class", _("A volume stays in its class. Make another one and copy the files.")
        )
    return Changes(
        description=said.spec.get("description"),
        write_policy=said.spec.get("write_policy"),
        size_limit_mib=said.spec.get("size_mib"),
    )
