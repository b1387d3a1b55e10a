"""Pure rules of limits: which ceiling is hit, and how that is said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.utils.translation import gettext as _

from quotas.choices import is_kind, label_of, order_of, words
from runtime.spec import Resources


class Scope(StrEnum):
    """Whom a limit holds for."""

    PROJECT = "project"
    MEMBER = "member"  # one person in one project
    USER = "user"  # one person in all projects


@dataclass(frozen=True)
class Ceiling:
    """A limit with what is taken of it now (without the workload in question)."""

    resource: str
    scope: Scope
    limit: int
    used: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class Refusal:
    """A ceiling that the asked amount does not fit under."""

    ceiling: Ceiling
    asked: int
    owner: str = ""  # named when somebody else asks for him
    one_of: bool = False  # several kinds were asked for, of which one will be given

    @property
    def whose(self) -> str:
        if self.ceiling.scope == Scope.PROJECT:
            return _("The project's limit")
        if self.owner:
            return _("The limit of %(who)s") % {"who": self.owner}
        if self.ceiling.scope == Scope.MEMBER:
            return _("Your limit in this project")
        return _("Your limit in all projects together")

    @property
    def sentence(self) -> str:
        key = self.ceiling.resource
        said = _("%(whose)s on %(what)s is %(limit)s: %(used)s taken, %(asked)s asked for.") % {
            "whose": self.whose,
            "what": label_of(key),
            "limit": words(key, self.ceiling.limit),
            "used": words(key, self.ceiling.used),
            "asked": words(key, self.asked),
        }
        if not self.one_of:
            return said
        return (
            said
            + " "
            + _("Every kind that may be given is counted: name one whose limit leaves room.")
        )

    @property
    def extra(self) -> dict[str, object]:
        return {
            "resource": self.ceiling.resource,
            "scope": self.ceiling.scope.value,
            "limit": self.ceiling.limit,
            "used": self.ceiling.used,
            "asked": self.asked,
        }


def amounts_of(
    size: Resources, kinds: Iterable[str], *, counts_as: str = "workspaces"
) -> dict[str, int]:
    """Return what a running workload of this size takes of each resource.

    ``kinds``: every kind of GPU that it may get. Each is held, because which one it will be is
    not known yet. ``counts_as``: the limit of which it takes one; "": there is none.
    """
    amounts = {counts_as: 1} if counts_as else {}
    amounts |= {"cpu_milli": size.cpu_milli, "memory_mib": size.memory_mib}
    if size.gpus:
        amounts |= {"gpus": size.gpus, **{f"gpus:{kind}": size.gpus for kind in kinds}}
    return amounts


def refusals(
    asked: Mapping[str, int], held: Mapping[str, int], ceilings: list[Ceiling], *, owner: str = ""
) -> list[Refusal]:
    """Return every ceiling that ``asked`` breaks.

    ``held`` is what the same workload holds already: keeping or lowering it is always
    possible, even above a limit that was lowered meanwhile.
    """
    kinds = {key for key in asked if is_kind(key)}
    found = [
        Refusal(
            ceiling=c,
            asked=asked[c.resource],
            owner=owner,
            one_of=len(kinds) > 1 and c.resource in kinds,
        )
        for c in ceilings
        if asked.get(c.resource, 0) > held.get(c.resource, 0)
        and c.used + asked[c.resource] > c.limit
    ]
    return sorted(found, key=lambda r: order_of(r.ceiling.resource))
