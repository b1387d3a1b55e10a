"""Runs of a job: what each was, how it ended, what two of them differ in, and one of them again."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.clock import now
from common.errors import Conflict, NotFound, wrong
from jobs import outputs
from jobs.choices import State
from jobs.models import Package, Run
from jobs.packages import PREFIX, package_gone, package_hold
from jobs.sources import VOLUME, repository
from work import kinds, services
from work.selectors import values_of, visible_to, workload_get

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from jobs.models import Job
    from projects.models import Project
    from runtime.reconcilers import Transition
    from work.fields import Text
    from work.kinds import Kind

MOST_PLACES, MOST_NODES = 50, 64  # that are kept of a run, the latest; of one of them
MOST_FILES = 200  # of code, of which a difference is told
GOES_ON, ENDS = "running", ("succeeded", "failed", "cancelled")
_AS_LINES = ("command", "args")
_SHORT = 10  # letters of a digest, for people


def run_keep(principal: Principal, row: Job) -> None:
    """Write down what a launch is, in its own transaction; its package must still be there."""
    if row.code.startswith(PREFIX) and not package_hold(row.project.pk, row.code):
        raise package_gone()
    said = values_of(row, private=True)
    env = said.pop("env", None) or {}
    del said["name"]  # it is the job's, whatever runs
    before = Run.objects.filter(job=row, ended_at__isnull=True)
    # What ran and lost its place may have left something, also where it is changed while it waits.
    before.exclude(output_url="").exclude(places=[]).update(output_due_at=now())
    before.update(ended_at=now(), how="cancelled", reason="replaced")  # it waited, and was changed
    Run.objects.create(
        job=row,
        launch=row.launch,
        by=principal.user,
        asked_at=row.asked_at or now(),
        said=said,
        env=dict(env),
        image_digest=row.image_digest,
        code=row.code if row.code.startswith(PREFIX) else "",
        cluster_key=row.cluster_key,
        **outputs.planned(row),
    )


def place_note(change: Transition) -> None:
    """Write down where it runs now, in the transaction that saw it begin."""
    launch = change.seen.launch
    replicas = change.row.replica_rows.filter(launch=launch).exclude(node="").order_by("index")
    nodes = list(dict.fromkeys(replicas.values_list("node", flat=True)))
    run = Run.objects.filter(job=change.row.pk, launch__lte=launch, ended_at__isnull=True).first()
    if run is not None:
        place = {"launch": launch, "at": now().isoformat(), "nodes": nodes[:MOST_NODES]}
        place["replicas"] = change.row.all_replicas
        run.places = [*run.places[-MOST_PLACES + 1 :], place]
        run.save(update_fields=["places"])


def run_end(change: Transition, at: datetime, how: str) -> None:
    """Write down how the latest run ended, in the transaction that saw it."""
    row, told = change.row, change.outcome.updates
    latest = Run.objects.filter(job=row.pk, launch__lte=change.seen.launch).order_by("-launch")
    began = told.get("started_at", row.started_at) is not None
    if row.output and (run := latest.first()) and (began or run.launch < change.seen.launch):
        of_bucket = Run.objects.filter(pk=run.pk, ended_at__isnull=True).exclude(output_url="")
        of_bucket.update(output_due_at=at)
    replicas = row.replica_rows.filter(launch=change.seen.launch).exclude(node="")
    Run.objects.filter(pk__in=latest.values("pk")[:1], ended_at__isnull=True).update(
        began_at=told.get("started_at", row.started_at),
        ended_at=at,
        how=how,
        exit_code=told.get("exit_code", row.exit_code),
        failed_replica=told.get("failed_replica", row.failed_replica),
        reason=str(change.outcome.reason or row.reason)[:64],
        cluster_key=row.cluster_key,
        nodes=list(dict.fromkeys(replicas.order_by("index").values_list("node", flat=True))),
    )


def runs_of(row: Job) -> QuerySet[Run]:
    """Return the runs of a job, the newest first. One of a version before was not written down."""
    related = ("by", "job__project", "output_volume")
    return Run.objects.filter(job=row).select_related(*related).order_by("-launch")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """To which runs of a project a list is narrowed; "" and None: to none of that."""

    state: str = ""  # how it ended, or GOES_ON
    by: str = ""  # who asked for it, by user name
    job: str = ""  # part of its name, or its id
    since: date | None = None  # asked for on that day or later
    until: date | None = None


def runs_in(
    who: Principal, kind: Kind, project: Project, wanted: Wanted | None = None
) -> QuerySet[Run]:
    """Return the runs of all jobs of a project that ``who`` may see, the newest first."""
    jobs, wanted = visible_to(who, kind, project).order_by(), wanted or Wanted()
    if wanted.job:
        jobs = jobs.filter(Q(name__icontains=wanted.job) | Q(short_id=wanted.job))
    rows = Run.objects.filter(job__in=jobs.values("pk"))
    rows = rows.select_related("by", "job__project").order_by("-pk")
    if wanted.state == GOES_ON:
        rows = rows.filter(how="", ended_at__isnull=True)
    elif wanted.state:
        rows = rows.filter(how=wanted.state)
    if wanted.by:
        rows = rows.filter(by__username=wanted.by)
    if wanted.since:
        rows = rows.filter(asked_at__date__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(asked_at__date__lte=wanted.until)
    return rows


def code_of(run: Run) -> str:
    """Return which code it ran in a few words; "": that of its image, home or command."""
    said = run.said.get("code") or ""
    if (source := repository(said)) is not None:
        ref = source.ref[:_SHORT] if source.is_pinned else source.ref or "HEAD"
        return ref if source.is_pinned or not run.commit else f"{ref} · {run.commit[:_SHORT]}"
    if said.startswith(VOLUME):
        return _("volume, not kept")
    return str(said[: len(PREFIX) + _SHORT])


def run_number(text: str, name: str) -> int:
    """Return the number that somebody wrote into a field, or raise Invalid that names it."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004
        raise wrong(name, _("The number of a run, please."))
    return int(text)


def run_named(principal: Principal, kind: Kind, project: Project, text: str, name: str) -> Run:
    """Return the run that ``JOB.NUMBER`` names, or the latest of ``JOB``, which is its id.

    ``name``: of the field that says so.
    """
    job, _dot, number = text.partition(".")
    row = workload_get(principal, kind, job, project)
    launch = run_number(number, name) if number else row.launch
    if not launch:
        raise Conflict(_("It has no run yet."), code="no-run")
    return run_get(row, launch)


def run_get(row: Job, launch: int) -> Run:
    found = runs_of(row).filter(launch=launch).first()
    if found is None:
        raise NotFound(_("There is no run %(n)d of it.") % {"n": launch})
    return found


def run_again(
    *, principal: Principal, row: Job, launch: int, changes: Mapping[str, Any] | None = None
) -> Job:
    """Start what a run was, with ``changes``: that becomes the job's, with the same bytes.

    Conflict while another one goes on; what can't start changes nothing. Never inside a
    transaction: a registry may be asked.
    """
    said = {**said_by(row, run_get(row, launch)), **(changes or {})}
    again: Job = services.workload_edit(
        principal=principal, row=row, said=said, anew=True, check=_require_ended
    )
    return again


def _require_ended(row: Job) -> None:
    if row.is_on_its_way:
        raise Conflict(_("It has not ended: cancel it, or wait for its end."), code="running")


def said_by(row: Job, run: Run) -> dict[str, Any]:
    """Return what makes a job what a run was: its fields, with the bytes and the commit it had."""
    table = kinds.kind_of(row.kind).table
    said = {**run.said, "env": dict(run.env)}
    image = run.said.get("image")
    if run.image_digest and (run.image_digest, image) != (row.image_digest, row.image):
        said["image"] = f"{run.said['image'].partition('@')[0]}@{run.image_digest}"
    if run.commit and (source := repository(run.said.get("code") or "")) is not None:
        said["code"] = source.at(run.commit)
    known = {one.name: getattr(one, "empty", None) for one in table.but("name")}
    values = {n: known[n] if v is None else v for n, v in said.items() if n in known}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Difference:
    """One field that two runs do not say alike; as people read it."""

    name: str
    label: Text
    a: str
    b: str


@dataclass(frozen=True)
class Compared:
    """``files``: how the code of two packages differs, path → added, removed or changed."""

    a: Run
    b: Run
    said: list[Difference] = field(default_factory=list)
    ended: list[Difference] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    more_files: int = 0
    code_is_gone: bool = False

    @property
    def is_same(self) -> bool:
        return not self.said


def compare(a: Run, b: Run, *, private: bool) -> Compared:
    """Return what differs. ``private``: what only its owner may read is told, too."""
    table = kinds.kind_of(a.job.kind).table
    fields = [one for one in table.but("name", "env") if private or not one.private]
    pairs: list[tuple[str, Text, Any, Any]] = [
        (f.name, f.label, a.said.get(f.name), b.said.get(f.name)) for f in fields
    ]
    pairs.append(("image_digest", gettext_lazy("Image digest"), a.image_digest, b.image_digest))
    if private:
        pairs.append(("commit", gettext_lazy("Commit"), a.commit, b.commit))
        pairs += [
            (f"env.{name}", name, a.env.get(name), b.env.get(name))
            for name in sorted({*a.env, *b.env})
        ]
    how_a, how_b = (State(run.how).label if run.how else "" for run in (a, b))
    took_a, took_b = (run.took and round(run.took.total_seconds()) for run in (a, b))
    ended: list[tuple[str, Text, Any, Any]] = [
        ("how", gettext_lazy("How it ended"), how_a, how_b),
        ("exit_code", gettext_lazy("Exit code"), a.exit_code, b.exit_code),
        ("cluster", gettext_lazy("Cluster"), a.cluster_key, b.cluster_key),
        ("nodes", gettext_lazy("Nodes"), a.nodes, b.nodes),
        ("seconds", gettext_lazy("Took"), took_a, took_b),
    ]
    files, more, is_gone = _files(a, b) if private else ({}, 0, False)
    return Compared(a, b, _differing(pairs), _differing(ended), files, more, is_gone)


def _differing(pairs: Sequence[tuple[str, Text, Any, Any]]) -> list[Difference]:
    return [
        Difference(name, label, _shown(name, a), _shown(name, b))
        for name, label, a, b in pairs
        if (a or b) and a != b
    ]


def _shown(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return (" " if name in _AS_LINES else ", ").join(map(str, value))
    return str(value)


def _files(a: Run, b: Run) -> tuple[dict[str, str], int, bool]:
    """Return the files in which the packages of two runs differ, and how many more there are."""
    codes = [run.code for run in (a, b)]
    if codes[0] == codes[1] or not all(codes):
        return {}, 0, False
    digests = [code.removeprefix(PREFIX) for code in codes]
    rows = Package.objects.filter(project=a.job.project_id, sha256__in=digests)
    kept = {row.sha256: _listed(bytes(row.content)) for row in rows}
    if len(kept) < len(set(digests)):
        return {}, 0, True
    before, after = (kept[digest] for digest in digests)
    found: dict[str, str] = {}
    for path in sorted({*before, *after}):
        if path not in after:
            found[path] = "removed"
        elif path not in before:
            found[path] = "added"
        elif before[path] != after[path]:
            found[path] = "changed"
    return dict(list(found.items())[:MOST_FILES]), max(0, len(found) - MOST_FILES), False


def _listed(packed: bytes) -> Mapping[str, bytes]:
    """Return the files of a package, which was looked through when it was kept."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        for entry in tar:
            if entry.isreg() and (file := tar.extractfile(entry)) is not None:
                name = entry.name.removeprefix("./")
                found[name] = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
    return found
