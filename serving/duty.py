"""What is done for endpoints every two seconds, by one worker at a time."""

from __future__ import annotations

import structlog
from django.db import InterfaceError, OperationalError

from serving.services import Scaler, canaries_step, endpoints_sleep

log = structlog.get_logger(__name__)

EVERY_S = 2.0


class Turns:
    """One after the other, and none keeps the next from its turn; each asks a constant number of
    questions.
    """

    def __init__(self) -> None:
        self._turns = (Scaler().tick, canaries_step, endpoints_sleep)

    def tick(self) -> None:
        for turn in self._turns:
            try:
                turn()
            except (InterfaceError, OperationalError):  # the database is away: none can work
                raise
            except Exception:
                log.exception("endpoints.turn_failed", turn=turn.__qualname__)
