"""What every write to a workload shares: right, lock, timeline, wake-up, news."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Forbidden, Invalid
from projects.access import denial, require
from runtime.bus import publish
from runtime.hints import hint, wake
from runtime.protocol import Desired
from work import kinds, needs, selectors
from work.models import Step

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload


def own(principal: Principal, row: Workload) -> None:
    """Raise unless ``principal`` may change it: who owns it and may have such work."""
    kind = kinds.kind_of(row.kind)
    require(principal, row.project, kind.read)
    _require_shown(kind, row)
    if not kind.managed and not selectors.is_owner(principal, row):
        raise Forbidden(_("Only its owner may do this."))
    require(principal, row.project, kind.create)
    if not selectors.may_change(principal, row):
        raise Forbidden(denial(kind.manage))


def require_end(principal: Principal, row: Workload) -> None:
    kind = kinds.kind_of(row.kind)
    require(principal, row.project, kind.read)
    if not kind.ends_hidden:
        _require_shown(kind, row)
    if not selectors.may_end(principal, row):
        raise Forbidden(denial(kind.manage))


def _require_shown(kind: Kind, row: Workload) -> None:
    if kind.hidden is not None and kind.model.objects.filter(kind.hidden, pk=row.pk).exists():
        raise Forbidden(_("It belongs to another one: change that."))


def require_startable(principal: Principal, project: Project, kind: Kind) -> None:
    """Raise unless ``principal`` may start something in ``project`` now."""
    require(principal, project, kind.create)
    if project.archived_at is not None or project.desired == Desired.ABSENT:
        raise Conflict(
            _("The project is archived: nothing new starts in it."), code="project-archived"
        )


def locked(row: Workload) -> Any:
    """Return the row of its kind as it is now, locked."""
    kind = kinds.kind_of(row.kind)
    rows = kind.model.objects.select_for_update(of=("self",))
    return rows.select_related("project", "owner", *kind.related).get(pk=row.pk)


def lock(row: Workload) -> Any:
    """Return the same; Conflict when it is being deleted."""
    found = locked(row)
    if found.desired == Desired.ABSENT or found.deleted_at is not None:
        raise Conflict(_("It is being deleted."), code="deleting")
    return found


def require_free(project: Project, owner: User, kind: Kind, name: str) -> None:
    """Raise Invalid where the name is taken."""
    if name in selectors.names_taken(project, owner, kind):
        message = name_taken(kind)
        raise Invalid(message, code="name-taken", fields={"name": [message]})


def name_taken(kind: Kind) -> str:
    if kind.taken:
        return str(kind.taken)
    if kind.model.NAMES_PER_OWNER:
        return _("You already use this name in this project.")
    return _("This name is taken in this project.")


def step(row: Workload, word: str, message: str = "") -> None:
    if kinds.kind_of(row.kind).timeline:
        said = message[:300]
        Step.objects.create(workload=row, launch=row.launch, word=word, at=now(), message=said)


def topics(row: Workload) -> list[str]:
    return [
        f"{row.kind}:{row.uid}",
        f"project:{row.project.uid}",
        f"user:{row.owner.uid}",
        "operators",
    ]


def changed(row: Workload, *, is_new: bool = False) -> None:
    """Wake the engine and tell open pages, both after commit; and what waits for it."""
    if needs.is_needable(row.kind):
        needs.changed([row.uid])
    wake(row) if is_new else hint(row)
    publish(topics(row), {"kind": row.kind, "id": row.short_id, "uid": str(row.uid)})
