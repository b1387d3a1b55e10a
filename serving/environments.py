"""The environments of this machine's model servers: made when something first needs one.

Who waits for one says so by a file, and the manager of this machine, which may write there, has it
made (``portal.server.environments``).
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _

from common.making import making_file, told, wanted_file
from runtime.reasons import Reason
from serving.runtimes import RUNTIMES

if TYPE_CHECKING:
    from projects.models import Project
    from work.models import Workload

SIZES_MIB = {one.environment: one.environment_mib for one in RUNTIMES if one.environment}


def offered_apart(_project: Project) -> list[str]:
    """Return the environments of one machine that have a model server."""
    return list(SIZES_MIB)


def is_there(name: str) -> bool:
    """Whether it is on this machine; a driver that runs nothing needs none."""
    is_real = settings.BERTH_LOCAL_DRIVER == "local"
    return not is_real or (settings.BERTH_ENVIRONMENTS_DIR / name).exists()


def is_of_before(name: str) -> bool:
    """Whether the one that is there is of another version of Berth, as after an upgrade."""
    if settings.BERTH_LOCAL_DRIVER != "local" or not is_there(name):
        return False
    file, made_of = _made_of(name)
    try:
        return (settings.BERTH_ENVIRONMENTS_DIR / name / file).read_text() != made_of
    except OSError:
        return True  # made before there was that file


@cache
def _made_of(name: str) -> tuple[str, str]:
    from tools import setup_steps  # the image of the portal has none, and makes none

    return setup_steps.MADE_OF, setup_steps.serving_made_of(name)


def waits(name: str, job: Workload | None = None) -> tuple[str, str] | None:
    """Return reason and sentence of why what runs in it can't begin yet; None: it can.

    Asked by what waits, again and again; so long it is wanted. One of before is made anew
    meanwhile, and serves on. A ``job`` waits for the new one: it may read Parquet, which that of
    before may not know. Where the new one can't be made, only one waits that says Parquet.
    """
    if name not in SIZES_MIB:
        return None
    may_begin = is_there(name)
    if may_begin and not is_of_before(name):
        return None
    with contextlib.suppress(OSError):  # no manager here, and no such folder
        wanted_file(settings.BERTH_VAR, name).touch(mode=0o600)
    making = told(making_file(settings.BERTH_ENVIRONMENTS_DIR, name))
    if may_begin and (job is None or (making.problem and not _says_parquet(job))):
        return None
    numbers = {"done": making.mib, "of": SIZES_MIB[name]}
    if not making.problem:
        said = _("The model server of this machine is being made: %(done)d of about %(of)d MiB.")
        return Reason.ENVIRONMENT, said % numbers
    if making.problem == "disk":
        said = _("The disk is full: the model server takes %(of)d MiB.") % numbers
    elif making.problem == "network":
        said = _("This machine does not reach the index that it has Python packages from.")
    else:
        said = _("The packages of the model server could not be installed.")
    return Reason.ENVIRONMENT_MISSING, said


def waits_job(row: Workload) -> tuple[str, str] | None:
    """Return the same of what runs in the environment that it names."""
    return waits(str(getattr(row, "environment", "")), row)


def _says_parquet(job: Workload) -> bool:
    return any(str(word).endswith("parquet") for word in getattr(job, "args", ()))
