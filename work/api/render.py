"""One shape of a workload for every answer of the API, from its table and the common columns."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters.installed import has_simulated_gpus
from common.errors import Unavailable
from work.api.kinds import Reader
from work.attached import attached_to
from work.image_pull import pull_of
from work.kinds import kind_of
from work.models import Share
from work.selectors import is_owner
from work.waits import wait_of
from work.way_back import way_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accounts.principal import Principal
    from work.api.kinds import Api
    from work.kinds import Kind
    from work.models import Workload
    from work.services import Plan


def many_out(api: Api, rows: Sequence[Any], who: Principal) -> list[dict[str, Any]]:
    """Return many, in at most one more query: nothing private, and nothing that takes a question
    of its own.
    """
    if api.told is not None:
        return [{**api.told(row, who), "wait": None} for row in rows]
    others = [row.pk for row in rows if not is_owner(who, row)] if api.kind.shared else []
    visited: set[int] = set()
    if others:
        mine = Share.objects.filter(user=who.user, workload__in=others)
        visited = set(mine.values_list("workload_id", flat=True))
    found = []
    for row in rows:
        reader = Reader(is_owner(who, row), row.pk in visited, alone=False)
        spec = {**_spec(api, row, private=False), **dict.fromkeys(api.kind.attachments)}
        alone = dict.fromkeys(("wait", "way_back", *api.detail_shape))
        found.append({**_told(api, row, spec, reader), **alone})
    return found


def one_out(api: Api, row: Any, who: Principal) -> dict[str, Any]:
    """Return one, with what is private for its owner."""
    if api.told is not None:
        return {**api.told(row, who), "wait": _wait(row, who)}
    reader = _reader(api, row, who)
    given = attached_to(row) if row.just_attached is None else row.just_attached
    spec = {**_spec(api, row, private=reader.owns), **_attached(api.kind, given)}
    lines = {"wait": _wait(row, who), "way_back": _way_back(row)}
    return {**_told(api, row, spec, reader), **lines, **api.detail(row, reader)}


def _way_back(row: Any) -> dict[str, Any] | None:
    found = None if kind_of(row.kind).once else way_back(row)
    return None if found is None else {**asdict(found), "sentence": found.sentence}


def _wait(row: Any, who: Principal) -> dict[str, Any] | None:
    found = wait_of(who, row)
    if found is None:
        return None
    estimate = found.estimate
    return {
        "sentence": found.sentence,
        "position": found.position,
        "ahead": found.ahead,
        "earliest": estimate and estimate.earliest,
        "latest": estimate and estimate.latest,
        "when": found.when,
        "honesty": found.honesty,
        "samples": estimate.samples if estimate else 0,
        "held": estimate and estimate.held,
        "changes": [{"said": dict(one.said), "text": one.text} for one in found.changes],
    }


def state_out(api: Api, row: Any, who: Principal) -> dict[str, Any]:
    """Return what a stream tells of it at each change."""
    told = _told(api, row, {}, _reader(api, row, who))
    names = ("id", "desired", "generation", "ends_at", *api.own_shape)
    return {**{name: told[name] for name in names}, **told["status"]}


def plan_out(api: Api, plan: Plan) -> dict[str, Any]:
    if api.told_plan is not None:
        return dict(api.told_plan(plan))
    decision, kind = plan.decision, api.kind
    return {
        "action": plan.action,
        "name": plan.name,
        **kind.beside_of(plan.row),
        "allowed": plan.allowed,
        "refusal": plan.refusal,
        "restarts": plan.restarts,
        # whoever asks is its owner
        "spec": {**_spec(api, plan.row, private=True), **_attached(kind, plan.attached)},
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


def _reader(api: Api, row: Workload, who: Principal) -> Reader:
    owns = is_owner(who, row)
    asks = api.kind.shared and not owns
    visits = asks and Share.objects.filter(workload=row, user=who.user).exists()
    return Reader(owns, visits, alone=True)


def _told(api: Api, row: Workload, spec: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    queue = row.external_ref.get("queue") or {}
    pull = pull_of(row.reason, row.external_ref.get("pull"))
    return {
        "id": row.short_id,
        "uid": row.uid,
        "name": row.name,
        "project": row.project.slug,
        "owner": row.owner.username,
        **api.kind.beside_of(row),
        **({"access": reader.access} if api.kind.shared else {}),
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
            **api.status_own(row, reader),
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


def _spec(api: Api, row: Any, *, private: bool) -> dict[str, Any]:
    """Return what was asked for; null stands for what is not told."""
    table = api.kind.table.but("name", *api.kind.attachments)
    found: dict[str, Any] = {}
    for field in table:
        try:
            found[field.name] = field.read(row) if private or not field.private else None
        except Unavailable:  # a lost key must not keep anybody from stopping and deleting
            found[field.name] = None
    return {**found, **api.spec_own(row)}


def _attached(kind: Kind, attached: Any) -> dict[str, Any]:
    detailed = attached.detailed()
    return {name: detailed[name] for name in kind.attachments}
