"""On which cluster a workspace runs, and whether what it asks for exists there.

Of several clusters it goes to the likeliest one that lets it in: what only another one has (a pool,
a network, an image of its own), or an unproved network, rules out a cluster and refuses nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.options import options_of
from clusters.usable import refused
from common.errors import BerthError, Conflict, wrong
from notebooks.choices import WorkspaceKind
from placement.clusters import clusters_of, known_cluster, require_cluster
from placement.decision import names_in
from placement.fleet import Fleet
from quotas.policies import amounts_of
from work.standard_fields import CLUSTER

if TYPE_CHECKING:
    from uuid import UUID

    from notebooks.models import Preset
    from notebooks.spec import Spec, Wanted
    from placement.decision import Decision
    from projects.models import Project

# What one machine does not have; a preset may carry it for the clusters it also runs on.
_CLUSTERS_ONLY = ("image", "command", "args", "ports", "pool", "network", "shm_mib")


def can_run(cluster: Cluster, preset: Preset) -> bool:
    """Whether a preset makes sense there as it is."""
    if preset.cluster_key:
        return preset.cluster_key == cluster.key
    return cluster.runs_images or preset.kind == WorkspaceKind.NOTEBOOK


@dataclass(frozen=True)
class Placed:
    """A specification on its cluster, with the decision that all ask who judge it."""

    spec: Spec
    project: Project
    uid: UUID | None = None  # of the workspace, where there is one
    made: Decision | None = None

    @cached_property
    def decision(self) -> Decision:
        if self.made is not None:
            return self.made
        cluster = known_cluster(self.spec.cluster)
        return Fleet([cluster], self.project.uid).decide(cluster, self.spec.request, uid=self.uid)

    @property
    def amounts(self) -> dict[str, int]:
        """What it takes of the limits, wherever its cluster then puts it."""
        kinds = names_in(self.spec.gpu_flavor)
        if self.spec.gpus and not kinds:
            kinds = self.decision.required().flavors
        return amounts_of(self.spec.size, kinds)


def placed(
    *, project: Project, spec: Spec, wanted: Wanted, preset: Preset, fleet: Fleet | None = None
) -> Placed:
    """Return a new ``spec`` on its cluster, or raise what the likeliest one says against it."""
    refusal: BerthError | None = None
    for decision in choices(fleet, project, preset, spec, wanted):
        there = replace(spec, cluster=decision.cluster.key)
        try:
            if not decision.cluster.runs_images:
                return Placed(_on_a_machine(there, wanted), project, made=decision)
            if (error := refusal_of(decision, spec)) is None:
                return Placed(there, project, made=decision)
        except BerthError as wrong_there:
            error = wrong_there
        refusal = refusal or error
    raise refusal or Conflict(_("There is no cluster to run it on."), code="no-cluster")


def placed_there(*, project: Project, spec: Spec, wanted: Wanted, uid: UUID) -> Placed:
    """Return an edited ``spec`` for the cluster on which it stays, or raise what is not there.

    Whether anything may start there is for whoever starts it again.
    """
    cluster = known_cluster(spec.cluster)
    if not cluster.runs_images:
        return Placed(_on_a_machine(spec, wanted), project, uid)
    check_program(cluster, spec)
    found = Placed(spec, project, uid)
    found.decision.required()
    return found


def refusal_of(decision: Decision, spec: Spec) -> BerthError | None:
    """Return why a cluster would not let it in now, whatever is free there."""
    cluster = decision.cluster
    if not cluster.runs_images:
        return None
    if unproved := decision.fleet.unproved(cluster):
        return refused(unproved)
    try:
        check_program(cluster, spec)
    except BerthError as error:
        return error
    return decision.refusal.error if decision.refusal else None


def choices(
    fleet: Fleet | None, project: Project, preset: Preset, spec: Spec, wanted: Wanted
) -> list[Decision]:
    """Decide it for the cluster that was said, that of the preset, or all, the likeliest first."""
    usable = fleet.clusters if fleet else clusters_of(project)
    by_key = {cluster.key: cluster for cluster in usable}
    if asked := CLUSTER.clean(wanted.cluster or ""):
        if asked not in by_key:
            message = _("There is no such cluster here, or it takes nothing new.")
            raise wrong("cluster", message)
        fitting = [by_key[asked]]
    elif preset.cluster_key:
        fitting = [require_cluster(by_key.get(preset.cluster_key))]
    else:
        fitting = [c for c in usable if c.runs_images or not _needs_images(spec, wanted)] or usable
    fleet = fleet or Fleet(fitting, project.uid)
    if len(fitting) > 1:
        return fleet.ranked(fitting, spec.request)
    return [fleet.decide(cluster, spec.request) for cluster in fitting]


def _needs_images(spec: Spec, wanted: Wanted) -> bool:
    return spec.is_container or any(getattr(wanted, name) for name in _CLUSTERS_ONLY)


def _on_a_machine(spec: Spec, wanted: Wanted) -> Spec:
    """One machine runs JupyterLab from its own environments, and nothing else."""
    if spec.is_container:
        message = _(
            "A container needs a cluster: this machine runs JupyterLab from its own environments."
        )
        raise wrong("kind", message)
    for name in _CLUSTERS_ONLY:
        if getattr(wanted, name):
            message = _("Only on a cluster; this machine does not have it.")
            raise wrong(name, message)
    return replace(spec, image="", command=(), args=(), ports=(), pool="", network="", shm_mib=0)


def check_program(cluster: Cluster, spec: Spec) -> None:
    options = options_of(cluster.options)
    if spec.is_container and not spec.image:
        raise wrong("image", _("Name the image that runs."))
    if not spec.is_container:
        if not (spec.image or options.default_image):
            raise wrong("image", _("This cluster has no image of its own yet: name one."))
        for name in ("command", "args", "ports"):
            if getattr(spec, name):
                raise wrong(name, _("A notebook runs JupyterLab. Choose a container for this."))
    if any(port["web"] for port in spec.ports) and not options.guard_image:
        raise wrong(
            "ports",
            _("On this cluster ports are not opened in a browser yet: its operator can change it."),
        )
    if spec.shm_mib > spec.memory_mib:
        raise wrong("shm_mib", _("Shared memory is part of the memory: not more than that."))
