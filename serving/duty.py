"""What is done for endpoints every two seconds, by one worker at a time."""

from __future__ import annotations

from serving.services import Scaler, canaries_step, endpoints_sleep

EVERY_S = 2.0


class Turns:
    """One after the other; each asks a constant number of questions."""

    def __init__(self) -> None:
        self._scaler = Scaler()

    def tick(self) -> None:
        self._scaler.tick()
        canaries_step()
        endpoints_sleep()
