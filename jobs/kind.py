"""What a job says of itself: its fields, its rights, its words."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clusters.options import options_of
from common.errors import wrong
from common.outbound import OutboundError
from jobs import checkpoints, losses, origin, outputs, smoke, sources
from jobs.choices import AfterLoss
from jobs.code import is_brought, is_fetched
from jobs.fenced_git import require_address
from jobs.models import Job
from jobs.packages import require_package
from jobs.runs import run_keep
from placement.clusters import known_cluster
from projects.access import Permission
from runtime import training
from runtime.protocol import PodGroup, Together
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
AFTER_LOSS = f.Choice(
    name="after_loss",
    label=_("After a loss"),
    help=_(
        "When its place is taken, its node is lost or its machine restarts. With fewer replicas: "
        "as many as fit then, and all of them again at the next restart."
    ),
    choices=AfterLoss.choices,
    usual=AfterLoss.RESTART.value,
    folded=True,
    quiet=True,
)
MIN_REPLICAS = f.Count(
    name="min_replicas",
    label=_("Replicas at least"),
    help=_("With fewer it waits for room."),
    low=1,
    high=MAX_REPLICAS,
    usual=1,
    folded=True,
    quiet=True,
    only=("after_loss", AfterLoss.FEWER.value),
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
CHECKPOINTS_TO = f.Line(
    name="checkpoints_to",
    label=_("Copies of checkpoints"),
    help=_(
        "gs://BUCKET/FOLDER, s3://BUCKET/FOLDER, or output: beside what its runs leave. Complete "
        "ones are copied there while it runs; where its folder is lost, the newest comes back "
        "before it starts again."
    ),
    longest=1000,
    pattern=r"output|(gs|s3)://[^/\s]{3,255}(/[^\x00-\x1f]*)?",
    refusal=_("Write it like gs://bucket/folder or s3://bucket/folder, or output."),
    example="s3://bucket/checkpoints",
    folded=True,
    quiet=True,
)
CHECKPOINTS_KEPT = f.Count(
    name="checkpoints_kept",
    label=_("Copies that are kept"),
    help=_("The newest so many; older ones are deleted there."),
    low=1,
    high=100,
    usual=2,
    folded=True,
    quiet=True,
)
SCRIPT = f.Line(
    name="script",
    label=_("File"),
    help=_(
        "A notebook (.ipynb) or a Python script (.py) of its code, or of the workspace that it is "
        "made in; run instead of a command. Of a notebook the result is kept beside it."
    ),
    pattern=r"(?!/|~)(?!(.*/)?\.\.(/|$))[^\x00-\x1f]+\.(ipynb|py)",
    refusal=_("A path below the working directory that ends with .ipynb or .py."),
    example="train.ipynb",
    private=True,
    quiet=True,
)
WORKDIR = f.Line(
    name="workdir",
    label=_("Working directory"),
    help=_("Below the home of the workspace that it is made in. Empty: the home itself."),
    pattern=r"(?!/|~)(?!(.*/)?\.\.(/|$))[^\x00-\x1f]+",
    refusal=_("A path below the home, without “..”."),
    folded=True,
    private=True,
    quiet=True,
)
SMOKE = f.Flag(
    name="smoke",
    label=_("Smoke run first"),
    help=_(
        "Its first minute runs on a small slot without GPUs, so that a typo shows in seconds and "
        "not after the queue. Its program sees BERTH_SMOKE_RUN=1 and may do one step only."
    ),
    quiet=True,
)
CODE = f.Line(
    name="code",
    label=_("Code"),
    help=_(
        "The folder that its program starts in: git+https://HOST/PATH@BRANCH of a repository, or "
        "git+ssh://git@HOST/PATH@BRANCH with the project's SSH key, fetched anew at each start; "
        "volume:NAME/FOLDER; or a package that was sent before."
    ),
    longest=512,
    pattern=sources.PATTERN,
    refusal=_(
        "git+https://HOST/PATH@BRANCH or git+ssh://git@HOST/PATH@BRANCH (a tag or commit, too; "
        "#subdirectory=FOLDER after it), volume:NAME/FOLDER, or package: and its digest."
    ),
    example="git+https://github.com/team/project@main",
    private=True,  # who knows the digest may run it, and so read it
    quiet=True,
)


OUTPUT = f.Line(
    name="output",
    label=_("Output"),
    option="output-to",  # --output says how the command line prints
    help=_(
        "gs://BUCKET/FOLDER, s3://BUCKET/FOLDER or volume:NAME/FOLDER. What its program writes to "
        "the folder BERTH_OUTPUT is kept there for each run, also of one that failed; to a bucket "
        "it is copied when the run has ended."
    ),
    longest=1000,
    pattern=(
        r"(gs|s3)://[^/\s]{3,255}(/[^\x00-\x1f]*)?"
        r"|volume:[^/\x00-\x1f]{1,63}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}){0,8}"
    ),
    refusal=_("Write it like gs://bucket/folder, s3://bucket/folder or volume:NAME/folder."),
    example="s3://bucket/results",
    quiet=True,
)
OUTPUT_CREDENTIAL = f.Line(
    name="output_credential",
    label=_("Credential of the output"),
    help=_(
        "Opens the bucket. Empty: the one of the job, else of the project, that can. Its program "
        "does not see it."
    ),
    folded=True,
    quiet=True,
)


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
    if (kind := _OLDER.get(operator_of(cluster, row))) and not row.retries:
        said = gettext(
            "It runs as a %(kind)s there, which an evicted pod ends: allow retries, and it goes on."
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


FRAMEWORK = f.Choice(
    name="framework",
    label=_("Framework"),
    help=_("By it replicas are told how they find each other: RANK, TF_CONFIG, or mpirun."),
    choices=[
        (training.NONE, _("None, or one of its own")),
        (training.PYTORCH, _("PyTorch")),
        (training.TENSORFLOW, _("TensorFlow")),
        (training.MPI, _("MPI")),
    ],
    usual=training.NONE,
    quiet=True,
)
PARAMETER_SERVERS = f.Count(
    name="parameter_servers",
    label=_("Parameter servers"),
    help=_("Besides the replicas. They end with the workers."),
    high=MAX_REPLICAS,
    quiet=True,
    only=("framework", training.TENSORFLOW),
)
# 0 in these says: as a replica, but no GPU.
SERVER_CPU = f.Count(
    name="server_cpu_milli",
    label=_("CPU cores of a parameter server"),
    help=_("0: as many as a replica has."),
    unit=f.Unit.CORES,
    high=f.MAX_CPU_MILLI,
    option="server-cpu",
    quiet=True,
    folded=True,
    only=("framework", training.TENSORFLOW),
)
SERVER_MEMORY = f.Count(
    name="server_memory_mib",
    label=_("Memory of a parameter server in GiB"),
    help=_("0: as much as a replica has."),
    unit=f.Unit.GIB,
    high=f.MAX_MEMORY_MIB,
    option="server-memory",
    quiet=True,
    folded=True,
    only=("framework", training.TENSORFLOW),
)
SERVER_GPUS = f.Count(
    name="server_gpus",
    label=_("GPUs of a parameter server"),
    help=_("Of the same kind as the replicas'; few programs use them."),
    high=f.MAX_GPUS,
    quiet=True,
    folded=True,
    only=("framework", training.TENSORFLOW),
)


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
    if row.parameter_servers and row.framework != training.TENSORFLOW:
        raise wrong("parameter_servers", gettext("Only TensorFlow has parameter servers."))
    for field, alike in ((SERVER_CPU, s.CPU), (SERVER_MEMORY, s.MEMORY)):
        if 0 < field.read(row) < alike.low:
            raise wrong(field.name, gettext("0, or at least as much as a replica must have."))
    if row.server_gpus and not row.gpus:
        said = gettext("Without GPUs for the replicas a parameter server has none.")
        raise wrong("server_gpus", said)
    if row.parameter_servers and cluster.runs_images and not operator_of(cluster, row):
        said = gettext("Parameter servers need JobSet or the training operator on this cluster.")
        raise wrong("parameter_servers", said)
    if row.parameter_servers and cluster.runs_images and row.topology == "required":
        said = gettext(
            "A cluster keeps chief and workers together, not parameter servers with them. Leave "
            "it as preferred."
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
    """Write down what it is, and begin with its smoke run where one is wanted."""
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
        *(s.NAME, s.ENVIRONMENT, s.IMAGE, SCRIPT, s.COMMAND, s.ARGS, CODE, WORKDIR),
        *(FRAMEWORK, REPLICAS, PARAMETER_SERVERS, SERVER_CPU, SERVER_MEMORY, SERVER_GPUS),
        *(*s.SIZE, *s.PLACE, s.TOPOLOGY, s.TOPOLOGY_LEVEL),
        *(s.ENV, RETRIES, AFTER_LOSS, MIN_REPLICAS, s.TIME_LIMIT, SMOKE, *s.ATTACHED),
        *(CHECKPOINTS, CHECKPOINTS_TO, CHECKPOINTS_KEPT),
        *(OUTPUT, OUTPUT_CREDENTIAL),
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
    replicas=lambda row: row.launched_replicas,
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
