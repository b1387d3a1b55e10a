"""What a job says of itself: its fields, its rights, its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clusters.options import options_of
from common.errors import wrong
from jobs.models import Job
from jobs.packages import require_package
from jobs.runs import run_keep
from placement.clusters import known_cluster
from projects.access import Permission
from runtime.protocol import Together
from volumes.services.create import SHARED
from work import fields as f
from work import standard_fields as s
from work.choices import StopReason
from work.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.models import Cluster
    from work.attached import Attached

MAX_REPLICAS = 64
MAX_RETRIES = 20

REPLICAS = f.Count(
    name="replicas",
    label=_("Replicas"),
    help=_("Each has the size that is asked for; they reach each other by name."),
    low=1,
    high=MAX_REPLICAS,
    sooner=True,
)
RETRIES = f.Count(
    name="retries",
    label=_("Retries"),
    help=_("How often it runs again after its program ended badly."),
    high=MAX_RETRIES,
)
CHECKPOINTS = f.Line(
    name="checkpoints",
    label=_("Checkpoints"),
    help=_(
        "VOLUME or VOLUME/FOLDER, where a folder of the job is kept for them: its program finds it "
        "in BERTH_CHECKPOINTS, and the newest complete one in BERTH_CHECKPOINT_LATEST. Without one "
        "they stay on one machine until the job is deleted, and on a cluster not at all."
    ),
    pattern=r"[^/\x00-\x1f]{1,63}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}){0,3}",
    refusal=_("The name of a volume, or VOLUME/FOLDER."),
    example="shared/checkpoints",
    folded=True,
    quiet=True,
)
CODE = f.Line(
    name="code",
    label=_("Code"),
    help=_("A package that was sent before: its program starts in that folder."),
    longest=80,
    pattern=r"package:[0-9a-f]{64}",
    refusal=_("“package:” and the digest that was answered when the folder was sent."),
    quiet=True,
    folded=True,
)


def _settle(row: Job, said: Mapping[str, Any]) -> None:
    """Have the package there that it is run with, and a program that can be begun in it."""
    if said.get("code"):
        require_package(row.project, row.code)
    if row.code and not row.command:
        raise wrong("command", gettext("What is run in a package needs a command."))


def _look_at_attached(row: Job, attached: Attached) -> list[str]:
    volume = row.checkpoints.partition("/")[0]
    if volume and not (attached.with_shared and volume == SHARED):
        seen = next((one for one in attached.volumes if one.volume.name == volume), None)
        if seen is None:
            names = ", ".join(one.volume.name for one in attached.volumes)
            message = gettext("It is in none of the job's volumes: %(names)s.")
            raise wrong("checkpoints", message % {"names": names or "-"})
        if seen.read_only:
            raise wrong("checkpoints", gettext("The job may only read this volume."))
    if volume or not row.gpus or not row.cluster_key:
        return []
    cluster = known_cluster(row.cluster_key)
    options = options_of(cluster.options)
    if not cluster.runs_images or not (options.manages_queues or options.queue):
        return []
    return [
        gettext(
            "Name a folder for its checkpoints: when its GPUs are asked back it begins anew "
            "without them."
        )
    ]


def _check_place(cluster: Cluster, row: Job) -> None:
    """An image brings its own program; one machine has none."""
    if cluster.runs_images and not row.image:
        raise wrong("image", gettext("A job on a cluster needs an image."))
    if not cluster.runs_images and not row.command:
        raise wrong("command", gettext("This machine has no images: a job needs a command here."))


def _together(row: Job) -> Together | None:
    if row.topology == s.TOPOLOGY.usual:
        return None
    return Together(row.topology_level, required=row.topology == "required")


JOB = Kind(
    word=Job.KIND,
    document="Job",
    model=Job,
    one=_("Job"),
    many=_("Jobs"),
    icon="stack-2",
    table=f.Table(
        *(s.NAME, s.ENVIRONMENT, s.IMAGE, s.COMMAND, s.ARGS, CODE, REPLICAS, *s.SIZE, *s.PLACE),
        *(s.TOPOLOGY, s.TOPOLOGY_LEVEL, s.ENV, RETRIES, s.TIME_LIMIT, *s.ATTACHED, CHECKPOINTS),
    ),
    create=Permission.JOB_CREATE,
    read=Permission.JOB_READ,
    manage=Permission.JOB_MANAGE,
    settle=_settle,
    check_place=_check_place,
    look_at_attached=_look_at_attached,
    replicas=lambda row: row.replicas,
    together=_together,
    of_a_launch={"exit_code": None, "failed_replica": None, "finished_at": None},
    asked=StopReason.CANCELLED.value,
    counted=lambda n: ngettext("%(n)d job", "%(n)d jobs", n) % {"n": n},
    launched=run_keep,
    once=True,
)
