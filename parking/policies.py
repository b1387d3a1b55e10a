"""Which policy holds for a piece of work."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parking.choices import State
from parking.models import IdlePolicy
from queues.models import Queue
from work import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from work.kinds import Kind

PLATFORM = ("", 0)
PROJECT, ORGANISATION = "project", "organisation"
Scope = tuple[str, int]


@dataclass(frozen=True)
class Policies:
    """All that are not off, and the tree of organisations. Two queries."""

    by_scope: Mapping[tuple[Scope, str], IdlePolicy]
    parents: Mapping[int, int | None] = field(default_factory=dict)  # of queues
    queue_of: Mapping[int, int] = field(default_factory=dict)  # of projects

    @classmethod
    def now(cls) -> Policies:
        return cls.of(*IdlePolicy.objects.exclude(state=State.OFF))

    @classmethod
    def of(cls, *policies: IdlePolicy) -> Policies:
        """Return the same of some policies, as if there were no others."""
        rows = list(Queue.objects.values_list("pk", "parent_id", "project_id")) if policies else []
        return cls(
            {(scope_of(one), one.kind): one for one in policies},
            {pk: parent for pk, parent, _project in rows},
            {project: pk for pk, _parent, project in rows if project},
        )

    def classes_of(self, work: Mapping[UUID, str]) -> dict[UUID, str]:
        """Return the class of work whose kind has several, where a policy names one; ``work`` says
        the kind of each.
        """
        found: dict[UUID, str] = {}
        named = {word for _scope, word in self.by_scope}
        for kind in kinds.kinds():
            if named & kind.classes.keys():
                found |= kind.classes_of([uid for uid, word in work.items() if word == kind.word])
        return found

    def holding(self, project: int, kind: str, work_class: str = "") -> IdlePolicy | None:
        """Return the nearest policy; of two that are as near the one that names it more exactly.
        What runs to its end is reached by its own word only.
        """
        words = [kind] if kinds.kind_of(kind).once else [kind, ""]
        words[:0] = [work_class] if work_class else []
        for scope in self._scopes(project):
            for word in words:
                if found := self.by_scope.get((scope, word)):
                    return found
        return None

    def _scopes(self, project: int) -> Iterator[Scope]:
        yield PROJECT, project
        above, seen = self.queue_of.get(project), set[int]()
        while above is not None and above not in seen:  # a circle ends where it began
            seen.add(above)
            yield ORGANISATION, above
            above = self.parents.get(above)
        yield PLATFORM


def scope_of(policy: IdlePolicy) -> Scope:
    if policy.project_id is not None:
        return PROJECT, policy.project_id
    if policy.organisation_id is not None:
        return ORGANISATION, policy.organisation_id
    return PLATFORM


def projects_below(policy: IdlePolicy) -> set[int] | None:
    """Return the projects that a policy may reach; None: all. One query at most."""
    if policy.project_id is not None:
        return {policy.project_id}
    if policy.organisation_id is None:
        return None
    below = defaultdict(list)
    projects: dict[int, int] = {}
    for pk, parent, project in Queue.objects.values_list("pk", "parent_id", "project_id"):
        below[parent].append(pk)
        if project:
            projects[pk] = project
    found, left, seen = set(), [policy.organisation_id], set[int]()
    while left:
        pk = left.pop()
        if pk in seen:
            continue
        seen.add(pk)
        left += below[pk]
        if pk in projects:
            found.add(projects[pk])
    return found


def kind_named(word: str) -> Kind | None:
    """Return the kind of work whose word, or one of whose classes, a policy names."""
    return next((one for one in kinds.kinds() if word == one.word or word in one.classes), None)
