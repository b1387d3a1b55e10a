"""Named places at which a test kills the process, to prove that nothing is lost there.

``BERTH_KILLPOINT=name`` (or ``name#2``, the second time) in the environment arms one; without
it a call costs one comparison.
"""

import os
import signal

_armed, _, _count = os.environ.get("BERTH_KILLPOINT", "").partition("#")
_left = int(_count or 1)

NAMES = (
    "claimed",
    "admitted",
    "volumes-ensured",
    "ensured",
    "route-wanted",
    "routed",
    "stepped",
    "applied",
    "committed",
    "tokens-revoked",
    "route-dropped",
    "stop-asked",
    "released",
    "removed",
)
# On the way of volumes and their snapshots; a workload passes none of them.
VOLUME_NAMES = (
    "volume-ensured",
    "volume-measured",
    "volume-moved",
    "volume-restored",
    "volume-removed",
    "snapshot-made",
    "snapshot-removed",
)


def killpoint(name: str) -> None:
    """Die here by SIGKILL when armed."""
    global _left  # noqa: PLW0603 - one counter per process is the point
    if _armed and name == _armed:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
