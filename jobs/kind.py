"""What a job says of itself: what holds for its fields, its rights, its words."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clusters.options import options_of
from common.clock import now
from common.errors import wrong
from common.outbound import OutboundError
from jobs import checkpoints, losses, origin, outputs, smoke, sources
from jobs import fields as own
from jobs.code import is_brought, is_fetched
from jobs.fenced_git import require_address
from jobs.models import Job
from jobs.packages import require_package
from jobs.runs import run_keep
from placement.clusters import known_cluster
from projects.access import Permission
from runtime import training
from runtime.protocol import Phase
from runtime.reasons import Reason
from runtime.spec import PodGroup, Together
from volumes.services.create import SHARED
from work import fields as f
from work import standard_fields as s
from work.choices import StopReason
from work.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from clusters.models import Cluster
    from work.attached import Attached


def _settle(row: Job, said: Mapping[str, Any]) -> None:
    """Have one thing that runs, its package there, and know where its paths begin."""
    if said.get("code"):
        _check_code(row)
    if row.code and not (row.command or row.script):
        raise wrong("command", gettext("What is run in its code needs a command."))
    if row.pk is None and row.made_in and "env" in said:
        row.env = {**row.env_of_workspace, **row.env}
    if row.script and row.command:
        raise wrong("script", gettext("Say a file or a command, not both."))
    if row.is_notebook and row.args:
        message = gettext("A notebook takes no arguments: give it environment variables.")
        raise wrong("args", message)
    if row.is_notebook and row.replicas > 1:
        raise wrong("replicas", gettext("A notebook runs on one replica."))
    losses.check(row)
    if row.workdir and not row.made_in:
        message = gettext("Only a job that is made in a workspace has its home to be in.")
        raise wrong("workdir", message)
    if row.smoke and not (row.script or row.command):
        message = gettext("An image's own program has no smoke run: say a command or a file.")
        raise wrong("smoke", message)


def _check_code(row: Job) -> None:
    """What it names is there, or at an address that may be asked for it."""
    if row.code.startswith(sources.PACKAGE):
        require_package(row.project, row.code)
    elif (source := sources.repository(row.code)) is not None:
        try:
            require_address(source)
        except OutboundError as error:
            raise wrong("code", error.message) from None


def _require_volume(field: str, said: str, attached: Attached, *, writes: bool) -> None:
    """Raise unless the volume of VOLUME/FOLDER is one that the job has."""
    volume = said.partition("/")[0]
    if not volume or (attached.with_shared and volume == SHARED):
        return
    seen = next((one for one in attached.volumes if one.volume.name == volume), None)
    if seen is None:
        names = ", ".join(one.volume.name for one in attached.volumes)
        message = gettext("It is in none of the job's volumes: %(names)s.")
        raise wrong(field, message % {"names": names or "-"})
    if writes and seen.read_only:
        raise wrong(field, gettext("The job may only read this volume."))


_OLDER = {training.PYTORCHJOB: "PyTorchJob", training.TFJOB: "TFJob"}


def _look_at_attached(row: Job, attached: Attached) -> list[str]:
    outputs.check(row, attached)
    checkpoints.check(row, attached)
    _require_volume("checkpoints", row.checkpoints, attached, writes=True)
    _require_volume("code", sources.in_volume(row.code), attached, writes=False)
    told = [said] if (said := losses.sentence(row)) else []
    if not row.cluster_key or not (cluster := known_cluster(row.cluster_key)).runs_images:
        return told
    options = options_of(cluster.options)
    if is_fetched(row) and not is_brought(row, options):
        told.append(gettext("Its image needs python3, which fetches the code."))
    elif row.smoke:
        told.append(gettext("Its image needs python3, which watches over the smoke run."))
    if row.made_in:
        told.append(
            gettext(
                "Packages of its image and of your home come along (pip install --user, virtual "
                "environments there). What was installed elsewhere in the workspace's pod does not."
            )
        )
    kind = _OLDER.get(operator_of(cluster, row))
    if kind and not row.retries:
        said = gettext(
            "It runs as a %(kind)s there, which an evicted pod ends: allow retries, and it goes on."
        )
        told.append(said % {"kind": kind})
    elif kind and row.checkpoints:
        said = gettext(
            "It runs as a %(kind)s there, whose program is tried again in the same pod: "
            "BERTH_CHECKPOINT_LATEST stays as it was when that began, so let it look for the "
            "newest in BERTH_CHECKPOINTS."
        )
        told.append(said % {"kind": kind})
    if row.gpus and not row.checkpoints and (options.manages_queues or options.queue):
        told.append(
            gettext(
                "Name a folder for its checkpoints: when its GPUs are asked back it begins anew "
                "without them."
            )
        )
    return told


def operator_of(cluster: Cluster, row: Job) -> str:
    """Return which operator of the cluster makes its pods; "": none."""
    older_first = options_of(cluster.options).training_operator
    there = cluster.operators
    return training.operator(row.framework, row.all_replicas, there, older_first=older_first)


def _check_place(cluster: Cluster, row: Job) -> None:
    """An image brings its own program; one machine has none. Some roles need an operator."""
    _check_framework(cluster, row)
    copied = {"output": outputs.is_copied(row), "checkpoints_to": bool(row.checkpoints_to)}
    if (named := [name for name, is_copied in copied.items() if is_copied]) and not outputs.copies(
        cluster
    ):
        said = gettext(
            "On this cluster no data can be copied: its operator names the image for it."
        )
        raise wrong(named[0], said)
    if cluster.runs_images and not row.image:
        raise wrong("image", gettext("A job on a cluster needs an image."))
    if not cluster.runs_images and not (row.command or row.script):
        raise wrong("command", gettext("On this machine a job needs a command or a file."))


def _check_framework(cluster: Cluster, row: Job) -> None:
    """What can't run there is refused before it is submitted."""
    if row.framework == training.MPI and training.MPI_OPERATOR not in cluster.operators:
        if cluster.runs_images:
            raise wrong("framework", gettext("MPI needs mpi-operator on this cluster."))
        said = gettext("MPI needs mpirun on this machine: Debian's package openmpi-bin.")
        raise wrong("framework", said)
    if row.framework == training.MPI and not row.command:
        raise wrong("command", gettext("MPI needs the command that runs on each slot."))
    _check_beside(cluster, row)


def _check_beside(cluster: Cluster, row: Job) -> None:
    """TensorFlow alone has parameter servers and an evaluator, and only some clusters run them."""
    if row.parameter_servers and row.framework != training.TENSORFLOW:
        raise wrong("parameter_servers", gettext("Only TensorFlow has parameter servers."))
    if row.evaluator and (row.framework != training.TENSORFLOW or row.replicas == 1):
        said = gettext(
            "TensorFlow's evaluator is the last of two replicas or more: raise their number, or "
            "leave it out."
        )
        raise wrong("evaluator", said)
    for field, alike in ((own.SERVER_CPU, s.CPU), (own.SERVER_MEMORY, s.MEMORY)):
        if 0 < field.read(row) < alike.low:
            raise wrong(field.name, gettext("0, or at least as much as a replica must have."))
    if row.server_gpus and not row.gpus:
        said = gettext("Without GPUs for the replicas a parameter server has none.")
        raise wrong("server_gpus", said)
    beside = "parameter_servers" if row.parameter_servers else "evaluator" if row.evaluator else ""
    if beside and cluster.runs_images and not operator_of(cluster, row):
        said = gettext(
            "Parameter servers and an evaluator need JobSet or the training operator on this "
            "cluster."
        )
        raise wrong(beside, said)
    if beside and cluster.runs_images and row.topology == "required":
        said = gettext(
            "A cluster keeps chief and workers together, not parameter servers or an evaluator "
            "with them. Leave it as preferred."
        )
        raise wrong("topology", said)


def _servers(row: Job) -> PodGroup | None:
    if not row.parameter_servers:
        return None
    return PodGroup(training.PS, row.parameter_servers, resources=row.server_size)


def _together(row: Job) -> Together | None:
    if row.topology == s.TOPOLOGY.usual:
        return None
    return Together(row.topology_level, required=row.topology == "required")


def _launched(principal: Principal, row: Job) -> None:
    """Write down what it is, and begin with its smoke run where one is wanted.

    After a run that ended well the next begins at its beginning; any other is gone on with.
    """
    if (row.phase, row.reason) == (Phase.STOPPED, Reason.FINISHED):
        row.checkpoints_since = now()
        row.save(update_fields=["checkpoints_since"])
    run_keep(principal, row)
    smoke.begin(row)


JOB = Kind(
    word=Job.KIND,
    document="Job",
    model=Job,
    one=_("Job"),
    many=_("Jobs"),
    icon="stack-2",
    table=f.Table(
        *(s.NAME, s.ENVIRONMENT, s.IMAGE, own.SCRIPT, s.COMMAND, s.ARGS, own.CODE, own.WORKDIR),
        *(own.FRAMEWORK, own.REPLICAS, own.EVALUATOR, own.PARAMETER_SERVERS),
        *(own.SERVER_CPU, own.SERVER_MEMORY, own.SERVER_GPUS),
        *(*s.SIZE, *s.PLACE, s.TOPOLOGY, s.TOPOLOGY_LEVEL),
        *(s.ENV, own.RETRIES, own.AFTER_LOSS, own.MIN_REPLICAS, s.TIME_LIMIT, own.SMOKE),
        *(*s.ATTACHED, own.CHECKPOINTS, own.CHECKPOINTS_TO, own.CHECKPOINTS_KEPT),
        *(own.OUTPUT, own.OUTPUT_CREDENTIAL),
    ),
    create=Permission.JOB_CREATE,
    read=Permission.JOB_READ,
    manage=Permission.JOB_MANAGE,
    first_name=lambda row: PurePosixPath(row.script).stem[:58] or Job.KIND,
    defaults=origin.of_a_workspace,
    beside={"workspace": str},
    told_beside=lambda row: {"workspace": row.made_in or None},
    settle=_settle,
    check_place=_check_place,
    look_at_attached=_look_at_attached,
    homes=lambda row: row.homes,
    attached_first=origin.attached_there,
    stopping=smoke.stopping,
    hidden=Q(smoke_of__isnull=False),
    related=("home",),
    # what ended starts with all of them
    replicas=lambda row: row.launched_replicas if row.is_on_its_way else row.replicas,
    others=_servers,
    together=_together,
    of_a_launch={
        "exit_code": None,
        "failed_replica": None,
        "finished_at": None,
        "failure": "",
        "replicas_now": None,
        "fetched": dict,
    },
    asked=StopReason.CANCELLED.value,
    stop_notices={StopReason.SEARCH: "work.stopped"},  # of its end the search tells, not it
    counted=lambda n: ngettext("%(n)d job", "%(n)d jobs", n) % {"n": n},
    launched=_launched,
    once=True,
)
