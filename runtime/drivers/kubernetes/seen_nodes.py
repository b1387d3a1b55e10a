"""What the watch knows of nodes, and of devices that pods of others hold there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runtime.drivers.kubernetes.nodes import facts_of, held_by
from runtime.protocol import NodeChanges, NodeFacts

Key = tuple[str, str]  # namespace, name


class SeenNodes:
    """Not thread-safe: its ``World`` has the lock."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._full = False
        self._others: dict[Key, tuple[str, dict[str, int]]] = {}  # pods with devices
        self._counts_others = False

    def __bool__(self) -> bool:
        return bool(self._facts)

    def known(self) -> Iterable[NodeFacts]:
        """Without what others hold: cheap."""
        return self._facts.values()

    def names(self) -> list[str]:
        return list(self._facts)

    def is_ready(self, name: str) -> bool | None:
        known = self._facts.get(name)
        return None if known is None else known.ready

    def facts(self) -> list[NodeFacts]:
        held = self._held()
        return [self._with(facts, held) for facts in self._facts.values()]

    # --- nodes ----------------------------------------------------------------------------------
    def put(self, obj: Mapping[str, Any]) -> bool:
        """Return whether it became ready or stopped to be so: its pods are judged again."""
        facts = facts_of(obj)
        known = self._facts.get(facts.name)
        if known == facts:
            return False
        self._facts[facts.name] = facts
        self._changed.add(facts.name)
        self._gone.discard(facts.name)
        return known is None or known.ready != facts.ready

    def drop(self, name: str) -> None:
        self._facts.pop(name, None)
        self._changed.discard(name)
        self._gone.add(name)

    def listed(self) -> None:
        self._full = True

    def take(self) -> NodeChanges | None:
        """What changed since the last call."""
        full, changed, gone = self._full, self._changed, self._gone
        self._full, self._changed, self._gone = False, set(), set()
        if full:
            return NodeChanges(seen=tuple(self.facts()), full=True)
        if not changed and not gone:
            return None
        held = self._held()
        seen = tuple(self._with(self._facts[n], held) for n in changed if n in self._facts)
        return NodeChanges(seen=seen, gone=tuple(sorted(gone)))

    # --- pods of others ---------------------------------------------------------------------------
    def put_other(self, key: Key, pod: Mapping[str, Any]) -> None:
        node, devices = held_by(pod)
        self._let(key, (node, devices) if devices else None)

    def drop_other(self, key: Key) -> None:
        self._let(key, None)

    def others(self) -> list[Key]:
        return list(self._others)

    def others_listed(self) -> None:
        """From now on what nobody is seen to hold is known to be free."""
        if not self._counts_others:
            self._counts_others = True
            self._changed |= set(self._facts)

    def _let(self, key: Key, found: tuple[str, dict[str, int]] | None) -> None:
        before = self._others.pop(key, None)
        if found is not None:
            self._others[key] = found
        if before != found:
            self._changed |= {one[0] for one in (before, found) if one} & set(self._facts)

    def _held(self) -> dict[str, Counter[str]] | None:
        if not self._counts_others:
            return None
        sums: dict[str, Counter[str]] = {}
        for node, devices in self._others.values():
            sums.setdefault(node, Counter()).update(devices)
        return sums

    def _with(self, facts: NodeFacts, held: Mapping[str, Counter[str]] | None) -> NodeFacts:
        return replace(facts, held=None if held is None else dict(held.get(facts.name, {})))
