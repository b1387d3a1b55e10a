"""Presses on a piece of work: to start and stop it, or the verbs of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from common.ui.responses import go
from runtime.protocol import Desired, Phase
from work import services
from work.kinds import kind_of
from work.selectors import may_change, may_end
from work.services.attachments import warning_of_full
from work.ui.base import OneView
from work.ui.pages import Pages, Verb, pages_of

if TYPE_CHECKING:
    from accounts.principal import Principal
    from work.fields import Text


def _usual(pages: Pages) -> tuple[Verb, ...]:
    """Return start and stop, in the words of a kind."""

    def again(who: Principal, row: Any) -> Text:
        here = row.desired != Desired.ABSENT and not row.project.archived_at
        is_over = pages.states.is_over(row) or (row.is_ended and pages.kind.is_resting(row))
        starts = here and is_over and may_change(who, row)
        return pages.again(row) if starts else ""

    def stop(who: Principal, row: Any) -> Text:
        goes_on = row.desired == Desired.RUNNING and not pages.states.is_over(row)
        stops = goes_on or pages.kind.is_resting(row)
        return pages.words.stop if stops and may_end(who, row) else ""

    def park(who: Principal, row: Any) -> Text:
        holds = row.desired == Desired.RUNNING and row.phase == Phase.RUNNING and row.gpus
        return _("Park") if holds and not pages.kind.once and may_end(who, row) else ""

    def plain(who: Principal, row: Any) -> Text:
        return _("Go on without GPUs") if goes_plain(row) and may_change(who, row) else ""

    def regain(who: Principal, row: Any) -> Text:
        wishes = row.wish_gpus and row.desired != Desired.ABSENT and not row.project.archived_at
        return _("Get the GPUs back") if wishes and may_change(who, row) else ""

    start = _("“%(name)s” is starting.")
    return (
        Verb(name="start", icon="player-play", word=again, act=services.workload_start, done=start),
        Verb(
            name="stop",
            icon="player-stop",
            word=stop,
            act=services.workload_stop,
            done=pages.words.stopped,
            ends=True,
            chosen=True,
        ),
        Verb(
            name="park",
            icon="parking",
            word=park,
            act=services.workload_park,
            done=_("“%(name)s” is parked: resume it any time."),
            ends=True,
        ),
        Verb(
            name="plain",
            icon="cpu",
            word=plain,
            act=services.workload_start_plain,
            done=start,
            listed=False,
        ),
        Verb(
            name="regain",
            icon="arrow-back-up",
            word=regain,
            act=services.workload_regain,
            done=_("“%(name)s” asks for its GPUs again."),
            listed=False,
        ),
    )


def goes_plain(row: Any) -> bool:
    """Whether it can go on without the GPUs that it would wait for, or has given back."""
    once, here = kind_of(row.kind).once, row.desired != Desired.ABSENT
    waits = row.is_waiting or row.is_held_back
    goes = here and not once and not row.project.archived_at and (row.is_ended or waits)
    return bool(row.gpus) and goes


def verbs_of(pages: Pages) -> tuple[Verb, ...]:
    return (*(pages.verbs or _usual(pages)), *pages.more_verbs)


@dataclass(frozen=True)
class Shown:
    """A button; ``asks``: it is another's work, and its owner is told why."""

    verb: Verb
    word: Text
    url: str
    asks: bool


def shown_verbs(who: Principal, row: Any, *, listed: bool = False) -> Sequence[Shown]:
    """Return what can be pressed now; ``listed``: in the menu of a list."""
    pages, own = pages_of(row), row.owner_id == who.user.pk
    return [
        Shown(verb, word, pages.address(verb.name, row), asks=verb.ends and not own)
        for verb in verbs_of(pages)
        if (verb.listed or not listed) and (word := verb.word(who, row))
    ]


class Press(OneView):
    """Do it, say so, go back to the page. Works without a script."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    verb: ClassVar[Verb]

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        verb = self.verb
        why = {"said": request.POST.get("reason", "")} if verb.ends else {}
        row = verb.act(principal=self.principal, row=self.row(), **why)
        if not verb.ends and (full := warning_of_full(row)):
            messages.warning(request, full)
        messages.success(request, str(verb.done) % {"name": row.name})
        query = {"open": "1"} if self.pages.open_url and not verb.ends else {}
        return go(request, self.pages.address("detail", row, query=query))


class PressToEnd(Press):
    """The same of what ends it; its owner, or who may manage: services decide."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}
