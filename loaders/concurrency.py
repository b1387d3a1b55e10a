"""Whose turn it is among the loads of a project.

The order is that of asking; the first ones up to the project's bound may run. It is derived
anew each time from the rows, so it needs no lock and no queue of its own: asking again puts a
load at the end, and nobody who runs falls back behind the bound while it stays the same.

Only those whose turn it is ask for a place on a machine. So a project with ten thousand loads
stands in the machine's queue with a handful, and others are not behind it (E17).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from loaders.choices import Uploads
from loaders.models import ACTIVE, Load
from runtime.protocol import Desired, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from projects.models import Project

REFRESHED = 20  # that are woken when one ends, so that their position is said anew
COUNTED = 1000  # to count ten thousand before each of ten thousand takes a core for a minute
LOOK_AGAIN_S = 60.0
LOOK_AGAIN_MAX_S = 3600.0


@dataclass(frozen=True)
class Turn:
    """How many of the project are before it, and how many may run at once."""

    ahead: int
    bound: int

    @property
    def is_now(self) -> bool:
        return self.ahead < self.bound

    @property
    def position(self) -> int:
        """1: the next one."""
        return max(0, self.ahead - self.bound) + 1

    @property
    def is_far(self) -> bool:
        """So many are before it that the engine counted no further."""
        return self.ahead >= COUNTED

    def as_ref(self) -> dict[str, int]:
        """Return it as the row keeps it, in numbers: each reader has them in his language."""
        place = {"far": COUNTED} if self.is_far else {"position": self.position}
        return {"bound": self.bound, **place}

    @property
    def look_again_s(self) -> float:
        """Who is far back looks seldom: those before it wake it (this is the net under that)."""
        return min(LOOK_AGAIN_MAX_S, LOOK_AGAIN_S * (1 + self.ahead / self.bound))


def sentence_of(ref: Mapping[str, int]) -> str:
    """Return in the reader's language what ``Turn.as_ref`` kept."""
    if "far" in ref:
        return _(
            "Waiting for its turn: %(n)d loads of the project run at once; "
            "%(far)d or more are before it."
        ) % {"n": ref["bound"], "far": ref["far"]}
    return _(
        "Waiting for its turn: %(n)d loads of the project run at once; position %(position)d."
    ) % {"n": ref["bound"], "position": ref["position"]}


def bound() -> int:
    return max(1, settings.BERTH_LOADS_PER_PROJECT)


def turn_of(row: Load, *, most: int | None = None) -> Turn:
    """``most``: those before it are counted up to this number."""
    before = Q(asked_at__lt=row.asked_at) | Q(asked_at=row.asked_at, pk__lt=row.pk)
    ahead = Load.objects.filter(ACTIVE, before, project_id=row.project_id)
    return Turn(ahead[:most].count(), bound())


def closing_turn(row: Load) -> Turn:
    """The same among those that give up what they left at a store: a project removes a thousand.

    One that is set aside by the engine holds nobody up.
    """
    before = Q(uploads_at__lt=row.uploads_at) | Q(uploads_at=row.uploads_at, pk__lt=row.pk)
    return Turn(_closing(row.project_id).filter(before).count(), bound())


def closing_in_line(project: Project) -> list[UUID]:
    """Return the first ones of them."""
    rows = _closing(project.pk).order_by("uploads_at", "pk")
    return list(rows.values_list("uid", flat=True)[:REFRESHED])


def _closing(project_id: int) -> QuerySet[Load]:
    return Load.objects.filter(
        project_id=project_id,
        uploads=Uploads.CLOSING,
        deleted_at__isnull=True,
        next_reconcile_at__isnull=False,
    )


def next_in_line(project: Project) -> list[UUID]:
    """Return the first loads of a project that wait."""
    waiting = Load.objects.filter(
        project=project,
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
        phase__in=[Phase.PENDING, Phase.STOPPED, Phase.FAILED],
        result="",
    )
    return list(waiting.order_by("asked_at", "pk").values_list("uid", flat=True)[:REFRESHED])
