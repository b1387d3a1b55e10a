"""Where instances of a batch prediction lie and its predictions go, and what is brought for it.

Of a bucket a load brings the instances into a volume. They stay as long as what runs leave does
(``BERTH_OUTPUT_DAYS``), since a try of only the errors reads them again; then they are removed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Invalid, wrong
from common.ids import new_uid
from loaders import policies
from loaders import services as loads
from loaders.choices import Task
from loaders.models import ACTIVE, Load
from runtime.protocol import Desired
from serving.models import CLEARED, BatchPrediction, input_is_gone
from serving.services.sources import BUCKETS, VOLUME
from volumes.choices import VolumeKind
from volumes.selectors import volume_for_use, volumes_mountable
from work.services.base import locked

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.models import QuerySet

    from projects.models import Project
    from volumes.models import Volume

INPUTS = "batch-inputs"  # a folder of a volume
AT_ONCE = 50


@dataclass(frozen=True)
class Place:
    """A folder of a volume, or ``url``: a bucket."""

    volume: Volume | None = None
    folder: str = ""
    url: str = ""


def place_of(who: Principal, project: Project, field: str, text: str, cluster: str) -> Place:
    text = text.strip()
    try:
        if text.startswith(BUCKETS):
            return Place(url=policies.parse_url(text).url)
        folder = policies.clean_folder(text.removeprefix(VOLUME).partition("/")[2])
    except Invalid as error:  # said of a load's own field
        raise wrong(field, error.message) from error
    name = text.removeprefix(VOLUME).partition("/")[0]
    if not text.startswith(VOLUME) or not name:
        raise wrong(field, _("Write it like volume:NAME/FOLDER, gs://… or s3://…."))
    rows = volumes_mountable(who, project, cluster or None).exclude(kind=VolumeKind.HOME)
    found = rows.filter(name=name).first()
    if found is None:
        said = _("There is no volume “%(name)s” beside the model that you may use.")
        raise wrong(field, said % {"name": name[:63]})
    volume = volume_for_use(who, project, found.uid, write=field == "output")
    return Place(volume, folder)


def check_apart(source: Place, target: Place) -> None:
    """What is written must not be read as instances by the next one."""
    if source.volume is None or source.volume != target.volume:
        return
    if f"{target.folder}/".startswith(f"{source.folder}/" if source.folder else ""):
        said = _("The input has this folder in it: write the predictions to another one.")
        raise wrong("output", said)


def bring(who: Principal, project: Project, name: str, url: str, into: Volume, key: str) -> Load:
    """Have a load bring the instances of a bucket. ``name``: of the job; ``key``: a credential."""
    # A name is used again once its job is gone; what was brought for that one lies there still.
    mark = new_uid().hex[-8:]
    wanted = {
        "name": f"{name[:48]}-input-{mark}",
        "url": url,
        "volume": str(into.uid),
        "folder": f"{INPUTS}/{name}-{mark}",
        "credential": key or None,
    }
    try:
        return loads.load_create(principal=who, project=project, said=wanted)
    except Invalid as error:
        if "name" in error.fields:  # made of the job's own
            raise
        field = "credential" if "credential" in error.fields else "input"
        raise wrong(field, error.message) from error


def kept_until(row: BatchPrediction) -> datetime | None:
    """Return until when what was brought for one that is over stays; None: nothing was."""
    ended = row.job.finished_at
    if row.load is None or ended is None:
        return None
    return ended + timedelta(days=settings.BERTH_OUTPUT_DAYS)


def hold_input(load: Load | None) -> None:
    """Raise Conflict where what it brought is gone; else that stays as long as the transaction."""
    if load is not None and input_is_gone(locked(load)):
        text = _("What was brought from the bucket then was removed. Run all of it again.")
        raise Conflict(text, code="input-gone")


def inputs_tidy() -> int:
    """Remove what was brought for those that ended long enough ago, or are gone; then its load.

    The copying program removes it, as the load's owner: only files that are as they were brought.
    Where it could not, it tries again a day later. What can't be removed now holds up no other.
    """
    its = Exists(BatchPrediction.objects.filter(load=OuterRef("pk")))
    here = Load.objects.filter(its, deleted_at=None).exclude(desired=Desired.ABSENT)
    for load in here.filter(task=Task.CLEAR, result__in=CLEARED)[:AT_ONCE]:
        loads.made_drop(load)
    over = here.filter(~ACTIVE, ~Exists(_kept().filter(load=OuterRef("pk"))))
    over = over.filter(project__archived_at=None, owner__is_active=True)
    over = over.exclude(task=Task.CLEAR, asked_at__gt=now() - timedelta(days=1))
    begun = 0
    for load in over.select_related("owner").order_by("pk"):
        with contextlib.suppress(BerthError):  # another time: it only takes room
            begun += clear_unless_kept(load)
        if begun == AT_ONCE:
            break
    return begun


@transaction.atomic
def clear_unless_kept(load: Load) -> bool:
    """Begin to remove what it brought, unless one that was begun meanwhile reads it."""
    locked(load)
    if _kept().filter(load=load).exists():
        return False
    loads.made_start(principal=Principal(user=load.owner), row=load, task=Task.CLEAR)
    return True


def _kept() -> QuerySet[BatchPrediction]:
    """Return those for whom what was brought stays."""
    before = now() - timedelta(days=settings.BERTH_OUTPUT_DAYS)
    return BatchPrediction.objects.filter(job__deleted_at=None).exclude(job__finished_at__lt=before)
