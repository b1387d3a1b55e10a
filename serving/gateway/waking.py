"""An endpoint that sleeps begins again because somebody calls it."""

from __future__ import annotations

import structlog
from django.db import transaction

from accounts.principal import Principal
from common.errors import BerthError
from events import services as events
from runtime.protocol import Desired
from serving.kind import ENDPOINT
from serving.models import Endpoint
from work.choices import StopReason
from work.services.attachments import Attached
from work.services.base import changed, locked, step
from work.services.launch import begin_launch, reserve
from work.services.resolve import Resolved

log = structlog.get_logger(__name__)


def wake(pk: int) -> bool:
    """Start it again as its owner would; False where it does not sleep, or may not start now."""
    try:
        with transaction.atomic():
            row = Endpoint.objects.filter(pk=pk, deleted_at=None).first()
            if row is None:
                return False
            row = locked(row)
            if row.desired != Desired.STOPPED or row.stop_reason != StopReason.ASLEEP:
                return False
            begin_launch(ENDPOINT, row)
            row.desired = Desired.RUNNING
            row.save()
            amounts = Resolved(ENDPOINT, row, Attached(), row.uid).amounts
            reserve(Principal(row.owner), row, amounts)
            step(row, "accepted")
            events.record(
                actor=None, verb="endpoint.called", target=row, project_uid=row.project.uid
            )
            changed(row)
    except BerthError as error:
        log.info("gateway.not_woken", endpoint=pk, reason=str(error))
        return False
    return True
