"""Words for people beside the ids of a report; what is gone keeps the word written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accounts.models import User
from clusters.models import Flavor
from projects.models import Project

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from usage.models import Interval
    from usage.selectors import Report


@dataclass(frozen=True)
class Line:
    """An interval as a page shows it."""

    interval: Interval
    owner: str
    project: str
    flavor: str


def name_all(report: Report, rows: Iterable[Interval]) -> list[Line]:
    """Give the totals of a report their names, and return rows with theirs. Three queries."""
    found = list(rows)
    totals = {row.uid for row in report.people if row.uid is not None}
    owners = people(totals | {row.owner_uid for row in found})
    places = projects(totals | {row.project_uid for row in found})
    kinds = dict(Flavor.objects.values_list("name", "label"))
    either = owners | places
    for total in report.people:
        total.name = either.get(total.uid, "") if total.uid else ""
    for total in report.flavors:
        total.name = kinds.get(total.label, "")
    return [
        Line(
            interval=row,
            owner=owners.get(row.owner_uid, row.owner_name),
            project=places.get(row.project_uid, row.project_slug),
            flavor=kinds.get(row.flavor, row.flavor),
        )
        for row in found
    ]


def people(uids: set[UUID]) -> dict[UUID, str]:
    return {user.uid: user.label for user in User.objects.filter(uid__in=uids)}


def projects(uids: set[UUID]) -> dict[UUID, str]:
    return dict(Project.objects.filter(uid__in=uids).values_list("uid", "name"))
