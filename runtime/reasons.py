"""Why a row is in its phase: one closed list, each with what it means for engine and people."""

from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from runtime.protocol import Phase


class Fault(StrEnum):
    """Whose move it is."""

    NOBODY = "nobody"
    USER = "user"
    PLATFORM = "platform"


class Reason(StrEnum):
    """Values of the ``reason`` column. Empty means nothing special."""

    NONE = ""
    ACCEPTED = "accepted"
    QUEUED = "queued"
    DOES_NOT_FIT = "does-not-fit"
    ON_HOLD = "on-hold"
    NO_CAPACITY = "no-capacity"
    DENIED = "denied"
    PLACED = "placed"
    ROUTING = "routing"
    PREVIOUS_ENDING = "previous-ending"
    UNREACHABLE = "unreachable"
    PROXY_UNREACHABLE = "proxy-unreachable"
    INTERNAL_ERROR = "internal-error"
    QUARANTINED = "parked-poison"
    INVALID_SPEC = "invalid-spec"
    START_FAILED = "start-failed"
    START_TIMEOUT = "start-timeout"
    PORT_HIJACKED = "port-hijacked"
    EXIT = "exit"
    OOM = "oom"
    KILLED = "killed"
    VANISHED = "vanished"
    FINISHED = "finished"
    USER = "user"
    TIME_LIMIT = "time-limit"
    IDLE = "idle"
    PARKED = "parked"
    PROJECT_ARCHIVED = "project-archived"
    OWNER_DISABLED = "owner-disabled"
    OPERATOR = "operator"
    CONTENTS_LEFT = "contents-left"
    # --- clusters ---------------------------------------------------------------------------
    PREPARING = "preparing"
    DATA = "data"
    DATA_MISSING = "data-missing"
    SCHEDULING = "scheduling"
    NO_SUCH_NODE = "no-such-node"
    NODES_FULL = "nodes-full"
    NO_QUEUE = "no-queue"
    VOLUME = "volume"
    QUOTA_DENIED = "quota-denied"
    PULLING = "pulling"
    PROGRAM = "program"
    IMAGE_NOT_FOUND = "image-not-found"
    IMAGE_AUTH = "image-auth"
    IMAGE_UNREACHABLE = "image-unreachable"
    IMAGE_PLATFORM = "image-platform"
    CONFIG = "config"
    COMMAND_NOT_FOUND = "command-not-found"
    EVICTED = "evicted"
    DRAINED = "drained"
    PREEMPTED = "preempted"
    NODE_LOST = "node-lost"
    REPLACED = "replaced"
    TRIED_AGAIN = "tried-again"
    HELD = "held"
    # --- queues -----------------------------------------------------------------------------
    CEILING = "ceiling"
    RECLAIMING = "reclaiming"
    BUDGET = "budget"
    # --- jobs -------------------------------------------------------------------------------
    SMOKE_RUN = "smoke-run"
    SMOKE_FAILED = "smoke-failed"
    NO_TENSORBOARD = "no-tensorboard"
    FETCHING_CODE = "fetching-code"
    CODE_NOT_FETCHED = "code-not-fetched"
    MACHINE_LOST = "machine-lost"
    PLACE_LOST = "place-lost"
    RESTORING = "restoring"
    NOT_RESTORED = "not-restored"
    ENVIRONMENT = "environment"
    ENVIRONMENT_MISSING = "environment-missing"


# What a launch waits for before it asks for its place.
NOT_ASKED = frozenset(
    {
        *(Reason.PREPARING, Reason.DATA, Reason.DATA_MISSING, Reason.FETCHING_CODE),
        *(Reason.SMOKE_RUN, Reason.RESTORING, Reason.NOT_RESTORED),
        *(Reason.ENVIRONMENT, Reason.ENVIRONMENT_MISSING),
    }
)


@dataclass(frozen=True)
class ReasonInfo:
    """``retry``: the engine goes on by itself. ``text`` and ``advice`` are for people."""

    phase: Phase
    retry: bool
    fault: Fault
    text: Promise | str
    advice: Promise | str = ""


REASONS: dict[Reason, ReasonInfo] = {
    Reason.NONE: ReasonInfo(Phase.PENDING, True, Fault.NOBODY, ""),
    Reason.ACCEPTED: ReasonInfo(Phase.PENDING, True, Fault.NOBODY, _("Accepted; about to start.")),
    Reason.QUEUED: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("Waiting for its turn: everything it asks for is in use."),
        _("It starts by itself, first come first served. A smaller size may start sooner."),
    ),
    Reason.DOES_NOT_FIT: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("It asks for more than there is here at all."),
        _("Choose a smaller size or another kind of GPU."),
    ),
    Reason.ON_HOLD: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("An operator holds it back in the queue."),
        _("Ask your operators; it keeps its place."),
    ),
    Reason.NO_CAPACITY: ReasonInfo(
        Phase.PENDING, True, Fault.NOBODY, _("Nothing is free now."), _("It is tried again soon.")
    ),
    Reason.DENIED: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("The cluster refused it."),
        _("The message says which rule refused; an operator can change it."),
    ),
    Reason.PLACED: ReasonInfo(Phase.STARTING, True, Fault.NOBODY, _("It has its place.")),
    Reason.ROUTING: ReasonInfo(
        Phase.STARTING, True, Fault.NOBODY, _("It answers; its address is being opened.")
    ),
    Reason.PREVIOUS_ENDING: ReasonInfo(
        Phase.STARTING, True, Fault.NOBODY, _("Its previous run is still ending.")
    ),
    Reason.UNREACHABLE: ReasonInfo(
        Phase.UNKNOWN,
        True,
        Fault.PLATFORM,
        _("The cluster does not answer; what is shown is the last thing known."),
        _("Nothing needs to be done: it is tried again until the cluster answers."),
    ),
    Reason.PROXY_UNREACHABLE: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("It runs, but the proxy that carries people to it does not answer."),
        _("It is tried again; if it lasts, tell an operator."),
    ),
    Reason.INTERNAL_ERROR: ReasonInfo(
        Phase.UNKNOWN,
        True,
        Fault.PLATFORM,
        _("Something went wrong in Berth."),
        _("It is tried again; an operator finds the cause in the log."),
    ),
    Reason.QUARANTINED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.PLATFORM,
        _("Working on it ended Berth's worker several times, so it was set aside."),
        _("Tell an operator; starting it again tries again."),
    ),
    Reason.INVALID_SPEC: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("It cannot run as it is described."),
        _("Change what the message names and start it again."),
    ),
    Reason.START_FAILED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("It could not be started."),
        _("The end of the log usually tells why."),
    ),
    Reason.START_TIMEOUT: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("It did not answer in time after its start."),
        _("The end of the log usually tells why. Start it again to retry."),
    ),
    Reason.PORT_HIJACKED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.PLATFORM,
        _("Something else answered on its port, so nobody was let through."),
        _("Start it again; if it repeats, tell an operator."),
    ),
    Reason.EXIT: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("It ended by itself with an error."),
        _("The end of the log usually tells why. Files are kept."),
    ),
    Reason.OOM: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("It used more memory than it asked for and was ended."),
        _("Start it again with more memory. Files are kept."),
    ),
    Reason.KILLED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.PLATFORM,
        _("It was ended by a signal from outside."),
        _("Start it again. Files are kept."),
    ),
    Reason.VANISHED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.PLATFORM,
        _("It is not there any more: the machine restarted, or somebody removed it by hand."),
        _("Start it again. Files are kept."),
    ),
    Reason.FINISHED: ReasonInfo(Phase.STOPPED, False, Fault.NOBODY, _("It ended by itself.")),
    Reason.USER: ReasonInfo(Phase.STOPPED, False, Fault.NOBODY, _("Stopped by request.")),
    Reason.TIME_LIMIT: ReasonInfo(
        Phase.STOPPED,
        False,
        Fault.NOBODY,
        _("Its time was over."),
        _("Resume it: files and address are kept."),
    ),
    Reason.PARKED: ReasonInfo(
        Phase.STOPPED,
        False,
        Fault.NOBODY,
        _("It gave its GPUs back and may go on any time."),
        _("Resume it: files, address, packages and settings are kept."),
    ),
    Reason.IDLE: ReasonInfo(
        Phase.STOPPED,
        False,
        Fault.NOBODY,
        _("It was idle for a long time."),
        _("Resume it: files and address are kept."),
    ),
    Reason.PROJECT_ARCHIVED: ReasonInfo(
        Phase.STOPPED, False, Fault.NOBODY, _("Its project was archived.")
    ),
    Reason.OWNER_DISABLED: ReasonInfo(
        Phase.STOPPED, False, Fault.NOBODY, _("Its owner may not use Berth or the project now.")
    ),
    Reason.OPERATOR: ReasonInfo(
        Phase.STOPPED, False, Fault.PLATFORM, _("Stopped by an operator or a manager.")
    ),
    Reason.CONTENTS_LEFT: ReasonInfo(
        Phase.DELETING, True, Fault.NOBODY, _("Waiting until everything in it is removed.")
    ),
    Reason.PREPARING: ReasonInfo(
        Phase.PENDING, True, Fault.NOBODY, _("The project's place on the cluster is being made.")
    ),
    Reason.DATA: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("Waiting for data that it needs. No GPU is held meanwhile."),
    ),
    Reason.DATA_MISSING: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("A load that it needs did not finish."),
        _("Open the load, mend what it names and start it again; or take it off the workspace."),
    ),
    Reason.SMOKE_RUN: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("Its smoke run comes first; it asks for its place when that has passed."),
    ),
    Reason.SMOKE_FAILED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("Its smoke run failed, so it was not queued."),
        _("Mend what the lines name and run it again; or run it without a smoke run."),
    ),
    Reason.NO_TENSORBOARD: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("Its image or environment has no TensorBoard."),
        _(
            "Name one with the packages tensorboard and jupyterhub in its settings, or ask an "
            "operator to add them."
        ),
    ),
    Reason.FETCHING_CODE: ReasonInfo(
        Phase.PENDING, True, Fault.NOBODY, _("Its code is being fetched. No GPU is held meanwhile.")
    ),
    Reason.CODE_NOT_FETCHED: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("Its code could not be fetched."),
        _("Mend what the message names and run it again."),
    ),
    Reason.MACHINE_LOST: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Its machine restarted, or everything on it was ended: it is started again."),
        _("It goes on from its newest complete checkpoint, where its program wrote one."),
    ),
    Reason.PLACE_LOST: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.PLATFORM,
        _("It lost its place, and stays stopped as its settings say."),
        _("Start it to go on: it begins from its newest complete checkpoint."),
    ),
    Reason.ENVIRONMENT: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("What it runs in is being made. No GPU is held meanwhile."),
    ),
    Reason.ENVIRONMENT_MISSING: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.PLATFORM,
        _("What it runs in could not be made; it is tried again each minute."),
        _("Whoever runs Berth finds why in the log of that name in var/log or var/supervisor."),
    ),
    Reason.RESTORING: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("Its newest checkpoint is looked for, and brought back where its folder lacks it."),
    ),
    Reason.NOT_RESTORED: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("Its newest checkpoint could not be brought back from its copy."),
        _(
            "It is tried again each minute. To begin without it, cancel the job and take the "
            "copies of checkpoints out of its settings."
        ),
    ),
    Reason.SCHEDULING: ReasonInfo(
        Phase.PENDING, True, Fault.NOBODY, _("The cluster is looking for a node.")
    ),
    Reason.NO_SUCH_NODE: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("No node of the cluster is of the kind or size that it asks for."),
        _("Stop it, then choose another kind of GPU or a smaller size."),
    ),
    Reason.NODES_FULL: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("All nodes that could hold it are in use."),
        _("It starts by itself when something ends. A smaller size may start sooner."),
    ),
    Reason.NO_QUEUE: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.PLATFORM,
        _("The queue that should let it in is not there, or lets nothing in."),
        _("Tell an operator what the message names. It starts by itself when that is mended."),
    ),
    Reason.VOLUME: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Its files cannot be brought to it yet."),
        _("It is tried again. If it lasts for minutes, tell an operator."),
    ),
    Reason.QUOTA_DENIED: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("The project has as many objects on the cluster as it may."),
        _("Delete what is not needed any more, or ask an operator for a larger quota."),
    ),
    Reason.PULLING: ReasonInfo(
        Phase.STARTING, True, Fault.NOBODY, _("The image is being fetched to the node.")
    ),
    Reason.PROGRAM: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.NOBODY,
        _("The image is there and its program runs; it does not answer yet."),
    ),
    Reason.IMAGE_NOT_FOUND: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.USER,
        _("The image does not exist under this name."),
        _("Check the name and the tag. A private image may look like one that is not there."),
    ),
    Reason.IMAGE_AUTH: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.USER,
        _("The registry does not give this image to the project."),
        _("Add a credential for the registry to the project, then start it again."),
    ),
    Reason.IMAGE_UNREACHABLE: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("The node does not reach the registry of the image."),
        _("It is tried again. If it lasts, check the registry's name or tell an operator."),
    ),
    Reason.IMAGE_PLATFORM: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.USER,
        _("The image is made for another kind of processor."),
        _("Choose an image for the processors of the cluster (usually linux/amd64)."),
    ),
    Reason.CONFIG: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.USER,
        _("The node cannot make a container of this description."),
        _("The message says what is wrong: change it and start it again."),
    ),
    Reason.COMMAND_NOT_FOUND: ReasonInfo(
        Phase.FAILED,
        False,
        Fault.USER,
        _("The image does not have the program that should run."),
        _("Check the command, or choose an image that contains it."),
    ),
    Reason.EVICTED: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("The node ran short of something and ended it; it is started again elsewhere."),
        _("Files in the home are kept. If its own scratch space was full, write to the home."),
    ),
    Reason.DRAINED: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Its node is being emptied or shut down; it is started again elsewhere."),
        _("Files in the home are kept."),
    ),
    Reason.CEILING: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("Its project may hold no more GPUs of this kind at a time."),
        _("It starts when work of the project ends, or when an operator gives the project more."),
    ),
    Reason.BUDGET: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.USER,
        _("The GPU-hours of its budget are spent."),
        _("It starts by itself when there is room again, or when an operator gives more."),
    ),
    Reason.RECLAIMING: ReasonInfo(
        Phase.PENDING,
        True,
        Fault.NOBODY,
        _("It is within what is guaranteed to its project: others give back what they borrowed."),
        _("It starts by itself as soon as they have ended."),
    ),
    Reason.PREEMPTED: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Its place was needed by work that goes first; it is started again."),
        _("Files in the home are kept."),
    ),
    Reason.NODE_LOST: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Its node does not answer any more."),
        _("It goes on when the node is back, or elsewhere. To give up this run, stop it."),
    ),
    Reason.REPLACED: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.PLATFORM,
        _("Somebody removed its pod; it is started again."),
        _("Files in the home are kept."),
    ),
    Reason.TRIED_AGAIN: ReasonInfo(
        Phase.STARTING,
        True,
        Fault.NOBODY,
        _("It ended with an error and is tried again."),
        _("Each attempt waits longer than the one before; when the last one fails, it has failed."),
    ),
    Reason.HELD: ReasonInfo(
        Phase.STOPPING,
        True,
        Fault.PLATFORM,
        _("It was told to end, but the cluster does not say that it is gone."),
        _("It goes on by itself as soon as it is gone. If it lasts, tell an operator."),
    ),
}


def info(reason: str) -> ReasonInfo:
    """Return what ``reason`` means; an unknown word (an older version's) says nothing."""
    try:
        return REASONS[Reason(reason)]
    except ValueError:
        return REASONS[Reason.NONE]


def end_reason(reason: str, exit_code: int | None) -> Reason:
    """Return why a process that ended by itself ended."""
    if reason in _ENDS:
        return Reason(reason)
    if exit_code == 0:
        return Reason.FINISHED
    return Reason.KILLED if exit_code is None or exit_code < 0 else Reason.EXIT


_ENDS = {
    Reason.OOM,
    Reason.KILLED,
    Reason.START_FAILED,
    Reason.PORT_HIJACKED,
    Reason.VANISHED,
    Reason.COMMAND_NOT_FOUND,
}
