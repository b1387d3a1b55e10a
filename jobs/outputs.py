"""Where what a run leaves goes: the folder that its program writes to, and where that is copied.

The folder lies in a volume, so it outlives pod and process. A bucket gets a copy when the run has
ended, however it ended (``jobs.output_copies``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.options import options_of
from common.errors import Invalid, wrong
from credentials.selectors import credentials_usable
from jobs.models import Job, Run
from loaders import policies
from loaders.services.resolve import find_credential
from volumes.services.create import SHARED
from work.attached import attached_to

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import Cluster
    from credentials.models import Credential
    from projects.models import Project
    from volumes.models import Volume
    from work.attached import Attached, Seen

VOLUME = "volume:"
FOLDER = "job-outputs"  # in a volume, of what is copied elsewhere
_LONGEST = 512  # of a run's folder (``Run.output_folder``)
_LONGEST_BELOW = 64  # in it: the name of the job, its id and the number of the run
_NO_PATH = re.compile(r"[^A-Za-z0-9._-]+")


# --- what may be said ----------------------------------------------------------------------------


def check(row: Job, attached: Attached) -> None:
    """Raise what is wrong with ``output``; which cluster has room for it is asked elsewhere."""
    if row.output_credential and not is_copied(row) and not row.checkpoints_to:
        raise wrong("output_credential", _("Only a bucket is opened by a credential."))
    if not row.output:
        return
    volume_of(row, attached)
    if len(row.output.encode()) + _LONGEST_BELOW > _LONGEST:
        raise wrong("output", _("This name or path is too long."))
    if is_copied(row):
        credential_of(row, attached.credentials)


def is_copied(row: Job) -> bool:
    return bool(row.output) and not row.output.startswith(VOLUME)


def copies(cluster: Cluster) -> bool:
    """Whether anything can be copied from the volumes of a cluster."""
    return not cluster.runs_images or bool(options_of(cluster.options).data_image)


def volume_of(row: Job, attached: Attached) -> Volume | None:
    """Return the volume that its program writes to; None: the project's own, not made yet."""
    writes = [seen for seen in attached.volumes if not seen.read_only]
    found: Seen | None
    if row.output.startswith(VOLUME):
        name = row.output.removeprefix(VOLUME).partition("/")[0]
        if attached.with_shared and name == SHARED:
            return None
        found = next((one for one in writes if one.volume.name == name), None)
        if found is None:
            names = ", ".join(one.volume.name for one in writes) or "-"
            message = _("It is none of the volumes that the job may write to: %(names)s.")
            raise wrong("output", message % {"names": names})
        return found.volume
    if attached.with_shared:
        return None
    writes.sort(key=lambda one: one.volume.name != SHARED)
    if not writes:
        said = _("Its files are kept in a volume until they are copied: give it one to write to.")
        raise wrong("output", said)
    return writes[0].volume


def credential_of(row: Job, attached: Iterable[Credential]) -> Credential:
    """Return what opens the bucket: what was named, else the one of the job's or project's."""
    who = Principal(user=row.owner)
    return credential_for(who, row.project, row.output, row.output_credential, attached)


def credential_for(
    who: Principal, project: Project, url: str, name: str, attached: Iterable[Credential]
) -> Credential:
    try:
        place = policies.parse_url(url)
        found = _credential(who, project, place, name, attached)
        policies.check_bucket(found.kind, place.bucket)
    except Invalid as error:  # said of a load's own field
        raise wrong(
            "output_credential" if "output_credential" in error.fields else "output", error.message
        ) from error
    return found


def _credential(
    who: Principal,
    project: Project,
    place: policies.Place,
    name: str,
    attached: Iterable[Credential],
) -> Credential:
    if name:
        named = find_credential(who, project, name)
        if named is None or named.kind not in place.kinds:
            said = _("“%(name)s” does not open %(scheme)s:// addresses.")
            raise wrong("output_credential", said % {"name": name, "scheme": place.scheme})
        return named
    fits = [one for one in attached if one.kind in place.kinds]
    fits = fits or list(credentials_usable(who, project, place.kinds))
    if len(fits) == 1:
        return fits[0]
    if fits:
        said = _("Say which credential opens the bucket: %(names)s.")
        names = ", ".join(one.name for one in fits)
        raise wrong("output_credential", said % {"names": names})
    said = _("No credential of the project opens %(scheme)s:// addresses: add one first.")
    raise wrong("output", said % {"scheme": place.scheme})


# --- a run ---------------------------------------------------------------------------------------


def planned(row: Job) -> dict[str, Any]:
    """Return the columns of a new run: where its program writes, and where that is copied."""
    if not row.output:
        return {}
    volume = volume_of(row, attached_to(row))
    word = f"{_NO_PATH.sub('-', row.name).strip('-.')[:40] or 'job'}-{row.short_id}"
    below = f"{word}/{row.launch}"
    base = FOLDER if is_copied(row) else row.output.removeprefix(VOLUME).partition("/")[2]
    return {
        "output_volume": volume,
        "output_folder": f"{base}/{below}" if base else below,
        "output_url": f"{row.output.rstrip('/')}/{below}/" if is_copied(row) else "",
    }


def written_to(row: Job) -> str:
    """Return the folder of the run that is on its way, below those of its volumes; "": none."""
    if not row.output or row.smoke_of is not None:
        return ""
    runs = Run.objects.filter(job=row, launch__lte=row.launch).select_related("output_volume")
    run = runs.order_by("-launch").first()
    if run is None or run.output_volume is None:
        return ""
    return f"{run.output_volume.mount_name}/{run.output_folder}"
