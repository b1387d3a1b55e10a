"""The code of a repository, fetched for one launch of a job before it asks for its place.

``Job.fetched`` says how far it is: {} not yet, ``by`` and ``until`` whoever is at it (a worker that
dies lets that pass), ``commit`` and ``package`` once it is kept, ``problem`` where it is given up.
A smoke run reads that of its job. Whoever writes holds the row and compares ``by``: a new launch
begins with {} and takes nothing from an old one.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import structlog
from celery import shared_task
from django.db import DatabaseError, connection, transaction
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.errors import BerthError
from common.tasks import CommittedTask
from credentials.choices import CredentialKind, Use
from credentials.decrypt import opened_all
from credentials.selectors import credentials_for_launch, credentials_usable
from jobs.fenced_git import Login, NotFetchedError
from jobs.models import Job, Package, Run
from jobs.packages import PREFIX, package_hold, package_keep
from jobs.repositories import fetched
from jobs.sources import Repository, repository
from runtime.hints import hint_uids
from runtime.protocol import Desired
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

log = structlog.get_logger(__name__)

LOOK_S = 5.0  # between looks at whether somebody is at it
_HELD_S, _RENEW_S = 20.0, 5.0
_LONGEST_S = 600.0  # of one try; git itself has less
_TRIES, _PAUSE_S = 3, 5.0
_AT_ONCE = threading.BoundedSemaphore(2)  # of the threads of a worker, which has more to do


def state_of(row: Job) -> Mapping[str, Any]:
    """Return what is known of the code of its launch: a smoke run's is its job's."""
    if row.smoke_of is None:
        return row.fetched
    found = Job.objects.filter(uid=row.smoke_of).values_list("fetched", flat=True).first()
    return found or {}


def package_of(row: Job) -> str:
    """Return the package that this launch is run with, as a job names it; "": none."""
    if row.code.startswith(PREFIX):
        return row.code
    return str(state_of(row).get("package", "")) if repository(row.code) else ""


def waits(row: Job) -> tuple[str, str] | None:
    """Return the reason and from where, while it is fetched; and have somebody be at it."""
    source = repository(row.code)
    known = state_of(row)
    if source is None or "package" in known or "problem" in known:
        return None
    if known.get("until", 0.0) < time.time():
        fetch_code.delay(str(row.smoke_of or row.uid))
    return Reason.FETCHING_CODE, source.host  # the rest is told to its owner only


def problem_of(row: Job) -> str:
    """Return the sentence why its code did not come, "" where it did."""
    known = state_of(row) if repository(row.code) else {}
    if "problem" not in known:
        return ""
    text, values = str(known["problem"]), known.get("values") or {}
    return _(text) % values if values else _(text)


@shared_task(base=CommittedTask, name="jobs.fetch_code")
def fetch_code(*args: Any, **_kwargs: Any) -> None:
    """Fetch the code of a job; what is not understood is left to the next look at the job."""
    try:
        uid = UUID(args[0])
    except (IndexError, TypeError, ValueError, AttributeError):
        log.warning("task.payload_ignored", task="jobs.fetch_code")
        return
    code_fetch(uid)


def code_fetch(uid: UUID) -> None:
    """Fetch the code of a job that waits for it, unless somebody else is at it."""
    if not _AT_ONCE.acquire(blocking=False):
        return  # the job's next look sends another one
    try:
        by = str(uuid4())
        row = _claim(uid, by)
        source = repository(row.code) if row is not None else None
        if row is None or source is None:
            return
        try:
            found = _kept_before(row, source) or _fetch(row, source, by)
        except NotFetchedError as error:
            tries = int(row.fetched.get("tries", 0)) + 1
            if error.passes and tries < _TRIES:
                _write(uid, by, {"tries": tries, "until": time.time() + _PAUSE_S * tries})
                return
            found = {"problem": error.text, "values": error.values}
        except BerthError as error:  # of the package that was made of it
            found = {"problem": error.message}
        except _LostError:
            return
        except Exception:  # whatever a repository does to its reader ends after some tries
            log.exception("job.code_failed", job=str(uid))
            tries = int(row.fetched.get("tries", 0)) + 1
            if tries < _TRIES:
                _write(uid, by, {"tries": tries, "until": time.time() + _PAUSE_S * tries})
                return
            found = {"problem": "git could not read %(where)s.", "values": {"where": source.where}}
        _write(uid, by, found)
        log.info("job.code_fetched", job=str(uid), commit=found.get("commit", ""))
    finally:
        _AT_ONCE.release()


class _LostError(Exception):
    """Nobody waits for it any more."""


def _claim(uid: UUID, by: str) -> Job | None:
    with transaction.atomic():
        row = _locked(uid)
        if row is None or row.desired != Desired.RUNNING or _is_settled(row):
            return None
        row.fetched = {
            "by": by,
            "until": time.time() + _HELD_S,
            "tries": row.fetched.get("tries", 0),
        }
        row.save(update_fields=["fetched"])
        return row


def _is_settled(row: Job) -> bool:
    """Whether it is settled, or somebody is at it."""
    known = row.fetched
    return "package" in known or "problem" in known or known.get("until", 0.0) > time.time()


def _locked(uid: UUID) -> Job | None:
    rows = Job.objects.select_for_update(of=("self",)).select_related("project", "owner")
    return rows.filter(uid=uid, deleted_at__isnull=True).first()


def _write(uid: UUID, by: str, found: Mapping[str, Any]) -> bool:
    """Write what is known now, unless another one took it over or a new launch began."""
    with transaction.atomic():
        row = _locked(uid)
        if row is None or row.fetched.get("by") != by:
            return False
        if "package" in found and not package_hold(row.project.pk, found["package"]):
            found = {"tries": row.fetched.get("tries", 0), "until": 0.0}  # pruned: fetched anew
        row.fetched = dict(found)
        row.save(update_fields=["fetched"])
        if "package" in found:
            latest = Run.objects.filter(job=row, launch__lte=row.launch).order_by("-launch")
            Run.objects.filter(pk__in=latest.values("pk")[:1]).update(
                code=found["package"], commit=found["commit"], left_out=found["left_out"]
            )
    if "until" not in found:
        smoke = Job.objects.filter(smoke_of=uid).exclude(desired=Desired.ABSENT)
        hint_uids(Job.KIND, [uid])
        hint_uids(Job.KIND, smoke.values_list("uid", flat=True))
    return True


def _kept_before(row: Job, source: Repository) -> dict[str, Any] | None:
    """Return what a run of the project had of the same commit, where that is still kept."""
    if not source.is_pinned:
        return None
    runs = Run.objects.filter(job__project=row.project_id, commit=source.ref).exclude(code="")
    runs = runs.filter(job__owner=row.owner_id, job__deleted_at=None)  # who had a right to it
    for run in runs.order_by("-pk")[:20]:
        said = repository(run.said.get("code") or "")
        is_same = said and (said.where, said.folder) == (source.where, source.folder)
        kept = Package.objects.filter(project=row.project_id, sha256=run.code.removeprefix(PREFIX))
        if is_same and kept.exists():
            return {"commit": run.commit, "package": run.code, "left_out": run.left_out}
    return None


def _fetch(row: Job, source: Repository, by: str) -> dict[str, Any]:
    with _renewed(row, by) as look, fetched(source, _login(row, source), look) as commit:
        who = Principal(user=row.owner)
        kept = package_keep(principal=who, project=row.project, stream=commit.packed)
        package = f"{PREFIX}{kept.sha256}"
        return {"commit": commit.sha, "package": package, "left_out": commit.left_out}


@contextmanager
def _renewed(row: Job, by: str) -> Iterator[Callable[[], None]]:
    """Hold the job, in a thread of its own: one large file or a slow disk takes longer than that.

    What it gives raises once the job is another one's, or nobody's.
    """
    over, lost = threading.Event(), threading.Event()
    tries = row.fetched.get("tries", 0)

    def renew() -> None:
        ends = time.monotonic() + _LONGEST_S
        while not over.wait(_RENEW_S) and time.monotonic() < ends:
            held = {"by": by, "until": time.time() + _HELD_S, "tries": tries}
            try:
                if not _write(row.uid, by, held):
                    break
            except DatabaseError:
                log.warning("job.code_not_renewed", job=str(row.uid))  # the next one may come
            finally:
                connection.close()
        lost.set()

    def look() -> None:
        if lost.is_set():
            raise _LostError

    beside = threading.Thread(target=renew, name="job-code", daemon=True)
    beside.start()
    try:
        yield look
    finally:
        over.set()
        beside.join()


def _login(row: Job, source: Repository) -> Login | None:
    """Return what signs in at its host: a credential of the job, else one of the project."""
    kind = CredentialKind.SSH if source.is_ssh else CredentialKind.GIT
    has = credentials_for_launch(row.owner, row.project, [uid for _pk, uid in row.keys_read])
    own = [one for one in has if (one.kind, one.target) == (kind, source.host)]
    usable = credentials_usable(Principal(user=row.owner), row.project, [kind])
    project = usable.filter(project=row.project, kind=kind, target=source.host)
    for found, secret in opened_all(own[:1] or list(project[:1]), Use.WORK):
        if source.is_ssh:
            user, hosts = found.public.get("user") or "git", found.public.get("known_hosts") or ()
            return Login(found.name, user, "", secret["private_key"], tuple(hosts))
        return Login(found.name, found.username, secret["token"])
    return None
