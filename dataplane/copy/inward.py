"""From a store into the folder: listing, copying, and deleting what the store doesn't have."""

from __future__ import annotations

import asyncio

from dataplane.copy import prune
from dataplane.copy.engine import Engine
from dataplane.copy.estimate import Estimate
from dataplane.copy.large import Larges
from dataplane.copy.listing import Lister
from dataplane.copy.problems import Stop
from dataplane.copy.pull import Puller


class Inward:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._larges = Larges(engine)
        puller = Puller(engine, self._larges.take)
        self._larges.puller = puller
        self._estimate = Estimate(engine) if engine.plan.mode == "dry-run" else None
        self._lister = Lister(engine, puller, self._estimate)

    async def find(self) -> None:
        await self._lister.run()

    def tick(self, *, due: bool) -> bool:
        """Save how far large objects are, when that is due or would be much to read again."""
        if not due and self._larges.unsaved() < self._larges.worth_saving:
            return False
        self._larges.tick()
        return True

    async def after(self) -> Stop | None:
        if self._estimate is not None:
            return await self._estimate.result()
        if self._engine.plan.deletes:
            await asyncio.to_thread(prune.prune, self._engine)
        return None

    async def close(self) -> None:
        await self._larges.close()
