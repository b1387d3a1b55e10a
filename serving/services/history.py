"""What an endpoint served when, by whom: written with the launch that serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.clock import now
from serving.choices import How
from serving.models import Served
from work import kinds
from work.attached import attached_to
from work.fields import Edit

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from serving.models import Endpoint
    from work.attached import Attached

KEPT = 20  # of one endpoint


def said_of(row: Endpoint) -> dict[str, Any]:
    """Return all for which it would restart, as its document says it; ``env`` is private."""
    own = kinds.kind_of(row.kind).own
    read = own.read(row, private=True)
    fields = {one.name: read[one.name] for one in own if one.edit is Edit.RESTARTS}
    return fields | as_said(attached_to(row))


def as_said(given: Attached) -> dict[str, Any]:
    """Return what is attached as a document says it, by ids."""
    return {
        "volumes": [
            {"volume": str(one.volume.uid), "read_only": one.read_only} for one in given.volumes
        ],
        "credentials": [str(one.uid) for one in given.credentials],
        "needs": [str(one.uid) for one in given.needs],
    }


def served_note(principal: Principal, row: Endpoint) -> None:
    """Keep what a launch serves, where that is something else than before; the row is locked."""
    said = said_of(row)
    env = said.pop("env")
    last = served_by(row).first()
    if last is not None and (last.said, last.env, last.image_digest) == (
        *(said, env),
        row.image_digest,
    ):
        return
    how = How.EDITED if last is not None else How.DEPLOYED
    if row.promoting:
        how = How.ROLLED_BACK if row.rolls_back else How.PROMOTED
    by = row.promoted_by if row.promoting else principal.user
    _keep(row, said, env, how=how, by=by, at=now())
    old = list(served_by(row).values_list("pk", flat=True)[KEPT:])
    Served.objects.filter(pk__in=old).delete()


def served_first(row: Endpoint) -> None:
    """Keep what it serves before it is changed, where nothing was: it is older than its history."""
    if row.canary_of_id is None and not Served.objects.filter(endpoint=row).exists():
        said = said_of(row)
        env, at = said.pop("env"), row.asked_at or row.created_at
        _keep(row, said, env, how=How.DEPLOYED, by=row.owner, at=at)


def _keep(
    row: Endpoint,
    said: dict[str, Any],
    env: dict[str, str],
    *,
    how: How,
    by: User | None,
    at: datetime,
) -> None:
    Served.objects.create(
        endpoint=row,
        launch=row.launch,
        serves=row.model or row.image or row.name,
        image_digest=row.image_digest,
        said=said,
        env=env,
        how=how,
        by=by,
        at=at,
    )


def served_by(row: Endpoint) -> QuerySet[Served]:
    """Return it, the newest first."""
    return Served.objects.filter(endpoint=row).select_related("by").order_by("-pk")


def served_before(row: Endpoint) -> Served | None:
    """Return what it served before what it serves now; None: nothing else yet."""
    return served_by(row)[1:2].first()
