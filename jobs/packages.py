"""Code that goes along with jobs: a folder packed as tar.gz, kept once in its project.

What is kept was read to its end: only files and folders that stay inside the folder they are
unpacked in, no more of them, and no larger, than a web process and a job can bear.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tempfile
import zlib
from datetime import timedelta
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Sum, TextField, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Concat
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, TooLarge, wrong
from jobs.models import Job, Package, Run
from jobs.sources import PACKAGE as PREFIX
from projects.services.life import require_active

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project

MAX_UNPACKED = 512 * 2**20
MAX_FILES = 20_000
KEPT_UNUSED = timedelta(days=1)  # between sending one and the job that it is for
MAX_KEPT = 4 * 2**30  # bytes of all packages of a project, packed
_CHUNK = 1 << 20
_HEADER = 64 * 1024  # bytes of a name with all that is said of it


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return them as tar.gz; the same bytes always, so that a project keeps them once."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def package_keep(*, principal: Principal, project: Project, stream: IO[bytes]) -> Package:
    """Keep what is sent, or say why it can't be unpacked for a job. The same is kept once."""
    require_active(project)
    most, length, digest = settings.BERTH_PACKAGE_MIB * 2**20, 0, hashlib.sha256()
    with tempfile.TemporaryFile() as held:
        while data := stream.read(_CHUNK):
            length += len(data)
            if length > most:
                message = _("It is larger than %(n)d MiB. Put what is large on a volume instead.")
                raise TooLarge(message % {"n": settings.BERTH_PACKAGE_MIB})
            digest.update(data)
            held.write(data)
        held.seek(0)
        files, unpacked = _looked_through(held)
        held.seek(0)
        values = {
            "content": held.read(),
            "size": length,
            "files": files,
            "unpacked": unpacked,
            "created_by": principal.user,
        }
    package = f"{PREFIX}{digest.hexdigest()}"
    if package_hold(project.pk, package):
        return Package.objects.defer("content").get(project=project, sha256=digest.hexdigest())
    kept = Package.objects.filter(project=project)
    if (kept.aggregate(total=Sum("size"))["total"] or 0) + length > MAX_KEPT:
        message = _(
            "The project keeps %(n)d GiB of packages, which is all it may. Delete jobs that are "
            "over, or put the code on a volume."
        )
        raise Conflict(message % {"n": MAX_KEPT // 2**30}, code="packages-full")
    return Package.objects.defer("content").get_or_create(
        project=project, sha256=digest.hexdigest(), defaults=values
    )[0]


def package_hold(project: int, package: str) -> bool:
    """Keep one for a day from now, for whoever is about to name it; False: it is gone."""
    rows = Package.objects.filter(project=project, sha256=package.removeprefix(PREFIX))
    return bool(rows.update(sent_at=now()))


def require_package(project: Project, code: str) -> None:
    """Raise Invalid unless the project has the package that a job names."""
    known = Package.objects.filter(project=project, sha256=code.removeprefix(PREFIX))
    if not known.exists():
        raise package_gone()


def package_gone() -> Exception:
    return wrong("code", _("There is no such package here. Send it once more."))


def packages_prune() -> int:
    """Remove those that neither a job nor a run of one needs; one just sent waits for its job."""
    name = Concat(Value(PREFIX), OuterRef("sha256"))
    jobs = Job.objects.filter(project=OuterRef("project"), deleted_at__isnull=True)
    # a run of before can be run again, and be compared
    runs = Run.objects.filter(job__project=OuterRef("project"), job__deleted_at__isnull=True)
    # a process of the version before writes it down among the fields only
    said = runs.annotate(said_code=Cast(KT("said__code"), TextField())).filter(
        code="", said_code=name
    )
    old = Package.objects.filter(sent_at__lt=now() - KEPT_UNUSED)
    named = Exists(jobs.filter(code=name)) | Exists(runs.filter(code=name)) | Exists(said)
    # One statement, which looks once more at a row that ``package_hold`` changed meanwhile.
    return old.filter(~named).delete()[0]


class _Bounded:
    """What is unpacked, until it is too much: a small file may hold any number of zeros."""

    def __init__(self, file: Any) -> None:
        self.file, self.left = file, MAX_UNPACKED + MAX_FILES * 2 * tarfile.BLOCKSIZE

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(_CHUNK if size < 0 else size)
        self.left -= len(data)
        if self.left < 0:
            raise _too_much()
        return data


class _Entry(tarfile.TarInfo):
    """An entry whose header is no larger than a name needs."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> Any:
        found: Any = super().frombuf(buf, encoding, errors)
        long = found.type in {b"x", b"g", b"X", tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
        if long and found.size > _HEADER:
            raise wrong("package", _("A name in it is longer than a name can be."))
        return found


def _too_much() -> Exception:
    message = _("Unpacked it is larger than %(n)d MiB. Put what is large on a volume instead.")
    return TooLarge(message % {"n": MAX_UNPACKED // 2**20})


def _looked_through(file: IO[bytes]) -> tuple[int, int]:
    """Return how many files and bytes a package holds, or raise what is wrong with it."""
    files = total = 0
    try:
        bounded: Any = _Bounded(gzip.GzipFile(fileobj=file))
        with tarfile.open(fileobj=bounded, mode="r|", tarinfo=_Entry) as tar:
            for entry in tar:
                _check(entry)
                files, total = files + 1, total + entry.size
                if files > MAX_FILES:
                    said = _("It holds more than %(n)d files. Put them on a volume instead.")
                    raise TooLarge(said % {"n": MAX_FILES})
                if total > MAX_UNPACKED:
                    raise _too_much()
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        message = _("It is no folder that was packed as tar.gz: %(why)s")
        raise wrong("package", message % {"why": error}) from error
    if not files:
        raise wrong("package", _("There is nothing in it."))
    return files, total


def _check(entry: tarfile.TarInfo) -> None:
    """Refuse what leads out of the folder, or is neither a file nor a folder."""
    path = PurePosixPath(entry.name)
    shown = entry.name.encode(errors="replace").decode()[:80]
    if path.is_absolute() or ".." in path.parts or "\0" in entry.name:
        raise wrong("package", _("“%(name)s” leads out of the folder.") % {"name": shown})
    try:
        entry.name.encode()
    except UnicodeEncodeError as error:
        said = _("The name “%(name)s” is not UTF-8. Rename it.") % {"name": shown}
        raise wrong("package", said) from error
    if not (entry.isreg() or entry.isdir()) or entry.issparse():
        said = _("“%(name)s” is a link or a device. Only files and folders go along.")
        raise wrong("package", said % {"name": shown})
