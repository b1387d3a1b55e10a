"""Changing the tree, what its parts have, and the classes of priority; operators only.

Each act is one transaction with its audit event: what was, what is, and the effect that was shown.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cluster, Flavor
from common.errors import Conflict, Forbidden, Invalid, NotFound, wrong
from common.ids import new_uid
from events import services as events
from projects.models import Project
from queues import hooks, local
from queues.choices import Purpose, Who
from queues.models import Guarantee, Priority, Queue
from queues.planning import Change, Plan, check, clusters_of, effects, plan
from queues.sharing import ROOT, Share
from queues.tree import OF_EACH, Entry, Where, entries, revision_of
from quotas.models import Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from accounts.principal import Principal

MOST_PRIORITY = 1_000_000


def tree_changed() -> None:
    """Let what follows from another tree follow: whoever writes it elsewhere, and this machine."""
    hooks.tree_changed()
    for cluster in Cluster.objects.one_machine().filter(enabled=True):
        local.grant_waiting(cluster)


def queues_change(
    *, principal: Principal, changes: Mapping[str, Change], revision: str = ""
) -> Plan:
    """Change parts of the tree, by their keys, all or none: name, place, weight, what they have.

    ``revision``: of the tree that was looked at; where it is another one by now, nothing changes.
    """
    return _save(principal, lambda: plan(changes), "queue.tree-changed", revision)


def _save(principal: Principal, make: Callable[[], Plan], verb: str, revision: str = "") -> Plan:
    """Keep what a plan changes, in one transaction with its events and what follows.

    The effect is computed before: a month of work takes a second, and nobody is let in meanwhile.
    """
    _require_operator(principal)
    made = make()
    with transaction.atomic():
        # A change of the tree waits for another one, and for who is being let in.
        list(Cluster.objects.select_for_update().order_by("pk").values_list("pk", flat=True))
        if entries() != made.before:
            made = make()
        if revision and revision != revision_of(made.before):
            raise Conflict(_("Somebody else changed the tree meanwhile. This is how it is now."))
        gone = set(made.before) - set(made.after)
        Queue.objects.filter(parent__uid__in=gone).delete()  # of projects that are gone
        Queue.objects.filter(uid__in=gone).delete()
        for key in sorted(made.changed, key=lambda k: made.after[k].is_project):
            _keep(made.after[key])  # organisations first: others may stand below a new one
        if made.changed or gone:
            _tell(principal, verb, made)
            tree_changed()
    return made


def queue_create(
    *, principal: Principal, name: str, parent: str = ROOT, weight: Decimal = Decimal(1)
) -> Entry:
    """Make an organisation; nothing follows before something stands below it."""
    entry = Entry(str(new_uid()), name.strip(), parent=parent, weight=weight)

    def make() -> Plan:
        before = entries()
        after = {**before, entry.key: entry}
        check(before, after)
        return Plan(before, after)

    _save(principal, make, "queue.created")
    return entry


def queue_delete(*, principal: Principal, key: str) -> Plan:
    """Delete an organisation that has no parts, with what is guaranteed to it."""

    def make() -> Plan:
        before = entries()
        entry = before.get(key)
        if entry is None:
            raise NotFound(_("There is no such part of the tree."))
        if entry.is_project:
            raise Conflict(_("A project stays in the tree for as long as it is there."))
        if any(one.parent == key for one in before.values()):
            raise Conflict(_("Parts of the tree stand below it. Move them first."))
        after = {k: one for k, one in before.items() if k != key}
        return Plan(before, after, tuple(effects(before, after, clusters_of(before, after))))

    return _save(principal, make, "queue.deleted")


def two_groups(
    *, where: Where, fixed: Mapping[str, int], pool: Collection[str], name: str
) -> tuple[Entry, dict[str, Change]]:
    """Return the pair "fixed GPUs for building, shared pool for training" (A16) as changes.

    ``fixed``: project → how many are its own: guaranteed, lent to nobody, and all that it may hold.
    The projects of ``pool`` share what is left, below an organisation ``name`` that guarantees
    nothing to any of them. One in both builds with what is its own, and trains in the pool.
    """
    shared = Entry(str(new_uid()), name.strip())
    changes = {key: Change(parent=shared.key, shares={where: Share()}) for key in pool}
    for key, number in fixed.items():
        most = None if key in pool else number
        changes[key] = Change(
            parent=shared.key if key in pool else None,
            shares={where: Share(number, most=most, lends=0)},
            build_exceeds=False,
        )
    return shared, changes


def two_groups_plan(
    *, where: Where, fixed: Mapping[str, int], pool: Collection[str], name: str
) -> Plan:
    """Say what would follow from the two groups."""
    shared, changes = two_groups(where=where, fixed=fixed, pool=pool, name=name)
    before = entries()
    if not changes or any(key not in before for key in changes):
        raise wrong("fixed", _("Choose the projects of both groups."))
    after = {
        **{k: changes[k].applied(e) if k in changes else e for k, e in before.items()},
        shared.key: shared,
    }
    check(before, after)
    return Plan(before, after, tuple(effects(before, after, {where[0]})))


def two_groups_make(
    *,
    principal: Principal,
    where: Where,
    fixed: Mapping[str, int],
    pool: Collection[str],
    name: str,
) -> Plan:
    """Make the two groups in one step."""
    groups: dict[str, Any] = {"where": where, "fixed": fixed, "pool": pool, "name": name}
    return _save(principal, lambda: two_groups_plan(**groups), "queue.tree-changed")


def _require_operator(principal: Principal) -> None:
    if not principal.is_operator:
        raise Forbidden(_("Only operators may change how GPUs are shared."))


def _keep(entry: Entry) -> None:
    """Write one part as it shall be."""
    parent = None
    if entry.parent != ROOT:
        parent = Queue.objects.get(uid=entry.parent)
    columns = {
        "parent": parent,
        "weight": entry.weight,
        "build_exceeds": entry.build_exceeds,
        "longest": dict(entry.longest),
    }
    if entry.is_project:
        project = Project.objects.get(uid=entry.key)
        if entry.each_gpus is None:
            Limit.objects.filter(project=project, **OF_EACH).delete()
        else:
            Limit.objects.update_or_create(
                project=project, **OF_EACH, defaults={"amount": entry.each_gpus}
            )
        queue, _made = Queue.objects.update_or_create(
            project=project, defaults={"name": entry.slug, **columns}
        )
    else:
        queue, _made = Queue.objects.update_or_create(
            uid=entry.key, defaults={"name": entry.name, **columns}
        )
    rows = {(g.cluster.key, g.flavor.name): g for g in queue.guarantees.select_related()}
    for where, row in rows.items():
        if where not in entry.shares:
            row.delete()
    for where, share in entry.shares.items():
        key, kind = where
        values = {"guaranteed": share.guaranteed, "most": share.most, "lends": share.lends}
        if where in rows:
            Guarantee.objects.filter(pk=rows[where].pk).update(**values)
        else:
            Guarantee.objects.create(
                queue=queue,
                cluster=Cluster.objects.get(key=key),
                flavor=Flavor.objects.get(name=kind),
                **values,
            )


def _tell(principal: Principal, verb: str, made: Plan) -> None:
    """Record each changed part: what was, what is, and the effect on every cluster."""
    effect = [one.as_json() for one in made.effects]
    for key in sorted({*made.changed, *(set(made.before) - set(made.after))}):
        old, new = made.before.get(key), made.after.get(key)
        entry = new or old
        if entry is None:
            continue
        events.record(
            actor=principal,
            verb=verb if (old and new) or verb != "queue.tree-changed" else "queue.created",
            target_kind=Queue.KIND,
            target_name=entry.name,
            message=_difference(old, new, made),
            data={
                "part": key,
                "before": _as_json(old, made.before),
                "after": _as_json(new, made.after),
                "effect": effect,
                "above": [[one.project, one.user, one.gpus, one.limit] for one in made.above],
            },
        )


def _as_json(entry: Entry | None, tree: Mapping[str, Entry]) -> dict[str, Any]:
    if entry is None:
        return {}
    above = tree.get(entry.parent)
    return {
        "name": entry.name,
        "parent": above.name if above else "",
        "weight": str(entry.weight),
        "build_exceeds": entry.build_exceeds,
        "longest": dict(entry.longest),
        "each_gpus": entry.each_gpus,
        "guarantees": {
            f"{cluster}/{kind}": [share.guaranteed, share.most, share.lends]
            for (cluster, kind), share in sorted(entry.shares.items())
        },
    }


def _difference(old: Entry | None, new: Entry | None, made: Plan) -> str:
    """Return what changed as codes and numbers, such as ``local/h100 guaranteed: 2 → 4``."""
    if old is None or new is None:
        return ""
    was, now = _said(old, made.before), _said(new, made.after)
    said = []
    for name in {**was, **now}:
        nothing = "0" if name.endswith(" guaranteed") else "-"
        before, after = was.get(name, nothing), now.get(name, nothing)
        if before != after:
            said.append(f"{name}: {before} → {after}")
    return ", ".join(said)


def _said(entry: Entry, tree: Mapping[str, Entry]) -> dict[str, str]:
    """Return by name all that is laid down about a part; what is not is left out."""
    above = tree.get(entry.parent)
    numbers: dict[str, int | None] = {"each_gpus": entry.each_gpus}
    numbers |= {f"{purpose} minutes": n for purpose, n in sorted(entry.longest.items())}
    for where, share in sorted(entry.shares.items()):
        for name in ("guaranteed", "most", "lends"):
            numbers[f"{'/'.join(where)} {name}"] = getattr(share, name)
    return {
        "name": entry.name,
        "parent": above.name if above else "-",
        "weight": str(entry.weight),
        "build_exceeds": str(entry.build_exceeds),
        **{name: str(n) for name, n in numbers.items() if n is not None},
    }


# --- priorities -------------------------------------------------------------------------------


@transaction.atomic
def priority_save(
    *, principal: Principal, values: Mapping[str, Any], priority: Priority | None = None
) -> Priority:
    """Make a class of priority, or change one; what already waits keeps what it asked with."""
    _require_operator(principal)
    row = priority or Priority()
    before = {} if priority is None else _priority_json(row)
    for name in ("name", "label", "value", "who", "purpose"):
        if name in values and (name != "name" or priority is None):
            setattr(row, name, values[name])
    _check_priority(row)
    row.save()
    events.record(
        actor=principal,
        verb="priority.created" if priority is None else "priority.changed",
        target_kind=Priority.KIND,
        target_name=row.label,
        data={"before": before, "after": _priority_json(row)},
    )
    tree_changed()
    return row


@transaction.atomic
def priority_delete(*, principal: Principal, priority: Priority) -> None:
    """Delete a class; work that names it goes by what it is for. Each purpose keeps its own."""
    _require_operator(principal)
    if priority.purpose:
        raise Conflict(_("Work goes by this class. Give it to another class first."))
    events.record(
        actor=principal,
        verb="priority.deleted",
        target_kind=Priority.KIND,
        target_name=priority.label,
        data={"before": _priority_json(priority), "after": {}},
    )
    priority.delete()
    tree_changed()


def _check_priority(row: Priority) -> None:
    fields: dict[str, list[str]] = {}
    others = Priority.objects.exclude(pk=row.pk)
    if not row.name or not all(c.isalnum() or c == "-" for c in row.name) or not row.name.isascii():
        fields["name"] = [_("Small letters, digits and “-”.")]
    elif others.filter(name=row.name).exists():
        fields["name"] = [_("There is a class so called.")]
    if not str(row.label).strip():
        fields["label"] = [_("Say what people read.")]
    if type(row.value) is not int or abs(row.value) > MOST_PRIORITY:
        fields["value"] = [_("A whole number up to %(n)d.") % {"n": MOST_PRIORITY}]
    if row.who not in Who.values:
        fields["who"] = [_("There is no such choice.")]
    if row.purpose and row.purpose not in Purpose.values:
        fields["purpose"] = [_("There is no such choice.")]
    elif row.purpose and others.filter(purpose=row.purpose).exists():
        fields["purpose"] = [_("Another class is for this already.")]
    if fields:
        raise Invalid(next(iter(fields.values()))[0], fields=fields)


def _priority_json(row: Priority) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("name", "label", "value", "who", "purpose")}
