"""A router whose table is a dictionary; shared in a file like the fake driver's world."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.ids import new_uid
from runtime.protocol import Unreachable
from runtime.routers.base import RouteEntry
from runtime.store import Store


class FakeRouter:
    """Keeps what was asked; ``down`` makes every verb fail, ``restart`` forgets all routes."""

    def __init__(self, path: Path | None = None) -> None:
        self._store = Store(path)
        self.down = False

    def restart(self) -> None:
        with self._store.open() as world:
            world.clear()
            world["epoch"] = str(new_uid())

    def put(self, entry: RouteEntry) -> None:
        with self._up() as world:
            world.setdefault("routes", {})[entry.key] = [entry.target, entry.uid]

    def drop(self, key: str) -> None:
        with self._up() as world:
            if world.get("routes", {}).pop(key, None) is not None:
                world.setdefault("cuts", []).append([key, None])

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        with self._up() as world:
            world.setdefault("cuts", []).append([key, visitor])
            return 1

    def list(self) -> Mapping[str, RouteEntry]:
        with self._up() as world:
            routes = world.get("routes", {})
            return {k: RouteEntry(key=k, target=t, uid=u) for k, (t, u) in routes.items()}

    def epoch(self) -> str:
        with self._up() as world:
            return str(world.setdefault("epoch", "first"))

    def reach(self, target: str) -> str | None:
        with self._up() as world:
            return str(world.get("unreached", {}).get(target, ""))

    def cuts(self) -> Any:
        """What was cut, as (key, visitor); tests look at it."""
        with self._store.open() as world:
            return [tuple(c) for c in world.get("cuts", [])]

    def _up(self) -> Any:
        if self.down:
            raise Unreachable("The fake proxy does not answer.")
        return self._store.open()
