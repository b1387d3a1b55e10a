"""What is tidied now and then by one worker: safety nets and things that are forgotten."""

import structlog

from notifications import services as notifications
from projects import idempotency
from quotas import listeners as quotas

log = structlog.get_logger(__name__)

EVERY_S = 600.0


def tick() -> None:
    repaired = quotas.repair()
    if repaired:
        log.warning("quota.repaired", workloads=repaired)
    idempotency.purge()
    notifications.housekeeping()
