"""What people read of a run's goodput: each part's name, its share, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from usage.goodput import CAUSES, Goodput, of_work
from work.api.views import OneView
from work.ui.panels import Panel, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from django.utils.functional import Promise
    from rest_framework.request import Request

    from accounts.principal import Principal
    from work.api.kinds import Api

# cause → (its name, what it means, what helps against it)
WORDS: dict[str, tuple[Promise, Promise, Promise | str]] = {
    "run": (_("Running"), _("Its program ran, and nothing of that had to be done again."), ""),
    "checkpoint": (
        _("Writing checkpoints"),
        _("As its program said of itself."),
        _("Write them less often, or to a faster volume, or beside the training."),
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
        _("Computed before a restart; what a checkpoint kept of it is not known."),
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
_HUES = dict(zip(CAUSES, (3, 7, 2, 6, 4, 5, 1, 8, 8, 4), strict=True))  # of static/css/usage.css
_WORTH_ADVICE = 0.1  # of the whole; less is as it should be


@dataclass(frozen=True)
class Line:
    """One cause of a run's time."""

    cause: str
    hours: float  # x GPUs
    share: float  # of the whole

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
    return [
        Line(cause, length * found.gpus / 3_600_000, length / found.wall)
        for cause, length in found.sums.items()
    ]


def advice(found: Goodput) -> Promise | str:
    """Return what helps against the greatest loss; "": it is as it should be."""
    cause = found.greatest_loss
    if cause is None or found.sums[cause] < _WORTH_ADVICE * found.wall:
        return ""
    return WORDS[cause][2]


@dataclass(frozen=True)
class Strip:
    """One part on a bar that is 1,000 wide."""

    x: str
    width: str
    hue: int


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


def panel(who: Principal, row: Any, slot: Slot) -> Panel | None:  # noqa: ARG001 - any reader may
    """Return the goodput of a job's latest run, once there is some time to tell of."""
    if slot != Slot.CARD or row.KIND != "job":
        return None
    found = of_work(row.uid, row.launch, row.started_at)
    if found is None or not found.wall:
        return None
    shown = {"lines": lines(found), "strips": strips(found), "advice": advice(found)}
    return Panel("jobs/_goodput.html", {"goodput": found, **shown})


class GoodputPartOut(serializers.Serializer[Any]):
    cause = serializers.ChoiceField(CAUSES)
    begin = serializers.DateTimeField()
    end = serializers.DateTimeField()
    launch = serializers.IntegerField()


class GoodputOut(serializers.Serializer[Any]):
    """``seconds`` add up to ``wall_seconds``; times ``gpus`` they are GPU-seconds."""

    gpus = serializers.IntegerField(help_text="1 for work without GPUs: then it is time alone")
    over = serializers.BooleanField(source="is_over")
    measured = serializers.BooleanField(help_text="whether it is known how busy its GPUs were")
    wall_seconds = serializers.FloatField()
    goodput = serializers.FloatField(source="ratio", allow_null=True, help_text="a part of 1")
    seconds = serializers.DictField(child=serializers.FloatField(), help_text=", ".join(CAUSES))
    advice = serializers.CharField(allow_blank=True)
    parts = GoodputPartOut(many=True)


class WorkGoodput(OneView):
    """What the time of a {one}'s latest run came to."""

    pagination_class = None  # one answer
    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"get": extend_schema(responses=GoodputOut)}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        row = self.row()
        nothing = Goodput(1, False, [], False, False)
        found = of_work(row.uid, row.launch, row.started_at) or nothing
        said = {
            **{name: getattr(found, name) for name in ("gpus", "is_over", "measured", "ratio")},
            "wall_seconds": found.wall / 1000,
            "seconds": {cause: length / 1000 for cause, length in found.sums.items()},
            "advice": str(advice(found)),
            "parts": [
                {"begin": _at(p.begin), "end": _at(p.end), "cause": p.cause, "launch": p.launch}
                for p in found.parts
            ],
        }
        return Response(GoodputOut(said).data)


def _at(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, tz=UTC)
