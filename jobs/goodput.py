"""What people read of a run's goodput: each part's name, its share, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from jobs import runs
from jobs.models import Run, RunGoodput, Told
from usage.goodput import CAUSES, Goodput, of_work
from usage.ledger import millis
from work.api.views import OneView
from work.ui.panels import Panel, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from django.utils.functional import Promise
    from rest_framework.request import Request

    from accounts.principal import Principal
    from jobs.models import Job
    from work.api.kinds import Api

# cause → (its name, what it means, what helps against it)
WORDS: dict[str, tuple[Promise, Promise, Promise | str]] = {
    "run": (_("Running"), _("Its program ran, and nothing of that had to be done again."), ""),
    "checkpoint": (
        _("Writing checkpoints"),
        _("As its program said of itself."),
        _("Write them less often, or to a faster volume, or beside the training."),
    ),
    "restore": (
        _("Reading a checkpoint"),
        _("As its program said of itself."),
        _("Keep the newest checkpoint on a fast volume near its GPUs."),
    ),
    "data": (
        _("Loading data"),
        _("As its program said of itself: steps waited for it."),
        _("Load it to a volume before, and read it with more workers while steps are computed."),
    ),
    "prepare": (
        _("Preparing"),
        _("From the start of its program to its first step, and what it named so."),
        _("Keep what is compiled or computed at its start in a volume, and read it there."),
    ),
    "accelerator": (
        _("Setting up its GPUs"),
        _("As its program said of itself."),
        _("One process for each GPU, and a replica less, are set up sooner."),
    ),
    "other": (
        _("Something else"),
        _("What its program named apart from its steps, an evaluation for instance."),
        _("Evaluate less often, or in a job of its own."),
    ),
    "idle": (
        _("Running, GPUs idle"),
        _("Minutes in which its GPUs did next to nothing."),
        _(
            "GPUs that wait usually wait for data: load it to a volume before, read it with more "
            "workers, or ask for fewer GPUs."
        ),
    ),
    "repeated": (
        _("Done again"),
        _("Computed before a restart, and not kept by a checkpoint that is known."),
        _("Write checkpoints to BERTH_CHECKPOINTS, and begin from the newest complete one."),
    ),
    "restart": (
        _("Starting again"),
        _("From the end of an attempt until its program ran again."),
        _("The end of the log of the attempt before tells why it ended."),
    ),
    "queue": (
        _("Waiting for its turn"),
        _("From the press until it got its place."),
        _("Ask for fewer GPUs, for a kind that is free now, or stay within the guarantee."),
    ),
    "smoke": (
        _("Smoke run"),
        _("Its first minute on a small slot, before it asked for its place."),
        _("One that does a single step when it sees BERTH_SMOKE_RUN=1 is over in seconds."),
    ),
    "suspended": (
        _("Its place was taken"),
        _("It had begun, gave its GPUs back, and waited to go on."),
        _("Work within the guarantee of its project is never asked to give its place back."),
    ),
    "pull": (
        _("Fetching the image"),
        _("Its place was held while the image came."),
        _("A smaller image, or one that its nodes have already, begins at once."),
    ),
    "start": (
        _("Starting"),
        _("From its place until its program ran."),
        _("Its volumes and its image's entry point are what takes time here."),
    ),
    "end": (
        _("Ending"),
        _("Told to end, and not gone yet."),
        _("A program that ends at once when it is told gives its GPUs to others sooner."),
    ),
}
# Of static/css/usage.css: what often stands side by side differs.
_HUES = dict(zip(CAUSES, (3, 7, 5, 1, 8, 4, 8, 2, 6, 4, 5, 7, 1, 8, 8, 4), strict=True))
_COUNTS = 0.005
_WORTH_ADVICE = 0.1  # of the whole; less is as it should be


@dataclass(frozen=True)
class Strip:
    """One part on a bar that is 1,000 wide."""

    x: str
    width: str
    hue: int


@dataclass(frozen=True)
class Line:
    """One cause of a run's time."""

    cause: str
    hours: float  # x GPUs
    share: float  # of the whole
    strips: list[Strip] = field(default_factory=list)  # when

    @property
    def counts(self) -> bool:
        """Whether it is more than next to nothing of the whole."""
        return self.share >= _COUNTS

    @property
    def name(self) -> Promise:
        return WORDS[self.cause][0]

    @property
    def text(self) -> Promise:
        return WORDS[self.cause][1]

    @property
    def hue(self) -> int:
        return _HUES[self.cause]


def lines(found: Goodput) -> list[Line]:
    placed = list(zip(found.parts, strips(found), strict=True))
    return [
        Line(
            cause,
            length / 3_600_000,
            length / found.whole,
            [strip for part, strip in placed if part.cause == cause],
        )
        for cause, length in found.weighed.items()
    ]


def advice(found: Goodput) -> Promise | str:
    """Return what helps against the greatest loss; "": it is as it should be."""
    cause = found.greatest_loss
    if cause is None or found.weighed[cause] < _WORTH_ADVICE * found.whole:
        return ""
    if cause == "queue" and not found.has_gpus:  # it speaks of GPUs
        return ""
    return WORDS[cause][2]


def strips(found: Goodput) -> list[Strip]:
    first, scale = found.parts[0].begin, 1000 / found.wall
    return [
        Strip(
            f"{(part.begin - first) * scale:.2f}",
            f"{(part.end - part.begin) * scale:.2f}",
            _HUES[part.cause],
        )
        for part in found.parts
    ]


def goodput_of(row: Job, run: Run | None = None) -> Goodput | None:
    """Return what the time of a run came to, of the latest where none is named; None: no time."""
    known = Run.objects.filter(job=row.pk).select_related("kept_goodput").order_by("-launch")
    is_latest = run is None
    # A job of a version before has no run that is written down.
    run = (known if run is None else known.filter(pk=run.pk)).first()
    if run is not None and hasattr(run, "kept_goodput"):
        return Goodput.unpacked(bytes(run.kept_goodput.content))
    last = None
    if run is not None and not is_latest:
        newer = Run.objects.filter(job=row, launch__gt=run.launch).order_by("launch").first()
        last = newer.launch - 1 if newer else None
    launch, began = row.launch, row.started_at
    if run is not None and last is not None:
        launch, began = last, run.began_at
    since = run.launch if run is not None else 0
    told = list(Told.objects.filter(job=row, launch__gte=since, launch__lte=launch))
    found = of_work(
        row.uid,
        launch,
        began,
        since=since,
        until=last,
        told={one.launch: one.state for one in told},
        smoke=[
            (millis(one.smoke_began_at), millis(one.smoke_ended_at))
            for one in told
            if one.smoke_began_at and one.smoke_ended_at
        ],
    )
    return found if found is not None and found.wall else None


def goodput_keep(row: Job, launch: int) -> None:
    """Keep what the run of this launch came to, once it is over and all that it told was read."""
    run = Run.objects.filter(job=row.pk, launch__lte=launch).order_by("-launch").first()
    if run is None or run.ended_at is None:
        return
    newer = Run.objects.filter(job=row.pk, launch__gt=run.launch).order_by("launch").first()
    its = Told.objects.filter(job=row.pk, launch__gte=run.launch, next_at__isnull=False)
    if (its.filter(launch__lt=newer.launch) if newer else its).exists():
        return
    found = goodput_of(row, run)
    if found is not None and found.is_over:
        RunGoodput.objects.get_or_create(run=run, defaults={"content": found.packed()})


def shown(found: Goodput) -> dict[str, Any]:
    """Return what a template needs of it."""
    told = {"lines": lines(found), "strips": strips(found), "advice": advice(found)}
    return {"goodput": found, **told}


def panel(who: Principal, row: Any, slot: Slot) -> Panel | None:  # noqa: ARG001 - any reader may
    """Return the goodput of a job's latest run, once there is some time to tell of."""
    if slot != Slot.CARD or row.KIND != "job":
        return None
    found = goodput_of(row)
    return Panel("jobs/_goodput.html", shown(found)) if found else None


class GoodputPartOut(serializers.Serializer[Any]):
    cause = serializers.ChoiceField(CAUSES)
    begin = serializers.DateTimeField()
    end = serializers.DateTimeField()
    launch = serializers.IntegerField()
    gpus = serializers.IntegerField(help_text="of its launch")


class SlowStepOut(serializers.Serializer[Any]):
    step = serializers.IntegerField()
    seconds = serializers.FloatField()


class StepsOut(serializers.Serializer[Any]):
    count = serializers.IntegerField(help_text="how many ended, those that were done again too")
    mean_seconds = serializers.FloatField()
    usual_seconds = serializers.FloatField(help_text="the median")
    slowest = SlowStepOut(many=True, help_text="those that took three times as long as usual")


class GoodputOut(serializers.Serializer[Any]):
    """``seconds`` add up to ``wall_seconds``, ``gpu_seconds`` to ``whole_gpu_seconds``."""

    gpus = serializers.IntegerField(
        help_text="of its latest launch; 1 for work without GPUs: then it is time alone"
    )
    over = serializers.BooleanField(source="is_over")
    measured = serializers.BooleanField(help_text="whether it is known how busy its GPUs were")
    wall_seconds = serializers.FloatField()
    whole_gpu_seconds = serializers.FloatField(
        help_text="the time of each launch times its own GPUs, of which goodput is a part"
    )
    goodput = serializers.FloatField(source="ratio", allow_null=True, help_text="a part of 1")
    seconds = serializers.DictField(child=serializers.FloatField(), help_text=", ".join(CAUSES))
    gpu_seconds = serializers.DictField(
        child=serializers.FloatField(), help_text="the same, each times the GPUs of its launch"
    )
    advice = serializers.CharField(allow_blank=True)
    parts = GoodputPartOut(many=True)
    steps = StepsOut(allow_null=True, help_text="null: its program tells nothing of its steps")


RunParameter = OpenApiParameter("run", int, description="its number, as in the list of runs")


class WorkGoodput(OneView):
    """What the time of a run of a {one} came to: of the latest, where none is named."""

    pagination_class = None  # one answer
    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"get": extend_schema(parameters=[RunParameter], responses=GoodputOut)}

    def get(self, request: Request, **_ids: str) -> Response:
        row = self.row()
        named = request.query_params.get("run", "")
        run = runs.run_get(row, runs.run_number(named, "run")) if named else None
        found = goodput_of(row, run) or Goodput({}, [], False, False)
        said = {
            **{name: getattr(found, name) for name in ("gpus", "is_over", "measured", "ratio")},
            "wall_seconds": found.wall / 1000,
            "whole_gpu_seconds": found.whole / 1000,
            "seconds": {cause: length / 1000 for cause, length in found.sums.items()},
            "gpu_seconds": {cause: length / 1000 for cause, length in found.weighed.items()},
            "advice": str(advice(found)),
            "parts": [
                {
                    **p._asdict(),
                    "begin": _at(p.begin),
                    "end": _at(p.end),
                    "gpus": found.gpus_of(p.launch),
                }
                for p in found.parts
            ],
            "steps": _steps(found),
        }
        return Response(GoodputOut(said).data)


def _steps(found: Goodput) -> dict[str, Any] | None:
    if (steps := found.steps) is None:
        return None
    return {
        "count": steps.count,
        "mean_seconds": steps.mean / 1000,
        "usual_seconds": steps.usual / 1000,
        "slowest": [{"step": step, "seconds": length / 1000} for step, length in steps.slowest],
    }


def _at(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=UTC)
