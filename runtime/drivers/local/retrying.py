"""What is run again when its program ended badly, as its policy says (``RetryPolicy``).

The secrets of a start are kept in memory while attempts are left. A supervisor that starts anew has
them no more: what it finds ended stays so.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runtime.drivers.local import group
from runtime.drivers.local.json_lines import Refused
from runtime.drivers.local.launcher import Secrets
from runtime.drivers.local.users import SystemUser
from runtime.drivers.local.workload import Facts, Workload
from runtime.protocol import RetryPolicy, Seen

_LONGEST_S = 360.0
_NOT_YET_S = 0.2  # the parent of the attempt before goes in a moment


@dataclass
class Retry:
    """The attempts that one launch has left."""

    policy: RetryPolicy
    specs: list[Facts]
    user: SystemUser
    secrets: Secrets
    made: int = 1
    timer: asyncio.TimerHandle | None = None
    find: Callable[[str], Workload | None] = field(default=lambda _uid: None)

    @classmethod
    def of(
        cls,
        specs: list[Facts],
        user: SystemUser,
        secrets: Secrets,
        find: Callable[[str], Workload | None],
    ) -> "Retry | None":
        """None: it is run once."""
        told = specs[0].get("retry")
        if not told or told["attempts"] <= 1:
            return None
        policy = RetryPolicy(
            told["attempts"], told["backoff_s"], tuple(told["on"]), tuple(told["never"])
        )
        return cls(policy, specs, user, secrets, find=find)

    def is_due(self, parts: Sequence[Workload]) -> bool:
        """Whether what these are is not the end: all is over, and badly, and it is tried again."""
        if any(part.seen != Seen.EXITED for part in parts):
            return False
        failed = group.first_failed(parts)
        if failed is None or self.made >= self.policy.attempts:
            return False
        return failed.end.code is None or not self.policy.is_final(failed.end.code)

    def goes_on(self, parts: Sequence[Workload]) -> bool:
        """Set the clock for the next attempt where one is due. False: all is over."""
        if self.timer is None and self.is_due(parts):
            pause = min(self.policy.backoff_s * 2 ** (self.made - 1), _LONGEST_S)
            self.timer = asyncio.get_running_loop().call_later(pause, self._again)
        return self.timer is not None or any(part.seen != Seen.EXITED for part in parts)

    def cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def _again(self) -> None:
        try:
            for spec in self.specs:
                found = self.find(spec["uid"])
                if found is not None and not found.is_alive:
                    found.create(spec, self.user, self.secrets)
        except (Refused, OSError):
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(_NOT_YET_S, self._again)
            return
        self.timer = None
        self.made += 1
