"""From what was said to a whole row on its cluster, with every rule applied once.

What a launch would be *is* a row that nobody saved yet. Of several clusters it goes to the
likeliest one that lets it in: what only another one has (a pool, a network, an image of its own),
or an unproved network, rules out a cluster and refuses nobody.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from clusters.usable import refused
from common.errors import BerthError, Conflict, wrong
from placement.clusters import clusters_of, known_cluster, require_cluster
from placement.decision import Request, names_in
from placement.fleet import Fleet
from quotas.policies import amounts_of
from work.attached import Attached, attached_to
from work.environments import environments_of, may_have
from work.fields import Devices, Edit
from work.services.attachments import attached_wanted, changed_attachments, cluster_of_volumes
from work.services.time_limit import bound

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from accounts.principal import Principal
    from clusters.models import Cluster
    from placement.decision import Decision
    from projects.models import Project
    from work.kinds import Kind

PIN = "image_digest"  # which bytes the name of its image means; among the fields of an edit


@dataclass(frozen=True)
class Resolved:
    """A row as it would be, with the decision that all ask who judge it.

    ``fields``: what an edit changes, the name and what is attached among it.
    """

    kind: Kind
    row: Any
    attached: Attached
    uid: UUID | None = None  # of the workload, where there is one
    fields: tuple[str, ...] = field(default=())
    made: Decision | None = None

    @cached_property
    def decision(self) -> Decision:
        if self.made is not None:
            return self.made
        cluster = known_cluster(self.row.cluster_key)
        fleet = Fleet([cluster], self.row.project.uid)
        return fleet.decide(cluster, request_of(self.kind, self.row), uid=self.uid)

    @property
    def amounts(self) -> dict[str, int]:
        """What it takes of the limits, wherever its cluster then puts it."""
        row, kind = self.row, self.kind
        names = row.resources.kinds
        if row.gpus and not names:
            names = self.decision.required().flavors
        return amounts_of(kind.total_of(row), names, counts_as=kind.counts_as)

    @property
    def restarting(self) -> tuple[str, ...]:
        """What of it a running process would have to be told by a new start."""
        table = self.kind.table
        names = (n for n in self.fields if n not in table or table[n].edit is Edit.RESTARTS)
        return tuple(names)


def pinned_anew(found: Resolved) -> Resolved:
    """Return an edit that also takes other bytes of the same name of an image."""
    fields = found.fields if "image" in found.fields else (*found.fields, PIN)
    return replace(found, fields=fields)


def request_of(kind: Kind, row: Any) -> Request:
    """Return what decides where it may go."""
    return Request.of_size(
        kind.class_of(row),
        row.resources,
        pool=row.pool,
        network=row.network,
        replicas=kind.replicas_of(row),
        others=kind.others_of(row),
        purpose=kind.purpose,
        priority=row.priority,
        together=kind.together_of(row),
        since=row.ticket_at,
    )


def resolved(
    *,
    principal: Principal,
    project: Project,
    kind: Kind,
    said: Mapping[str, Any],
    fleet: Fleet | None = None,
) -> Resolved:
    """Return a new row: the defaults of its columns with what was said on top.

    ``fleet``: a look at the clusters of the project, where the caller has one.
    """
    beside = {name: said[name] for name in kind.beside if name in said}
    said = cleaned(kind, said)
    if there := cluster_of_volumes(principal, project, said):
        said["cluster"] = there
    row = kind.new(principal, project, {**said, **beside})
    _write(principal, kind, row, said)
    decision = None
    if kind.placed:
        decision = _placed(fleet, kind, row, said)
        row.cluster_key = decision.cluster.key
        _fill(kind, row, decision.cluster)
    attached = attached_wanted(
        principal=principal,
        project=project,
        cluster_key=row.cluster_key,
        said=said,
        before=kind.attached_first(principal, row),
        takes=kind.attachments,
    )
    kind.remarks(row, attached)
    return Resolved(kind, row, attached, made=decision)


def edited(*, principal: Principal, row: Any, kind: Kind, said: Mapping[str, Any]) -> Resolved:
    """Return a copy of ``row`` after an edit; it stays on its cluster, and what was private in it
    is replaced as a whole. Whether anything may start there is for whoever starts it again.
    """
    said = cleaned(kind, said)
    for one in kind.own:
        asked = said.get(one.name)
        if one.edit is Edit.NEVER and asked not in (None, "") and not one.is_same(row, asked):
            raise one.wrong(_("It is chosen when it is made. Make another one instead."))
    after = copy(row)
    _write(
        principal,
        kind,
        after,
        {k: v for k, v in said.items() if kind.table[k].edit is not Edit.NEVER},
    )
    had = attached_to(row) if kind.attachments else Attached()
    gets = attached_wanted(
        principal=principal,
        project=row.project,
        cluster_key=row.cluster_key,
        said=said,
        before=had,
        takes=kind.attachments,
    )
    kind.remarks(after, gets)
    fields = [one.name for one in kind.own if one.differs(row, after)]
    fields += [name for name in changed_attachments(had, gets) if name in kind.attachments]
    found = Resolved(kind, after, gets, row.uid, tuple(fields))
    if kind.placed and set(found.restarting) - set(kind.attachments):
        cluster = known_cluster(row.cluster_key)
        check_place(cluster, kind, after, said)
        if cluster.runs_images:
            found.decision.required()
    return found


def cleaned(kind: Kind, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said, each by its own rules; a name of nothing was not said."""
    kept = {
        name: value
        for name, value in said.items()
        if (name, value) != ("name", "") and name not in kind.beside
    }
    return kind.table.clean(kept)


def _write(principal: Principal, kind: Kind, row: Any, said: Mapping[str, Any]) -> None:
    asked = said.get("environment")
    if asked and asked != row.environment and not may_have(row.project, asked):
        offered = environments_of(row.project)
        message = _("There is no such environment here. Choose one of: %(names)s.")
        raise wrong("environment", message % {"names": ", ".join(offered)})
    for one in kind.own:
        if one.name in said:
            if isinstance(one, Devices) and said[one.name] != one.read(row):
                require_known(one, said[one.name])  # one that is gone may stay where it was
            one.write(row, said[one.name])
    row.settle()
    if kind.look_up is not None:
        kind.look_up(principal, row, said)
    if kind.settle is not None:
        kind.settle(row, said)
    bound(kind, row, said)


def _fill(kind: Kind, row: Any, cluster: Cluster) -> None:
    """One machine has nothing that only images have; where nobody chose one, it gives its first
    environment.
    """
    if cluster.runs_images:
        return
    for one in kind.own:
        if one.images_only:
            setattr(row, one.attribute, kind.model._meta.get_field(one.attribute).get_default())  # noqa: SLF001
    if "environment" in kind.table and not row.environment:
        row.environment = next(iter(environments_of(row.project)), "")


def require_known(field: Devices, value: str) -> None:
    """Raise Invalid unless each kind of GPU is known somewhere."""
    if set(names_in(value)) - set(Flavor.objects.values_list("name", flat=True)):
        raise field.wrong(_("There is no such kind of GPU."))


# --- on which cluster -------------------------------------------------------------------------


def check_place(cluster: Cluster, kind: Kind, row: Any, said: Mapping[str, Any]) -> None:
    """Raise Invalid where a cluster has not what the row asks for."""
    if kind.check_place is not None:
        kind.check_place(cluster, row)
    if cluster.runs_images:
        if row.shm_mib > row.memory_mib:
            raise wrong("shm_mib", _("Shared memory is part of the memory: not more than that."))
        return
    for one in kind.table:
        if one.images_only and said.get(one.name):
            raise one.wrong(_("Only on a cluster; this machine does not have it."))


def _placed(fleet: Fleet | None, kind: Kind, row: Any, said: Mapping[str, Any]) -> Decision:
    """Return what is decided for a new row, or raise what the likeliest cluster says against it."""
    refusal: BerthError | None = None
    for decision in _choices(fleet, kind, row, said):
        error = refusal_of(decision, kind, row, said)
        if error is None:
            return decision
        refusal = refusal or error
    raise refusal or Conflict(_("There is no cluster to run it on."), code="no-cluster")


def _choices(fleet: Fleet | None, kind: Kind, row: Any, said: Mapping[str, Any]) -> list[Decision]:
    """Decide it for the cluster that was said, for its own, or for all, the likeliest first."""
    usable = fleet.clusters if fleet else clusters_of(row.project)
    fitting = [c for c in usable if c.runs_images or _runs_on(c, kind, row, said)] or usable
    if asked := said.get("cluster"):
        fitting = [c for c in usable if c.key == asked]
        if not fitting:
            message = _("There is no such cluster here, or it takes nothing new.")
            raise wrong("cluster", message)
    elif row.cluster_key:
        there = next((c for c in usable if c.key == row.cluster_key), None)
        fitting = [require_cluster(there)]
    fleet, request = fleet or Fleet(fitting, row.project.uid), request_of(kind, row)
    if len(fitting) > 1:
        return fleet.ranked(fitting, request)
    return [fleet.decide(cluster, request) for cluster in fitting]


def _runs_on(cluster: Cluster, kind: Kind, row: Any, said: Mapping[str, Any]) -> bool:
    try:
        check_place(cluster, kind, row, said)
    except BerthError:
        return False
    return True


def refusal_of(
    decision: Decision, kind: Kind, row: Any, said: Mapping[str, Any]
) -> BerthError | None:
    """Return why a cluster would not let it in now, whatever is free there."""
    try:
        check_place(decision.cluster, kind, row, said)
    except BerthError as error:
        return error
    if not decision.cluster.runs_images:
        return None
    if unproved := decision.fleet.unproved(decision.cluster):
        return refused(unproved)
    return decision.refusal.error if decision.refusal else None
