"""What the pages say of a workspace: facts in words, ready for the templates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.clock import now
from hubapi.selectors import idle_state
from notebooks.hub import open_url
from notebooks.models import Workspace
from notebooks.states import info_of
from notebooks.ui.connection_info import OnCluster, on_cluster
from notebooks.ui.home import cards
from parking.selectors import notice_of
from parking.words import follows_words
from quotas import selectors as quotas
from runtime import reasons
from runtime.protocol import Desired, Phase
from runtime.reasons import Reason
from work.image_pull import pull_of
from work.selectors import Access, access_of
from work.ui import present

if TYPE_CHECKING:
    from datetime import datetime

    from accounts.principal import Principal
    from notebooks.ui.home import Card


MAX_ALTERNATIVES = 3
LOOKED_AT = 100  # the next of a kind of GPU is among so many, or not soon
SETTLED = frozenset({Phase.RUNNING, Phase.STOPPED, Phase.FAILED, Phase.DELETED})
# Why a start does not go on: it waits for something that somebody else holds or has to give.
WAITS = frozenset(
    (
        Reason.QUEUED,
        Reason.DOES_NOT_FIT,
        Reason.NO_CAPACITY,
        Reason.NODES_FULL,
        Reason.NO_QUEUE,
        Reason.NO_SUCH_NODE,
        Reason.QUOTA_DENIED,
        Reason.VOLUME,
        Reason.DATA,
        Reason.DATA_MISSING,
        Reason.PREVIOUS_ENDING,
        Reason.UNREACHABLE,
    )
)


OF_THE_IMAGE = frozenset(
    (
        Reason.IMAGE_NOT_FOUND,
        Reason.IMAGE_AUTH,
        Reason.IMAGE_UNREACHABLE,
        Reason.IMAGE_PLATFORM,
    )
)


# What a start goes through, shown ahead of time so that one sees how far it is.
AHEAD = (
    ("accepted", "placed", "starting", "ready", "running"),
    ("accepted", "placed", "scheduled", "starting", "image", "ready", "running"),
)


@dataclass(frozen=True)
class Trouble:
    """Why it failed or stopped: what happened, whose move it is, what to do."""

    text: str
    detail: str
    advice: str
    fault: str
    about_image: bool = False  # it never ran: there is no log, but an image to look at
    pin_is_gone: bool = False  # what its tag means now can be taken by a press


def trouble(row: Workspace) -> Trouble | None:
    """Return why it ended, what is wrong while it runs, or why it does not start or end."""
    if not (row.warning or _is_over(row) or _cannot_start(row) or _cannot_end(row)):
        return None
    info = info_of(row)
    whose = {
        reasons.Fault.USER: _("This is for you to solve."),
        reasons.Fault.PLATFORM: _("This was not your fault."),
        reasons.Fault.NOBODY: "",
    }[info.fault]
    about_image = row.reason in OF_THE_IMAGE
    gone = row.reason == Reason.IMAGE_NOT_FOUND and bool(row.pinned_tag)
    return Trouble(row.why.text, row.why.detail, str(info.advice), whose, about_image, gone)


def _is_over(row: Workspace) -> bool:
    return row.shown_phase in {Phase.FAILED, Phase.STOPPED, Phase.UNKNOWN}


def _cannot_start(row: Workspace) -> bool:
    """Whether there is something to know or to do; a place in the queue is said by itself."""
    if row.shown_phase not in {Phase.PENDING, Phase.STARTING} or not row.is_seen:
        return False
    if "queue" in row.external_ref and row.reason != Reason.DOES_NOT_FIT:
        return False
    info = reasons.info(row.reason)
    return info.fault != reasons.Fault.NOBODY or bool(info.advice)


def _cannot_end(row: Workspace) -> bool:
    return row.shown_phase in {Phase.STOPPING, Phase.DELETING} and row.reason == Reason.HELD


@dataclass(frozen=True)
class Shown(present.Shown):
    """What the state part of a workspace's page needs besides; each is asked by who shows it."""

    access: Access

    @property
    def phase(self) -> Phase:
        return self.row.shown_phase

    @property
    def settled(self) -> bool:
        return self.phase in SETTLED and self.row.is_seen

    @property
    def may_open(self) -> bool:
        return bool(self.access)

    @property
    def url(self) -> str:
        return open_url(self.row) if self.phase == Phase.RUNNING and self.access else ""

    @cached_property
    def pull(self) -> str:
        pull = pull_of(self.row.reason, self.row.external_ref.get("pull"))
        return pull.sentence_so_far if pull else ""

    @cached_property
    def trouble(self) -> Trouble | None:
        return trouble(self.row)

    @cached_property
    def place(self) -> OnCluster | None:
        may_open = self.phase == Phase.RUNNING and self.may_open
        return on_cluster(self.row, is_owner=self.access.owner, may_open=may_open)

    @cached_property
    def next_end(self) -> datetime | None:
        return next_end(self.row)

    @cached_property
    def idle(self) -> str:
        return idle_words(self.row) if self.phase == Phase.RUNNING else ""

    @cached_property
    def alternatives(self) -> list[Card]:
        return alternatives(self.row) if self.may_change else []

    @property
    def is_only_accepted(self) -> bool:
        """Whether it was taken and nothing is known to be in its way."""
        waits = self.position or (self.row.is_seen and self.row.reason in WAITS)
        return self.phase == Phase.PENDING and not waits

    @property
    def says_why(self) -> bool:
        """Whether the head of the page tells why it waits, or how far a start on a cluster is."""
        told = self.trouble is None and (self.place is not None or self.position is not None)
        return told and self.phase in {Phase.PENDING, Phase.STARTING} and not self.pull


def shown(who: Principal, row: Workspace) -> Shown:
    return Shown.of(who, row, access=access_of(who.user, row))


def alternatives(row: Workspace) -> list[Card]:
    """Return the presets that a press would start now while this one waits."""
    found = [card for card in cards(quotas.Account(row.project, row.owner)) if card.starts_now]
    return [card for card in found if card.preset.pk != row.preset_id][:MAX_ALTERNATIVES]


def next_end(row: Workspace) -> datetime | None:
    """Return when something of the kind it waits for must end at the latest, if that is known."""
    running = Workspace.objects.filter(
        cluster_key=row.cluster_key, desired=Desired.RUNNING, ends_at__gt=now()
    )
    if row.gpus:
        running = running.filter(gpus__gt=0)
    wanted = set(row.resources.kinds)
    for other in running.order_by("ends_at")[:LOOKED_AT]:
        kinds = set(other.resources.kinds)
        if not wanted or not kinds or wanted & kinds:
            return other.ends_at
    return None


def idle_words(row: Workspace) -> str:
    """Return what its kernels do, in words; empty when nothing is known."""
    state, notice = idle_state(row.uid), notice_of(row)
    words = state.words if state.known else ""
    if notice is not None and notice.at is not None and not notice.is_told:
        words = f"{words} {follows_words(notice.act, notice.at)}".strip()
    return words
