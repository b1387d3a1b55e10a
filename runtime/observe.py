"""What was seen: the table that ``watch`` keeps and the engine reads."""

from common.clock import now
from runtime.models import Lease


def is_watched(cluster_key: str) -> bool:
    """Whether somebody watches the cluster now, so that changes wake the engine."""
    return Lease.objects.filter(name=f"watch:{cluster_key}", until__gt=now()).exists()
