"""A batch prediction as a document says it: begun once, whatever applies it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict, Invalid
from serving import selectors
from serving.models import BatchPrediction
from serving.services.batch import SAID, batch_create

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

FIELDS = (*(name for name in SAID if name != "name"), "input", "output")


@dataclass(frozen=True)
class Applied:
    """What a document came to, or would come to; ``row`` None: nothing was begun."""

    action: str  # create, none
    row: BatchPrediction | None
    refusal: str = ""


def batch_apply(
    *, principal: Principal, project: Project, said: Mapping[str, Any], plan: bool = False
) -> Applied:
    """Begin it unless its name is there; ``plan``: say what would happen."""
    rows = selectors.predictions_visible_to(principal, project)
    row = rows.filter(job__name=said["name"]).first()
    if row is not None:
        before = row.again
        if any((said.get(name) or None) != (before.get(name) or None) for name in FIELDS):
            text = _("It has begun, and can't be changed: give another name.")
            raise Conflict(text, code="name-taken")
        return Applied("none", row)
    if not plan:
        return Applied("create", batch_create(principal=principal, project=project, said=said))
    try:
        with transaction.atomic():  # all that it does is rows: what would be is tried
            batch_create(principal=principal, project=project, said=said)
            transaction.set_rollback(True)
    except Invalid:
        raise
    except BerthError as error:
        return Applied("create", None, error.message)
    return Applied("create", None)
