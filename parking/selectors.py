"""Reading policies, and what somebody is to know of idle work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import NotFound
from parking import words
from parking.choices import State
from parking.hooks import own_rules
from parking.models import IdlePolicy, Stretch
from runtime.protocol import Desired
from work import kinds
from work.models import Workload

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from parking.judgement import Rule


def policies() -> QuerySet[IdlePolicy]:
    rows = IdlePolicy.objects.select_related("project", "organisation")
    return rows.order_by("project__name", "organisation__name", "kind", "id")


def policy_get(uid: UUID) -> IdlePolicy:
    row = policies().filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such policy."))
    return row


def rule_of(row: Workload, stretch: Stretch) -> Rule | None:
    """Return the rule by which a stretch goes on; None: there is none any more."""
    if stretch.policy_id is not None:
        policy = IdlePolicy.objects.filter(pk=stretch.policy_id).first()
        return policy.rule if policy else None
    return next((rules[row.pk] for rules in own_rules() if row.pk in rules), None)


@dataclass(frozen=True)
class Notice:
    """What an owner knows of idle work: since when, what follows when, and how it is put off.

    ``is_told``: its owner was warned. ``minutes`` 0: it can't be put off.
    """

    since: datetime
    act: str
    at: datetime | None
    is_told: bool
    minutes: int
    asks_why: bool

    @property
    def sentence(self) -> str:
        said = [words.idle_words(self.since)]
        if self.at is not None and (follows := words.follows_words(self.act, self.at)):
            said.append(follows)
        return " ".join(said)


def notice_of(row: Any) -> Notice | None:
    """Return what follows for one piece of work; None: nothing does. At most three queries."""
    if row.desired != Desired.RUNNING:
        return None
    stretch = Stretch.objects.select_related("policy").filter(workload_id=row.pk).first()
    if stretch is None or stretch.launch != row.launch:
        return None
    return notice_in(stretch, own=rule_of(row, stretch) if stretch.policy_id is None else None)


def notice_in(stretch: Stretch | None, own: Rule | None = None) -> Notice | None:
    """Return the same of a stretch; a dry run touches nobody, and tells nobody."""
    if stretch is None:
        return None
    if stretch.policy is not None:
        rule = stretch.policy.rule if stretch.policy.state == State.ON else None
    else:
        rule = own
    if rule is None:
        return None
    return Notice(
        since=stretch.since,
        act=rule.act,
        at=stretch.due_at,
        is_told=stretch.warned_at is not None,
        minutes=rule.extension,
        asks_why=stretch.extensions >= rule.extensions,
    )


def address_of(row: Workload) -> str:
    """Return the page of a row of any kind, without its kind's own table."""
    kind = kinds.kind_of(row.kind)
    shown = kind.model(project=row.project, pk=row.pk, uid=row.uid, short_id=row.short_id)
    return str(shown.get_absolute_url())
