"""The fields that are a job's own, with the words that people read."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from jobs import sources
from jobs.choices import AfterLoss
from runtime import training
from work import fields as f

MAX_REPLICAS = 64
MAX_RETRIES = 20

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
REPLICAS = f.Count(
    name="replicas",
    label=_("Replicas"),
    help=_("Each has the size that is asked for; they reach each other by name."),
    low=1,
    high=MAX_REPLICAS,
    sooner=True,
)
PARAMETER_SERVERS = f.Count(
    name="parameter_servers",
    label=_("Parameter servers"),
    help=_("Besides the replicas. They end with the workers."),
    high=MAX_REPLICAS,
    quiet=True,
    only=("framework", training.TENSORFLOW),
)
EVALUATOR = f.Flag(
    name="evaluator",
    label=_("Evaluator"),
    help=_(
        "The last of its replicas evaluates checkpoints while the others train: TF_CONFIG says so. "
        "It is ended with them."
    ),
    quiet=True,
    folded=True,
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
SMOKE = f.Flag(
    name="smoke",
    label=_("Smoke run first"),
    help=_(
        "Its first minute runs on a small slot without GPUs, so that a typo shows in seconds and "
        "not after the queue. Its program sees BERTH_SMOKE_RUN=1 and may do one step only."
    ),
    quiet=True,
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
