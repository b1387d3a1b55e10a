"""How a program gets the code that goes along with it: it asks the portal, once, at its start.

Code in a volume is there: it begins in that folder.

A few lines of Python fetch the package from the listener for workloads, with a token of this
launch, and unpack it into a folder. Where the program is one of Python they become it, in a process
and in a pod alike. Of any other in a pod the image may have no Python: there the image for data
runs them first.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from common.errors import Conflict, Forbidden, NotFound
from hubapi import services
from hubapi.api import hub_api
from jobs.fetching import package_of
from jobs.models import Job, Package
from jobs.packages import PREFIX
from jobs.sources import in_volume
from runtime import training
from runtime.protocol import Desired
from runtime.spec import Brought

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from clusters.options import ClusterOptions

PURPOSE = "job-code"  # of the derived token
_SECRET = "BERTH_CODE_TOKEN"  # noqa: S105 - the name of a variable
_PYTHONS = ("python", "python3")
_TOKEN = re.compile(r"\ABearer ([A-Za-z0-9_-]{43})\Z")

# Also for the Python of an old image. Its first word is the digest; ``folder`` is where it goes.
_FETCH = """
import hashlib, os, sys, tarfile, tempfile, time
from urllib import request
from urllib.error import HTTPError
url, wanted = os.environ.pop("BERTH_CODE_URL"), sys.argv[1]
token = os.environ.pop("BERTH_CODE_TOKEN")
straight = request.build_opener(request.ProxyHandler({}))
for pause in (1, 2, 4, 8, 16, 0):
    try:
        asked = request.Request(url, headers={"Authorization": "Bearer " + token})
        with straight.open(asked, timeout=60) as answer, tempfile.TemporaryFile() as held:
            digest = hashlib.sha256()
            for data in iter(lambda: answer.read(1 << 20), b""):
                digest.update(data)
                held.write(data)
            if digest.hexdigest() != wanted:
                raise OSError("it came incomplete")
            held.seek(0)
            with tarfile.open(fileobj=held, mode="r:gz") as tar:
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                tar.extractall(folder, **safe)
        break
    except OSError as error:
        if not pause or isinstance(error, HTTPError) and error.code < 500:
            sys.exit("Its code could not be fetched from the portal: %s" % error)
        time.sleep(pause)
"""
_OWN_FOLDER = 'import tempfile\nfolder = tempfile.mkdtemp(prefix="code-")\n'
_BEGIN = _OWN_FOLDER + _FETCH
_BEGIN += """
os.chdir(folder)
os.environ["BERTH_CODE"] = folder
path = os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = folder + (os.pathsep + path if path else "")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write("%s: %s\\n" % (sys.argv[2], error.strerror))
    sys.exit(127)
"""
_BRING = "import sys\nfolder = sys.argv[2]\n" + _FETCH

_IN_VOLUME = (
    'cd -- "$BERTH_VOLUMES/$0" || exit 66; BERTH_CODE=$PWD; '
    'PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}; export BERTH_CODE PYTHONPATH; exec "$@"'
)


def with_code(row: Job, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of what is run, which begin in the folder of its code, if it has some."""
    if folder := in_volume(row.code):
        return ("sh", "-c", _IN_VOLUME, folder, *words)
    if not row.code:
        return tuple(words)
    return ("python3", "-c", _BEGIN, package_of(row).removeprefix(PREFIX), *words)


def is_fetched(row: Job) -> bool:
    """Whether its code comes from the portal."""
    return bool(row.code) and not in_volume(row.code)


def is_brought(row: Job, options: ClusterOptions | None) -> bool:
    """Whether its pod brings it before the program starts, whose image may have no Python.

    What runs Python fetches it by itself, and each slot of MPI does.
    """
    if options is None or not options.data_image or not is_fetched(row):
        return False
    runs_python = row.script or row.smoke_of or PurePosixPath(row.command[0]).name in _PYTHONS
    return not runs_python and row.framework != training.MPI


def brought(row: Job, options: ClusterOptions) -> Brought | None:
    """Return how its pod brings it."""
    if not is_brought(row, options):
        return None
    digest = package_of(row).removeprefix(PREFIX)
    return Brought(("python3", "-c", _BRING, digest), _url(row, options.hub_url), _SECRET)


def environment(row: Job, options: ClusterOptions | None) -> dict[str, str]:
    if not is_fetched(row) or is_brought(row, options):
        return {}
    return _url(row, options.hub_url if options else "")


def _url(row: Job, hub_url: str) -> dict[str, str]:
    base = (hub_url or settings.BERTH_INTERNAL_URL).rstrip("/")
    return {"BERTH_CODE_URL": f"{base}/hub/api/berth/jobs/{row.uid}/code"}


def secrets(row: Job) -> dict[str, str]:
    if not is_fetched(row):
        return {}
    return {_SECRET: services.derive(PURPOSE, row.uid, row.launch)}


def launch_of(request: HttpRequest, job: UUID, purpose: str) -> int:
    """Return the latest launch of a job, whose token for ``purpose`` the request must carry."""
    if request.META.get("SERVER_PORT") != str(settings.BERTH_INTERNAL_PORT):
        raise NotFound("There is nothing here.")
    match = _TOKEN.match(request.headers.get("Authorization", ""))
    launch = Job.objects.filter(uid=job).values_list("launch", flat=True).first() or 1
    # A stranger learns nothing, whether the job exists or not.
    if match is None or not services.matches(purpose, job, launch, match[1]):
        raise Forbidden("This token is not valid here.")
    return launch


@hub_api("GET")
def code(request: HttpRequest, job: UUID) -> HttpResponse:
    """Give the launch whose token comes the package that it is run with."""
    launch = launch_of(request, job, PURPOSE)
    rows = Job.objects.filter(uid=job, launch=launch, deleted_at__isnull=True, code__gt="")
    row = rows.exclude(desired=Desired.ABSENT).first()
    if row is None:
        raise Conflict("There is a newer launch, or none.")
    wanted = Package.objects.filter(
        project=row.project_id, sha256=package_of(row).removeprefix(PREFIX)
    ).first()
    if wanted is None:
        raise NotFound("Its package is gone.")
    return HttpResponse(bytes(wanted.content), content_type="application/gzip")
