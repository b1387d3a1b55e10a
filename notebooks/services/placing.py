"""On which cluster a workspace runs, and whether what it asks for exists there.

Of several clusters it goes to the likeliest one that lets it in: what only another one has (a pool,
a network, an image of its own), or an unproved network, rules out a cluster and refuses nobody.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _

from clusters import placement
from clusters.models import Cluster
from clusters.options import options_of
from clusters.services import ensure_local_cluster
from common.errors import BerthError, Conflict, wrong
from notebooks.choices import WorkspaceKind
from notebooks.forecast import Rooms
from notebooks.program import clean_slug, flavors_of
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.models import Pool
    from notebooks.models import Preset
    from notebooks.spec import Spec, Wanted
    from projects.models import Project

# What one machine does not have; a preset may carry it for the clusters it also runs on.
_CLUSTERS_ONLY = ("image", "command", "args", "ports", "pool", "network", "shm_mib")


def runs_images(cluster: Cluster) -> bool:
    """Whether it runs containers from images; one machine runs processes."""
    return cluster.driver not in placement.QUEUED_HERE


def can_run(cluster: Cluster, preset: Preset) -> bool:
    """Whether a preset makes sense there as it is."""
    if preset.cluster_key:
        return preset.cluster_key == cluster.key
    return runs_images(cluster) or preset.kind == WorkspaceKind.NOTEBOOK


def clusters_of(project: Project) -> list[Cluster]:
    """Return the clusters on which a project may start something now, this machine first."""
    hidden = set() if settings.BERTH_LOCAL_CLUSTER else {ONE_MACHINE}
    found = placement.usable_clusters(project.uid)
    if not hidden and all(c.key != ONE_MACHINE for c in found):
        if not _is_known(ONE_MACHINE):
            ensure_local_cluster()  # nothing was looked at yet
        found = placement.usable_clusters(project.uid)  # somebody may just have made it
    return sorted((c for c in found if not c.drain and c.key not in hidden), key=runs_images)


def placed(*, project: Project, spec: Spec, wanted: Wanted, preset: Preset) -> Spec:
    """Return a new ``spec`` on its cluster, or raise what the likeliest one says against it."""
    refusal: BerthError | None = None
    for cluster in choices(project, preset, spec, wanted):
        try:
            if runs_images(cluster):
                # it is one of those that the project may use now
                placement.proved_check(cluster)
            return _fitted(cluster, project, spec, wanted)
        except BerthError as error:
            refusal = refusal or error
    raise refusal or Conflict(_("There is no cluster to run it on."), code="no-cluster")


def fitted_there(*, project: Project, spec: Spec, wanted: Wanted) -> Spec:
    """Return an edited ``spec`` for the cluster on which it stays, or raise what is not there.

    Whether anything may start there is for whoever starts it again.
    """
    return _fitted(_known(spec.cluster), project, spec, wanted)


def _fitted(cluster: Cluster, project: Project, spec: Spec, wanted: Wanted) -> Spec:
    spec = replace(spec, cluster=cluster.key)
    if not runs_images(cluster):
        return _on_a_machine(spec, wanted)
    _check_cluster(cluster, project, spec)
    return spec


class LaunchChecks:
    """What the clusters of a project say against a preset as it is, for any number of presets.

    A constant number of queries: advice for cards. A launch asks again, and of everything.
    """

    def __init__(self, project: Project, clusters: Sequence[Cluster]) -> None:
        self._project_uid = project.uid
        self._keys = [cluster.key for cluster in clusters if runs_images(cluster)]
        self._unproved = placement.unproved_among(clusters)

    def refusal(self, cluster: Cluster, spec: Spec) -> str:
        """Return why it would not be let in, or ''."""
        if not runs_images(cluster):
            return ""
        try:
            _check_program(cluster, spec)
        except BerthError as error:
            return self._unproved.get(cluster.pk) or error.message
        return self._unproved.get(cluster.pk) or self._lacking(cluster, spec)

    def _lacking(self, cluster: Cluster, spec: Spec) -> str:
        if spec.pool and (cluster.key, spec.pool) not in self._pools(spec.kind):
            return _("There is no pool called %(name)s here.") % {"name": spec.pool}
        if spec.network and (cluster.key, spec.network) not in self._networks:
            return _("There is no extra network called %(name)s here.") % {"name": spec.network}
        return ""

    def _pools(self, kind: str) -> set[tuple[str, str]]:
        rows = (row for row in self._all_pools if row.admits(kind, self._project_uid))
        return {(row.cluster.key, row.name) for row in rows}

    @cached_property
    def _all_pools(self) -> list[Pool]:
        return placement.pools_on(self._keys, WorkspaceKind.values, self._project_uid)

    @cached_property
    def _networks(self) -> set[tuple[str, str]]:
        rows = placement.networks_on(self._keys, self._project_uid)
        return {(row.cluster.key, row.name) for row in rows}


def amounts_of(project: Project, spec: Spec) -> dict[str, int]:
    """Return what ``spec`` takes of the limits, wherever its cluster then puts it."""
    kinds = flavors_of(spec.gpu_flavor)
    # one machine gives "any kind" from its own queue, and that belongs to no kind's limit
    if spec.gpus and not kinds and runs_images(_known(spec.cluster)):
        kinds = placement.kinds_given(
            spec.cluster,
            gpu_flavor=spec.gpu_flavor,
            kind=spec.kind,
            project_uid=project.uid,
            pool=spec.pool,
            network=spec.network,
        )
    return spec.amounts(kinds)


def choices(project: Project, preset: Preset, spec: Spec, wanted: Wanted) -> list[Cluster]:
    """Return the cluster that was said, that of the preset, or all, the likeliest one first."""
    usable = clusters_of(project)
    by_key = {cluster.key: cluster for cluster in usable}
    if asked := clean_slug("cluster", wanted.cluster):
        if asked not in by_key:
            message = _("There is no such cluster here, or it takes nothing new.")
            raise wrong("cluster", message)
        return [by_key[asked]]
    if preset.cluster_key:
        return [_one(by_key.get(preset.cluster_key))]
    fitting = [c for c in usable if runs_images(c) or not _needs_images(spec, wanted)] or usable
    if len(fitting) <= 1:
        return fitting
    return [cluster for cluster, _said in Rooms(project.uid, fitting).ranked(fitting, spec)]


def _is_known(key: str) -> bool:
    return Cluster.objects.filter(key=key).exists()


def _known(key: str) -> Cluster:
    found = Cluster.objects.filter(key=key).first()
    if found is None and key == ONE_MACHINE and settings.BERTH_LOCAL_CLUSTER:
        return ensure_local_cluster()
    return _one(found)


def _one(cluster: Cluster | None) -> Cluster:
    if cluster is None:
        raise Conflict(_("Its cluster takes nothing new, or is gone."), code="no-cluster")
    return cluster


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


def _check_cluster(cluster: Cluster, project: Project, spec: Spec) -> None:
    _check_program(cluster, spec)
    placement.placement_for(
        cluster.key,
        gpus=spec.gpus,
        gpu_flavor=spec.gpu_flavor,
        kind=spec.kind,
        project_uid=project.uid,
        pool=spec.pool,
        network=spec.network,
    )
    if spec.network:
        placement.network_for(
            cluster.key,
            name=spec.network,
            gpus=spec.gpus,
            project_uid=project.uid,
            pool=spec.pool,
        )


def _check_program(cluster: Cluster, spec: Spec) -> None:
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
