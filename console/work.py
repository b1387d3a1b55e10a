"""Work of any kind, as operators see it in the queue and on machines: who waits, why, its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loaders.models import Load
from loaders.services import load_cancel
from loaders.words import message_of
from notebooks.models import Workspace
from work import kinds
from work.services import workload_stop
from work.ui.present import reason_of

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True)
class Ways:
    """How one kind says why it waits, and how it is told to end."""

    model: type[Any]
    reason: Callable[[Any], str]
    end: Callable[..., Any]  # principal=, row=, said=


def ways() -> dict[str, Ways]:
    """Return those of every kind; some say and do it in a way of their own."""
    common = {kind.word: Ways(kind.model, reason_of, workload_stop) for kind in kinds.kinds()}
    return common | {
        Workspace.KIND: Ways(Workspace, lambda row: row.shown_message, workload_stop),
        Load.KIND: Ways(Load, message_of, load_cancel),
    }


def rows_of(asked: Iterable[tuple[str, UUID]]) -> dict[UUID, Any]:
    """Return the rows behind kinds and uids, in one query for each kind that occurs."""
    uids: dict[str, list[UUID]] = {}
    for kind, uid in asked:
        uids.setdefault(kind, []).append(uid)
    known = ways()
    return {
        row.uid: row
        for kind, some in uids.items()
        if kind in known
        for row in known[kind].model.objects.filter(uid__in=some).select_related("owner", "project")
    }
