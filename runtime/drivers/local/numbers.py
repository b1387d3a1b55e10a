"""Numbers of system users and groups: each belongs to one name and is never given twice."""

import asyncio
import contextlib
import json
from pathlib import Path

from runtime.drivers.local.json_lines import Refused
from runtime.drivers.local.records import write_atomic

_TRIES = 10


class Numbers:
    """Finds or makes the number of a name. A subclass knows one of the machine's lists."""

    first: int
    last: int

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._known: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError):
            self._known = json.loads(path.read_text())

    # -- the machine's list --------------------------------------------------------------

    def existing(self, name: str) -> int | None:
        """Return the number the machine's list has for ``name``."""
        raise NotImplementedError

    def holder(self, number: int) -> str | None:
        """Return who has ``number`` in the machine's list."""
        raise NotImplementedError

    def used(self) -> list[int]:
        raise NotImplementedError

    def commands(self, name: str, number: int) -> tuple[tuple[str, ...], ...]:
        """Return what enters it in the list. Where that fails only the name is missing."""
        raise NotImplementedError

    # -- what is common --------------------------------------------------------------------

    async def number(self, name: str) -> int:
        async with self._lock:
            for _ in range(_TRIES):
                if name not in self._known:
                    self._remember(name, self._in_range(self.existing(name)) or self._next())
                number = self._known[name]
                if self._in_range(self.existing(name)) is None:
                    await _run(self.commands(name, number))
                if self.holder(number) in (name, None):
                    return number
                # Another supervisor of this machine was quicker: never share a number.
                self._remember(name, self._next())
        raise Refused("error", "no system user could be made", reason="start-failed")

    def _in_range(self, number: int | None) -> int | None:
        return number if number is not None and self.first <= number <= self.last else None

    def _remember(self, name: str, number: int) -> None:
        """Written before it is made: a number that may be in use is never reused."""
        self._known[name] = number
        write_atomic(self._path, json.dumps(self._known))

    def _next(self) -> int:
        used = [number for number in self.used() if self._in_range(number)]
        return max([*used, *self._known.values(), self.first - 1]) + 1


async def _run(commands: tuple[tuple[str, ...], ...]) -> None:
    for command in commands:
        with contextlib.suppress(OSError):
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
            await process.wait()
