"""Who may ask an endpoint for a batch prediction: its job, with a secret of each launch.

Nothing is kept: secret and digest follow from the job and the number of its launch. What it may do
is what its owner may do then, at this one endpoint; it ends when the job does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F

from accounts.services.tokens import digest_of
from hubapi.services import candidates, derive
from projects.access import ROLE_PERMISSIONS, Permission
from runtime.protocol import Desired
from serving.gateway.table import Principal
from serving.models import BatchPrediction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.db.models import QuerySet

    from jobs.models import Job

VARIABLE = "BERTH_ENDPOINT_KEY"
CALLER = "b"  # and the number of the batch prediction
_PURPOSE = "batch-endpoint"
_CALLERS = [role for role, may in ROLE_PERMISSIONS.items() if Permission.ENDPOINT_CALL in may]


def secrets_of(job: Job) -> Mapping[str, str]:
    """Return what the program of this launch calls its endpoint with; {}: it calls none."""
    asks = BatchPrediction.objects.filter(job=job, endpoint__isnull=False)
    return {VARIABLE: derive(_PURPOSE, job.uid, job.launch)} if asks.exists() else {}


def live() -> QuerySet[BatchPrediction]:
    """Return those whose jobs may call now, by rights that their owners have."""
    return BatchPrediction.objects.filter(
        endpoint__deleted_at=None,
        endpoint__isnull=False,
        project__archived_at=None,
        job__deleted_at=None,
        job__desired=Desired.RUNNING,
        job__finished_at=None,
        job__owner__is_active=True,
        job__owner__memberships__project=F("project"),
        job__owner__memberships__role__in=_CALLERS,
    ).order_by("pk")


def principals() -> Iterator[tuple[str, Principal]]:
    """Return each by the SHA-256 of its secret, also under keys of the portal that were rotated."""
    for row in live().select_related("job"):
        word = f"{CALLER}{row.pk}"
        who = Principal(word, word, endpoints=frozenset({str(row.endpoint_id)}))
        for secret in candidates(_PURPOSE, row.job.uid, row.job.launch):
            yield digest_of(secret), who
