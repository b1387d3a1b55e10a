"""What the pages of jobs say and show of their own: words, states, replicas."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.options import UNIT, options_of
from common.clock import now
from common.ui.components import Tab
from jobs import smoke
from jobs.choices import State
from jobs.kind import JOB
from jobs.models import Replica, TrainingInput
from jobs.states import STATES
from placement.decision import DeviceRequest, Request
from placement.levels import LABELS
from runtime import training
from runtime.protocol import Seen
from runtime.reasons import Reason
from work.models import Workload
from work.standard_fields import CPU, MEMORY
from work.ui.pages import Fact, Fill, Pages, Words, pages_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accounts.principal import Principal
    from jobs.models import Job
    from placement.fleet import Fleet

_STOPPED = "stopped"  # a driver's word: the replica did not end by itself
# state → (word, tone, shape)
_REPLICA: dict[str, tuple[Promise, str, str]] = {
    "waiting": (_("Waiting"), "quiet", "hourglass"),
    Seen.CREATED: (_("Waiting"), "quiet", "hourglass"),
    Seen.STARTING: (_("Starting"), "starting", "loader-2"),
    Seen.READY: (_("Running"), "running", "player-play"),
    Seen.STOPPING: (_("Stopping"), "stopping", "loader-3"),
    Seen.MISSING: (_("Gone"), "failed", "help-circle"),
    "ended": (_("Ended well"), "good", "circle-check"),
    "failed": (_("Failed"), "failed", "alert-triangle"),
    "stopped": (_("Stopped"), "stopped", "square"),
}
_ROLES = {
    training.MASTER: _("Master"),
    training.CHIEF: _("Chief"),
    training.LAUNCHER: _("Launcher"),
    training.WORKER: _("Worker"),
    training.EVALUATOR: _("Evaluator"),
    training.PS: _("Parameter server"),
}


@dataclass(frozen=True)
class ShownReplica:
    """One line of the table."""

    index: int
    role: str
    state: str
    exit_code: int | None
    node: str
    took: timedelta | None
    has_log: bool
    restarts: int = 0

    @property
    def word(self) -> str:
        return str(_REPLICA[self.state][0])

    @property
    def tone(self) -> str:
        return _REPLICA[self.state][1]

    @property
    def shape(self) -> str:
        return _REPLICA[self.state][2]


def _replicas(_who: Principal, row: Job) -> dict[str, Any]:
    """Return every replica of the latest launch, once one was seen; others wait."""
    known = {one.index: one for one in Replica.objects.filter(job=row, launch=row.launch)}
    if not known and row.started_at is None:  # its state says all that there is to say
        return _failed_log(row)
    roles = training.roles(row.groups)
    shown = [
        _shown(row, index, known.get(index), roles)
        for index in sorted(known) or range(row.all_replicas)
    ]
    counts = Counter(one.word for one in shown)
    words = [f"{count}\N{NO-BREAK SPACE}{word}" for word, count in counts.items()]
    return {
        "replicas": shown,
        "has_roles": any(one.role for one in shown),
        "has_restarts": any(one.restarts for one in shown),
        "replica_counts": " · ".join(words),
        **_failed_log(row),
    }


def _failed_log(row: Job) -> dict[str, str]:
    """Return where the log of what failed is."""
    if row.failed_replica is not None:
        query = {"replica": row.failed_replica}
        return {"failed_log_url": PAGES.address("logs", row, query=query)}
    if row.reason == Reason.SMOKE_FAILED and (one := smoke.latest(row)) is not None:
        return {"failed_log_url": PAGES.address("logs", one)}
    return {}


def _shown(row: Job, index: int, seen: Replica | None, roles: list[str]) -> ShownReplica:
    if seen is None:
        over = STATES.is_over(row)
        state = "stopped" if over else "waiting"
        role = roles[index] if index < len(roles) else ""
        return ShownReplica(index, _role(role), state, None, "", None, has_log=False)
    took = None
    if seen.started_at is not None:
        took = max(timedelta(0), (seen.ended_at or row.stopped_at or now()) - seen.started_at)
    role, state = _role(seen.role), _state(seen)
    return ShownReplica(index, role, state, seen.exit_code, seen.node, took, True, seen.restarts)


def _role(word: str) -> str:
    """What says no more than that it is one of several is not shown."""
    return str(_ROLES.get(word, ""))


def _state(seen: Replica) -> str:
    if seen.seen != Seen.EXITED:
        return seen.seen
    if seen.reason == _STOPPED:
        return "stopped"
    return "ended" if seen.exit_code == 0 else "failed"


def _facts(row: Job) -> list[Fact]:
    found = []
    if row.exit_code is not None:
        found.append(Fact(_("Exit code"), str(row.exit_code)))
    if row.launch > 1:
        found.append(Fact(_("Starts"), str(row.launch)))
    if row.replicas_now and row.is_on_its_way:
        fewer = _t("%(n)d of %(all)d") % {"n": row.replicas_now, "all": row.replicas}
        found.append(Fact(_("Replicas since a loss"), fewer))
    if row.made_in_uid:
        there = Workload.objects.filter(uid=row.made_in_uid).first()
        url = pages_of(there).address("detail", there) if there is not None else ""
        found.append(Fact(_("Made in workspace"), there.name if there else row.made_in, url=url))
    if submitted := TrainingInput.objects.filter(job=row).first():
        labels = ", ".join(f"{name}={value}" for name, value in submitted.labels.items())
        found += [Fact(_("Labels"), labels, code=True)] if labels else []
    return found


def _logs(row: Job) -> list[tuple[int, str]]:
    return [(n, _t("Replica %(n)d") % {"n": n}) for n in range(row.all_replicas)]


TRIAL_MINUTES = 30
_GPU_CORES, _GPU_MIB = 8_000, 32 * 1024  # beside each GPU, where its node has so much


def _fills(fleet: Fleet) -> list[Fill]:
    """Return the sizes of L9, made of the largest nodes that there are; none without GPUs."""
    largest = max(_nodes(fleet), key=lambda one: (one.gpus, one.all), default=None)
    if largest is None:
        return []
    level = next((one for one in LABELS if one in largest.levels), UNIT)
    several = min(2, largest.all // largest.gpus)

    def size(gpus: int, replicas: int, **more: Any) -> dict[str, Any]:
        """Say all that any of them says, so that each can follow another."""
        beside = {"cpu_milli": largest.cpu_milli * gpus, "memory_mib": largest.memory_mib * gpus}
        said = {"gpus": gpus, "replicas": replicas, "gpu_flavor": "", "time_limit_minutes": None}
        return {**beside, **said, "topology": "none", "topology_level": level, **more}

    found = [Fill("single", _("Single GPU"), _t("1 GPU, one program"), size(1, 1))]
    if largest.all > 1:
        short = _t("2 replicas of 1 GPU, at most %(n)d minutes") % {"n": TRIAL_MINUTES}
        trial = size(1, 2, time_limit_minutes=TRIAL_MINUTES)
        found.append(Fill("try", _("Try distributed"), short, trial))
    if largest.gpus * several > 1:
        many = ngettext("%(all)d GPUs on %(n)d node", "%(all)d GPUs on %(n)d nodes", several)
        together = {"topology": "required"} if largest.levels and several > 1 else {}
        whole = size(largest.gpus, several, gpu_flavor=largest.kind, **together)
        about = many % {"all": largest.gpus * several, "n": several}
        found.append(Fill("many", _("Many GPUs"), about, whole))
    return found


@dataclass(frozen=True)
class _Node:
    """The largest node with GPUs of one kind; CPU and memory for each of them, ``all`` on all."""

    kind: str
    gpus: int
    all: int
    cpu_milli: int
    memory_mib: int
    levels: frozenset[str]  # that its cluster tells


def _nodes(fleet: Fleet) -> Iterator[_Node]:
    """Yield them for jobs that name no pool; a machine is one node."""
    for cluster in fleet.clusters:
        has = cluster.capacity or {}
        for room in fleet.decide(cluster, Request(JOB.word, DeviceRequest(1))).rooms:
            if not (gpus := room.largest or room.total):
                continue
            cpu_milli = (room.cpu_milli or int(has.get("cpu_milli") or 0)) // gpus
            memory_mib = (room.memory_mib or int(has.get("memory_mib") or 0)) // gpus
            yield _Node(
                room.name,
                gpus,
                room.total,
                max(CPU.low, min(cpu_milli or _GPU_CORES, _GPU_CORES)),
                max(MEMORY.low, min(memory_mib or _GPU_MIB, _GPU_MIB)),
                frozenset(options_of(cluster.options).levels),
            )


def _tabs(_who: Principal, row: Job) -> Sequence[Tab]:
    found = [Tab("runs", "runs", _t("Runs")), Tab("goodput", "goodput", _t("Goodput"))]
    if row.output:
        found.append(Tab("artifacts", "artifacts", _t("Artifacts")))
    if row.is_notebook:
        found.append(Tab("result", "result", _t("Result")))
    return found


def _new_part(row: Job) -> dict[str, Any]:
    """Return what a new one takes over from its workspace."""
    if row.made_in_uid is None:
        return {}
    origin = Workload.objects.filter(uid=row.made_in_uid).first()
    return {"origin": origin, "home": row.home, "new_title": _t("Run as job")}


PAGES = Pages(
    kind=JOB,
    routes="jobs",
    begins="--from-workspace",
    new_part="jobs/_origin.html",
    new_part_of=_new_part,
    tabs=_tabs,
    words=Words(
        mine=_("My running and waiting jobs"),
        new=_("Run a job"),
        none=_("No job yet"),
        about=_(
            "A job runs a program on one or several replicas until it ends: a training, a sweep, "
            "a conversion. Its GPUs are given back at once, and its log and exit code are kept."
        ),
        again=_("Run again"),
        stop=_("Cancel"),
        stop_chosen=_("Cancel the chosen"),
        stopped=_("“%(name)s” is being cancelled."),
        stop_lost=_("Its program ends on all replicas. What it wrote to volumes is kept."),
        delete_lost=_(
            "What runs ends at once; logs and results of runs are lost. What was written to "
            "volumes stays."
        ),
        stop_many=lambda n: ngettext("Cancel %(n)d job", "Cancel %(n)d jobs", n) % {"n": n},
        stopping_many=lambda n: (
            ngettext("%(n)d job is being cancelled.", "%(n)d jobs are being cancelled.", n)
            % {"n": n}
        ),
        delete_many=lambda n: ngettext("Delete %(n)d job", "Delete %(n)d jobs", n) % {"n": n},
        deleting_many=lambda n: (
            ngettext("%(n)d job is being deleted.", "%(n)d jobs are being deleted.", n) % {"n": n}
        ),
        events=_("What happened to all jobs of the project"),
        document=_("Job as YAML"),
    ),
    states=STATES,
    shapes={
        State.QUEUED: ("pending", "hourglass"),
        State.STARTING: ("starting", "loader-2"),
        State.RUNNING: ("running", "player-play"),
        State.CANCELLING: ("stopping", "loader-3"),
        State.SUCCEEDED: ("good", "circle-check"),
        State.FAILED: ("failed", "alert-triangle"),
        State.CANCELLED: ("stopped", "circle-x"),
        State.DELETING: ("deleting", "loader-3"),
    },
    goes_on=("queued", "running"),
    ahead=(
        ("accepted", "placed", "starting", "running"),
        ("accepted", "placed", "scheduled", "starting", "image", "running"),
    ),
    # it answers nobody; and who reads of a job that it stopped asks by whom
    step_words={
        "ready": "",
        "stopped": _("Ended"),
        "waiting": _("First its smoke run, code or data"),
    },
    facts_of=_facts,
    own_part="jobs/_replicas.html",
    own_part_of=_replicas,
    logs_of=_logs,
    links=(
        ("jobs:all-runs", _("All runs"), "history"),
        ("perftests:list", _("Performance tests"), "gauge"),
    ),
    fills=_fills,
)
