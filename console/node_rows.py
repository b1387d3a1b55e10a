"""Rows of the table of nodes: where that can be, only those of the page are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_tables2.data import TableQuerysetData
from django_tables2.utils import OrderByTuple

from clusters.device_use import node_uses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet

    from clusters.device_use import NodeUse
    from clusters.models import Cluster, Node

_NODE = "node__"
_COLUMNS = frozenset(("name", "ready", "cpu_milli", "memory_mib"))


class NodeRows:
    """What a table asks of a queryset, with ``NodeUse`` as rows.

    All nodes are judged only where what is held of them chooses or orders them.
    """

    def __init__(
        self,
        cluster: Cluster,
        nodes: QuerySet[Node],
        keep: Callable[[NodeUse], bool] | None = None,
    ) -> None:
        self._cluster, self._nodes = cluster, nodes
        self._judged: list[NodeUse] | None = None
        if keep is not None:
            self._judged = [use for use in self._all() if keep(use)]

    def _all(self) -> list[NodeUse]:
        if self._judged is None:
            self._judged = node_uses(self._cluster, self._nodes)
        return self._judged

    def count(self) -> int:
        return self._nodes.count() if self._judged is None else len(self._judged)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[NodeUse]:
        return iter(self._all())

    def __getitem__(self, part: slice) -> list[NodeUse]:
        if self._judged is not None:
            return self._judged[part]
        return node_uses(self._cluster, self._nodes[part])

    def order_by(self, *names: str) -> NodeRows:
        """Return them in another order; by the database where its columns say it."""
        made = NodeRows(self._cluster, self._nodes)
        fields = [_column(name) for name in names]
        if self._judged is None and all(fields):
            made._nodes = self._nodes.order_by(*fields, "name", "id")
        else:
            made._judged = sorted(self._all(), key=OrderByTuple(names).key)
        return made


class NodeData(TableQuerysetData):
    """They come in the order of their names; no column is marked as the one that says so."""

    ordering = None


def _column(name: str) -> str:
    """Return the node's column that ``name`` sorts by, with its sign; '' where none does."""
    column = name.removeprefix("-").removeprefix(_NODE)
    return name.replace(_NODE, "", 1) if _NODE in name and column in _COLUMNS else ""
