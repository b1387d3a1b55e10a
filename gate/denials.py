"""Who was refused at the gate is recorded, as by the portal (projects.middleware)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from accounts.services.sessions import record_denied
from common.errors import BerthError, Forbidden, NotFound
from common.streams import look
from gate.callers import Caller, principal_of
from gate.db import later

T = TypeVar("T")


async def admitted(caller: Caller, what: str, name: str, question: Callable[[], T]) -> T:
    """Return what ``question`` answers; where it says no, that is recorded and raised.

    ``what`` he wanted (terminal, files …) of the workspace or volume ``name``.
    """
    try:
        return await look(question)
    except (Forbidden, NotFound) as error:
        later(f"denied {caller.user_pk} {what} {name}", partial(_record, caller, what, name, error))
        raise


def _record(caller: Caller, what: str, name: str, error: BerthError) -> None:
    with suppress(BerthError):  # signed out meanwhile: then nobody was refused
        record_denied(
            verb="access.forbidden" if isinstance(error, Forbidden) else "access.not-found",
            ip=caller.ip,
            who=principal_of(caller),
            message=error.message[:300],
            data={"route": f"gate/{what}", "id": name[:80]},
        )
