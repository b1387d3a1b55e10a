"""The worker's duty that plays the script: through the same services as pages and API."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet

from accounts.models import User
from accounts.principal import Principal
from clusters.models import Device
from common.clock import now
from common.errors import BerthError
from common.ids import next_name
from experiments.models import Experiment
from experiments.services import experiment_create, experiment_delete
from jobs.kind import JOB
from jobs.models import Job
from jobs.states import ENDED
from notebooks.kind import WORKSPACE
from notebooks.models import Preset, Workspace
from perftests.models import PerfTest
from perftests.services import baseline_choose, perftest_create, perftest_delete
from portal.demo import script
from portal.demo.callers import Callers
from projects.models import Project
from serving.kind import ENDPOINT
from serving.models import Endpoint
from serving.services import canary_make, canary_split
from work import selectors
from work.choices import StopReason
from work.services import workload_create, workload_delete, workload_start, workload_stop

log = structlog.get_logger(__name__)

EVERY_S = 2.0
MOST_WAITING = 12  # nobody of the script asks for more while so many jobs wait
KEPT = timedelta(minutes=20)  # what is over is looked at for a while
TEAM_OF = {person: team for team in script.TEAMS for person in team.people}
PROGRAM = str(Path(__file__).with_name("train.py"))
ANSWERS = str(Path(__file__).with_name("answers.py"))
SIZE = {"cpu_milli": 100, "memory_mib": 256}
RATE = {"name": "lr", "type": "double", "min": 0.0001, "max": 0.1, "log": True}


class Day:
    """Does what the script says between one turn and the next, from its own start on."""

    def __init__(self) -> None:
        self._began: datetime | None = None
        self._done_s = 0.0
        self._callers = Callers()

    def tick(self) -> None:
        if not Device.objects.filter(simulated=True, healthy=True).exists():
            return  # this machine was not asked yet
        at = now()
        if self._began is None:
            self._began = at
            if _live_jobs().exists():  # it goes on: the opening is for a machine that is free
                self._began, self._done_s = at - timedelta(seconds=script.DAY_S), script.DAY_S
        until_s = (at - self._began).total_seconds()
        acts = list(script.acts(self._done_s, until_s))
        self._done_s = until_s
        for act in acts:
            try:
                self._do(act)
            except (BerthError, ObjectDoesNotExist) as problem:
                # a limit, a full machine, a project that somebody deleted: as people meet it
                log.info("demo.refused", act=repr(act), why=str(problem))
        self._callers.tick()
        self._tidy(at)

    def _do(self, act: script.Act) -> None:
        if isinstance(act, script.Resume):
            _resume()
            return
        if isinstance(act, script.Ask):
            self._callers.wake(act.endpoint)
            return
        who = Principal(user=User.objects.get(username=act.who))
        project = Project.objects.get(slug=TEAM_OF[act.who].slug)
        match act:
            case script.Submit():
                self._submit(act, who, project)
            case script.Cancel():
                waiting = Job.objects.filter(owner=who.user, desired="running", phase="pending")
                if row := waiting.order_by("asked_at").first():
                    workload_stop(principal=who, row=row)
            case script.Search():
                self._search(act, who, project)
            case script.Measure():
                _measure(who, project)
            case script.Deploy() | script.Canary() | script.Split():
                _serve(act, who, project)
            case script.Open():
                _open(act, who, project)

    def _submit(self, act: script.Submit, who: Principal, project: Project) -> None:
        if Job.objects.filter(desired="running", phase="pending").count() >= MOST_WAITING:
            return
        taken = selectors.names_taken(project, who.user, JOB)
        said: dict[str, Any] = {
            "name": next_name(act.name, taken),
            "command": ["python", PROGRAM, str(act.seconds)],
            "gpus": act.gpus,
            "gpu_flavor": act.kind,
            "output": "volume:shared/results",
            **SIZE,
        }
        if act.limited:
            said["time_limit_minutes"] = act.seconds // 60 + 1
        workload_create(principal=who, project=project, kind=JOB, said=said)

    def _search(self, act: script.Search, who: Principal, project: Project) -> None:
        taken = frozenset(project.experiments.values_list("name", flat=True))
        program = {"command": ["python", PROGRAM, str(act.seconds)], **SIZE}
        said: dict[str, Any] = {
            "name": next_name(act.name, taken),
            "parameters": [RATE],
            "metric": "accuracy",
            "objective": "maximize",
            "algorithm": "tpe",
            "seed": 1,
            "trials_max": act.trials,
            "parallel": 2,
            "failed_max": 2,
            "job": {**program, "args": ["--lr", "${trialParameters.lr}"]},
        }
        experiment_create(principal=who, project=project, said=said)

    def _tidy(self, at: datetime) -> None:
        """Delete what was over for long."""
        people = list(TEAM_OF)
        rows: QuerySet[Any]
        for rows in (Job.objects.all(), Workspace.objects.all()):
            old = rows.filter(owner__username__in=people, phase__in=ENDED)
            old = old.filter(stopped_at__lt=at - KEPT).exclude(desired="absent")
            for row in old.select_related("owner"):
                workload_delete(principal=Principal(user=row.owner), row=row)
        theirs = {"owner__username__in": people, "ended_at__lt": at - KEPT}
        for search in Experiment.objects.filter(**theirs).select_related("owner", "project"):
            experiment_delete(principal=Principal(user=search.owner), row=search)
        tests = PerfTest.objects.filter(**theirs, is_baseline=False)
        for test in tests.select_related("owner", "project"):
            if test.owner is not None:
                perftest_delete(principal=Principal(user=test.owner), row=test)


def _resume() -> None:
    parked = Workspace.objects.filter(stop_reason=StopReason.PARKED, phase="stopped")
    if found := parked.select_related("owner").order_by("stopped_at").first():
        workload_start(principal=Principal(user=found.owner), row=found)


def _open(act: script.Open, who: Principal, project: Project) -> None:
    preset = Preset.objects.filter(gpu_flavor=act.kind, is_active=True).first()
    if preset is not None:
        said = {"preset": preset.slug, "time_limit_minutes": act.minutes}
        workload_create(principal=who, project=project, kind=WORKSPACE, said=said)


def _serve(
    act: script.Deploy | script.Canary | script.Split, who: Principal, project: Project
) -> None:
    if isinstance(act, script.Deploy):
        said = {"model": act.version, "command": [sys.executable, ANSWERS], **SIZE}
        said |= {"sleep_after_minutes": act.sleeps}
        workload_create(principal=who, project=project, kind=ENDPOINT, said=said)
        return
    name = act.endpoint if isinstance(act, script.Split) else act.version.partition("/")[0]
    row = Endpoint.objects.select_related("project", "owner").get(project=project, name=name)
    if isinstance(act, script.Canary):
        canary_make(principal=who, row=row, said={"model": act.version})
    elif row.canary_percent != act.percent:
        canary_split(principal=who, row=row, percent=act.percent)


def _measure(who: Principal, project: Project) -> None:
    """Measure once more; what was measured before is what it is compared with."""
    ended = PerfTest.objects.filter(project=project, state="succeeded")
    if not ended.filter(is_baseline=True).exists() and (first := ended.first()):
        baseline_choose(principal=who, row=first)
    said = {"test": "all-reduce", "replicas": 2, "gpus": 0, "max_mib": 1}
    perftest_create(principal=who, project=project, said=said)


def _live_jobs() -> QuerySet[Job]:
    return Job.objects.filter(desired="running").exclude(phase__in=ENDED)
