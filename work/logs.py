"""What the latest launch of a workload wrote, replica by replica, also after it has ended.

A driver keeps what ran until it is started again or deleted; of a launch that the driver does not
have yet there is nothing, and what it still has of the one before is not told as if it were this.
"""

from __future__ import annotations

from clusters.streams import PART, LogPart, log_read
from runtime.workload_state import ReconcileContext
from work.models import Workload


def launch_log(
    pk: int, launch: int, *, replica: int = 0, offset: int = 0, limit: int = PART
) -> LogPart:
    """Return one part of what a replica wrote. Takes plain values: a stream holds no row."""
    row = Workload.objects.filter(pk=pk, launch=launch, deleted_at__isnull=True).first()
    if row is None or not ReconcileContext(row, row.external_ref).ensured:
        return LogPart(b"", offset, offset)
    return log_read(row.cluster_key, str(row.uid), offset=offset, limit=limit, replica=replica)
