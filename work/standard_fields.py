"""Fields that several kinds of work have, with the words that people read."""

from django.utils.translation import gettext_lazy as _

from clusters.options import UNIT
from placement.levels import LABELS
from work import fields as f
from work.fields import MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB

_SLUG = r"[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?"

NAME = f.Name(name="name", label=_("Name"), edit=f.Edit.ALWAYS)
ENVIRONMENT = f.Line(name="environment", label=_("Environment"), quiet=True)
IMAGE = f.Line(
    name="image",
    label=_("Image"),
    longest=512,
    pattern=r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}",
    refusal=_("Not the name of an image. For example: registry.example.org/team/train:1.2"),
    example="registry.example.org/team/train:1.2",
    quiet=True,
    images_only=True,
)
COMMAND = f.Words(
    name="command",
    label=_("Command"),
    help=_("Empty: what the image starts by itself. Nothing is expanded."),
    private=True,
    quiet=True,
)
ARGS = f.Words(
    name="args",
    folded=True,
    label=_("Arguments"),
    help=_("Added to the command, or to the image's own."),
    private=True,
    quiet=True,
)
CPU = f.Count(
    name="cpu_milli",
    label=_("CPU cores"),
    unit=f.Unit.CORES,
    low=100,
    high=MAX_CPU_MILLI,
    option="cpu",
)
MEMORY = f.Count(
    name="memory_mib",
    label=_("Memory in GiB"),
    unit=f.Unit.GIB,
    low=256,
    high=MAX_MEMORY_MIB,
    option="memory",
)
GPUS = f.Count(name="gpus", label=_("GPUs"), high=MAX_GPUS, sooner=True)
GPU_FLAVOR = f.Devices(
    name="gpu_flavor",
    label=_("Kind of GPU"),
    help=_("Several: any of them, the upper ones preferred. None: a whole one of any kind."),
    option="gpu",
    sooner=True,
)
SHM = f.Count(
    name="shm_mib",
    label=_("Shared memory in GiB"),
    fact=_("Shared memory"),
    folded=True,
    help=_("Part of the memory. Data loaders with several processes want some."),
    unit=f.Unit.GIB,
    high=MAX_MEMORY_MIB,
    option="shm",
    quiet=True,
    images_only=True,
)
CLUSTER = f.Line(
    name="cluster",
    label=_("Cluster"),
    column="cluster_key",
    longest=63,
    pattern=_SLUG,
    edit=f.Edit.NEVER,
)
POOL = f.Line(
    name="pool",
    label=_("Pool"),
    longest=63,
    pattern=_SLUG,
    quiet=True,
    images_only=True,
    folded=True,
)
NETWORK = f.Line(
    name="network",
    label=_("Extra network"),
    folded=True,
    longest=63,
    pattern=_SLUG,
    quiet=True,
    images_only=True,
)
TOPOLOGY = f.Choice(
    name="topology",
    label=_("Keep replicas together"),
    help=_("Close nodes exchange data faster, and are waited for longer."),
    choices=[
        ("none", _("Anywhere")),
        ("preferred", _("If it can be")),
        ("required", _("Always")),
    ],
    usual="none",
    folded=True,
    sooner=True,
    quiet=True,
)
TOPOLOGY_LEVEL = f.Choice(
    name="topology_level",
    label=_("In one"),
    choices=list(LABELS.items()),
    usual=UNIT,
    folded=True,
    sooner=True,
    quiet=True,
)
ENV = f.Environment(
    name="env",
    label=_("Environment variables"),
    form_help=_("One NAME=value on each line. Only you can see the values."),
    private=True,
    folded=True,
)
TIME_LIMIT = f.Minutes(
    name="time_limit_minutes",
    label=_("Time limit in minutes"),
    fact=_("Time limit"),
    help=_("0 means no limit."),
    edit=f.Edit.ALWAYS,
    option="time-limit",
)
VOLUMES = f.Names(
    name="volumes",
    label=_("Volumes"),
    help=_("NAME, or NAME:ro to only read it."),
    takes_mappings=True,
    has_usual=True,
    option="volume",
)
CREDENTIALS = f.Names(
    name="credentials",
    label=_("Credentials"),
    help=_("Their values are set when it starts; nobody can read them here."),
    option="credential",
    quiet=True,
)
NEEDS = f.Names(
    name="needs",
    label=_("Data needed first"),
    help=_("It asks for its place only when these loads are done."),
    quiet=True,
)
SIZE = (CPU, MEMORY, GPUS, GPU_FLAVOR, SHM)
IN_ONE_LINE = SIZE[:-1]  # what ``work.ui.sizes`` says
# Fields that a form shows beside each other, where the first of them has its turn.
BESIDE = (
    *((ENVIRONMENT, CLUSTER), (CPU, MEMORY), (GPUS, GPU_FLAVOR), (SHM, POOL, NETWORK)),
    (TOPOLOGY, TOPOLOGY_LEVEL),
)
PLACE = (CLUSTER, POOL, NETWORK)
ATTACHED = (VOLUMES, CREDENTIALS, NEEDS)
