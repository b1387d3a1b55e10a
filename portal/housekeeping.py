"""What is tidied now and then by one worker: safety nets and things that are forgotten."""

import structlog

from credentials import rekey
from credentials.rules import tell_due
from notifications import services as notifications
from projects import idempotency
from quotas import listeners as quotas
from usage import capacity
from volumes import measuring
from volumes.services import create

log = structlog.get_logger(__name__)

EVERY_S = 600.0


def tick() -> None:
    repaired = quotas.repair()
    if repaired:
        log.warning("quota.repaired", workloads=repaired)
    create.shared_volumes_repair()
    measuring.prune_days()
    idempotency.purge()
    notifications.housekeeping()
    tell_due()
    rekey.seal_plain()
    capacity.sample()
