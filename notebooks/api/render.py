"""One shape of a workspace for every answer of the API, built from plain columns.

Lists hold thousands of rows: columns are read as values, no model is made per row.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.conf import settings

from common.errors import Unavailable
from hubapi.registry import workload_url
from hubapi.services import port_short_id
from notebooks.choices import WorkspaceKind
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from notebooks.where import node_of
from notebooks.why import State, info_of, pinned_tag, why_of
from runtime.protocol import Phase, Resources
from work.attached import ATTACHED, attached_to
from work.image_pull import pull_of
from work.models import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project
    from work.services import Plan

_SPEC = WORKSPACE.own.but("name")
PRIVATE = tuple(one.name for one in _SPEC if one.private)
POSITION = "external_ref__queue__position"
LACKING = "external_ref__queue__lacking"
PULL = "external_ref__pull"
COLUMNS = (
    *("id", "uid", "short_id", "name", "generation", "observed_generation", "desired"),
    *("phase", "reason", "message", "phase_since", "environment"),
    *("variant", "cluster_key", "image", "image_digest", "image_pinned_at", "ports", "shm_mib"),
    *("pool", "network"),
    *("cpu_milli", "memory_mib", "gpus", "gpu_flavor", "time_limit_minutes"),
    *("launch", "created_at", "asked_at", "started_at", "ready_at", "ends_at", "stopped_at"),
    *("stop_reason", "idle_stop_minutes", "owner_id"),
    *("owner__username", "preset__slug", "home__uid", POSITION, LACKING, PULL),
)


def workspace_values(project: Project) -> QuerySet[Any]:
    """Return rows of an entered project ready for ``workspace_out``, newest first.

    The caller came through ``project_enter`` with the right to read workspaces.
    """
    rows = Workspace.objects.filter(project=project, deleted_at__isnull=True)
    return rows.order_by("-id").values(*COLUMNS)


def workspaces_out(
    rows: Sequence[dict[str, Any]], who: Principal, project: Project
) -> list[dict[str, Any]]:
    """Return many, in one more query whatever their number. Without environments."""
    others = [row["id"] for row in rows if row["owner_id"] != who.user.pk]
    shared: set[int] = set()
    if others:
        mine = Share.objects.filter(user=who.user, workload__in=others)
        shared = set(mine.values_list("workload_id", flat=True))
    return [
        workspace_out(
            row,
            who,
            project,
            is_visitor=row["id"] in shared,
        )
        for row in rows
    ]


def workspace_out(
    row: dict[str, Any],
    who: Principal,
    project: Project,
    *,
    is_visitor: bool,
) -> dict[str, Any]:
    owner = row["owner_id"] == who.user.pk
    may_open = owner or is_visitor
    running = row["phase"] == Phase.RUNNING
    return {
        "id": row["short_id"],
        "uid": row["uid"],
        "name": row["name"],
        "project": project.slug,
        "owner": row["owner__username"],
        "preset": row["preset__slug"],
        "access": "owner" if owner else "visitor" if may_open else "none",
        "generation": row["generation"],
        "desired": row["desired"],
        "spec": _spec_out(row, is_owner=owner),
        "status": {
            "phase": row["phase"],
            "reason": row["reason"],
            "message": _message(row),
            "advice": str(info_of(row["reason"], row["cluster_key"], _pinned(row)).advice),
            "observed_generation": row["observed_generation"],
            "since": row["phase_since"],
            "position": row[POSITION],
            "pull": _pull(row),
            "node": None,  # told about one workspace only
            "url": _url(row) if running and may_open else None,
            "ports": _ports(row) if running and may_open else [],
        },
        "launch": row["launch"],
        "home": row["home__uid"],
        "created_at": row["created_at"],
        "asked_at": row["asked_at"],
        "started_at": row["started_at"],
        "ready_at": row["ready_at"],
        "ends_at": row["ends_at"],
        "stopped_at": row["stopped_at"],
        "stop_reason": row["stop_reason"],
        "idle_stop_minutes": row["idle_stop_minutes"],
    }


def _spec_out(row: dict[str, Any], *, is_owner: bool) -> dict[str, Any]:
    """What was asked for; a command line may hold what the environment does, so it is private."""
    found = {one.name: row.get(one.attribute) for one in _SPEC}
    found |= {name: row[name] for name in ("image_digest", "image_pinned_at")}
    found |= dict.fromkeys(ATTACHED)  # told about one workspace only
    if not is_owner:
        return {**found, **dict.fromkeys(PRIVATE)}
    with suppress(Unavailable):  # a lost key must not keep anybody from stopping and deleting
        return {**found, "env": None if found["env"] is None else dict(found["env"])}
    return {**found, "env": None}


def _url(row: dict[str, Any]) -> str | None:
    if row["variant"] == WorkspaceKind.NOTEBOOK:
        return workload_url(row["short_id"])
    opened = _ports(row)
    return str(opened[0]["url"]) if opened else None


def _ports(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**port, "url": workload_url(port_short_id(row["short_id"], port["port"]))}
        for port in row["ports"]
        if port.get("web")
    ]


def _pull(row: dict[str, Any]) -> dict[str, Any] | None:
    pull = pull_of(row["reason"], row[PULL])
    return None if pull is None else {"since": pull.since, "size_bytes": pull.size_bytes}


def _message(row: dict[str, Any]) -> str:
    queue = {"position": row[POSITION], "lacking": row[LACKING]} if row[POSITION] else None
    size = (row[name] for name in ("cpu_milli", "memory_mib", "gpus", "gpu_flavor"))
    told = State(
        phase=row["phase"],
        reason=row["reason"],
        message=row["message"],
        stop_reason=row["stop_reason"],
        ref={"queue": queue, "pull": row[PULL]},
        size=Resources(*size),
        cluster_key=row["cluster_key"],
        pinned=_pinned(row),
    )
    return why_of(told).sentence


def _pinned(row: dict[str, Any]) -> str:
    return pinned_tag(row["image"], row["image_digest"])


def workspace_one(who: Principal, row: Workspace) -> dict[str, Any]:
    """Return one, with its environment for its owner."""
    if row.just_attached is not None:
        values = _columns_of(row)  # made by this request: nothing newer is to be read
    else:
        values = workspace_values(row.project).values(*COLUMNS, *PRIVATE).get(pk=row.pk)
    found = workspace_out(
        values,
        who,
        row.project,
        is_visitor=row.owner_id != who.user.pk
        and Share.objects.filter(workload=row, user=who.user).exists(),
    )
    found["spec"] |= (row.just_attached or attached_to(row)).detailed()
    if row.just_attached is None:
        found["status"]["node"] = node_of(row)
    return found


def _columns_of(row: Workspace) -> dict[str, Any]:
    """Return the same columns from a row with owner, preset and home known."""
    found: dict[str, Any] = {}
    for name in (*COLUMNS, *PRIVATE):
        value: Any = row
        for part in name.split("__"):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        found[name] = value
    return found


def plan_out(plan: Plan) -> dict[str, Any]:
    return {
        "action": plan.action,
        "name": plan.name,
        **WORKSPACE.beside_of(plan.row),
        "allowed": plan.allowed,
        "refusal": plan.refusal,
        "restarts": plan.restarts,
        "spec": {
            **_SPEC.read(plan.row, private=True),
            "image_digest": "",
            "image_pinned_at": None,
            **plan.attached.detailed(),
        },
        "changes": [{"field": c.field, "from": c.before, "to": c.after} for c in plan.changes],
        "quota": [
            {
                "resource": q.resource,
                "label": q.label,
                "used": q.used,
                "after": q.after,
                "limit": q.limit,
            }
            for q in plan.quota
        ],
        "starts_now": plan.decision.starts_now if plan.decision else None,
        "position": plan.decision.position if plan.decision else None,
        "cost_per_hour": str(plan.cost_per_hour),
        "currency": settings.BERTH_CURRENCY,
        "sentences": list(plan.sentences),
    }
