"""Named places (``supervisor-…``) at which a test may have the supervisor die by SIGKILL."""

import os
import signal


def killpoint(name: str) -> None:
    if os.environ.get("BERTH_KILLPOINT") == f"supervisor-{name}":
        os.kill(os.getpid(), signal.SIGKILL)
