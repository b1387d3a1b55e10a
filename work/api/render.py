"""One shape of a workload for every answer of the API, from its table and the common columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters.installed import has_simulated_gpus
from common.errors import Unavailable
from work.attached import attached_to
from work.image_pull import pull_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from work.api.kinds import Api
    from work.kinds import Kind
    from work.models import Workload
    from work.services import Plan


def listed_out(api: Api, row: Any) -> dict[str, Any]:
    """Return one of many: nothing private, and nothing that takes a question of its own."""
    spec = {**_spec(api.kind, row, private=False), **dict.fromkeys(api.kind.attachments)}
    return {**_told(api, row, spec), **dict.fromkeys(api.detail_shape)}


def one_out(api: Api, row: Any, who: Principal) -> dict[str, Any]:
    """Return one, with what is private for its owner."""
    private = row.owner_id == who.user.pk
    spec = {**_spec(api.kind, row, private=private), **_attached(api.kind, attached_to(row))}
    return {**_told(api, row, spec), **api.detail(row)}


def state_out(api: Api, row: Any) -> dict[str, Any]:
    """Return what a stream tells of it at each change."""
    told = _told(api, row, {})
    names = ("id", "desired", "generation", "ends_at", *api.own_shape)
    return {**{name: told[name] for name in names}, **told["status"]}


def plan_out(kind: Kind, plan: Plan) -> dict[str, Any]:
    decision = plan.decision
    return {
        "action": plan.action,
        "name": plan.name,
        "allowed": plan.allowed,
        "refusal": plan.refusal,
        "restarts": plan.restarts,
        # whoever asks is its owner
        "spec": {**_spec(kind, plan.row, private=True), **_attached(kind, plan.attached)},
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
        "starts_now": decision.starts_now if decision else None,
        "position": decision.position if decision else None,
        "cost_per_hour": str(plan.cost_per_hour),
        "currency": settings.BERTH_CURRENCY,
        "sentences": list(plan.sentences),
    }


def _told(api: Api, row: Workload, spec: Mapping[str, Any]) -> dict[str, Any]:
    queue = row.external_ref.get("queue") or {}
    pull = pull_of(row.reason, row.external_ref.get("pull"))
    return {
        "id": row.short_id,
        "uid": row.uid,
        "name": row.name,
        "project": row.project.slug,
        "owner": row.owner.username,
        "generation": row.generation,
        "desired": row.desired,
        "spec": spec,
        "status": {
            "state": str(api.states.of(row)),
            "phase": row.phase,
            "reason": row.reason,
            "message": api.states.why(row).sentence,
            "advice": api.states.advice(row),
            "observed_generation": row.observed_generation,
            "since": row.phase_since,
            "position": queue.get("position"),
            "pull": pull and {"since": pull.since, "size_bytes": pull.size_bytes},
        },
        "gpus_simulated": bool(row.gpus) and has_simulated_gpus(row.cluster_key),
        "launch": row.launch,
        "created_at": row.created_at,
        "asked_at": row.asked_at,
        "started_at": row.started_at,
        "ready_at": row.ready_at,
        "ends_at": row.ends_at,
        "stopped_at": row.stopped_at,
        "stop_reason": row.stop_reason,
        **api.own(row),
    }


def _spec(kind: Kind, row: Any, *, private: bool) -> dict[str, Any]:
    """Return what was asked for; null stands for what is not told."""
    table = kind.table.but("name", *kind.attachments)
    found: dict[str, Any] = {}
    for field in table:
        try:
            found[field.name] = field.read(row) if private or not field.private else None
        except Unavailable:  # a lost key must not keep anybody from stopping and deleting
            found[field.name] = None
    return found


def _attached(kind: Kind, attached: Any) -> dict[str, Any]:
    detailed = attached.detailed()
    return {name: detailed[name] for name in kind.attachments}
