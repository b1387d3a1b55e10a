"""What the worker does: its duties, and how they begin and end together."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from typing import Any

import structlog
from celery.worker import state as celery_state
from django.conf import settings

from accounts import oidc_grants
from budgets import days as budget_days
from budgets import services as budgets
from clusters import checks, installed
from clusters import services as clusters
from clusters.models import Cluster
from clusters.services import detach
from common import disk
from common.making import wanted_file
from credentials import rekey
from credentials.rules import tell_due
from events import sealer
from experiments import steering as experiments
from files import services as files
from hubapi import activity, revocation
from jobs import told
from jobs.checkpoints import copies_due
from jobs.output_copies import outputs_copy, outputs_tidy
from jobs.packages import packages_prune
from loaders import services as loaders
from metrics import sampling
from notebooks import services as notebooks
from notifications import services as notifications
from parking import services as parking
from perftests import reading as perftests
from portal import beat
from portal.celery import app, prepare_broker
from portal.server.collector import THAW_S, set_apart, thaw
from portal.server.loops import CHECK_S, Loop
from portal.server.processes import MODEL_SERVERS, turn_file
from projects import middleware
from queues import history as turns
from quotas import listeners as quotas
from runtime import due_scheduler, gateway, leases, observe, orphans, routes
from runtime.bus import EngineEar
from serving import duty as endpoints
from serving.environments import is_of_before
from serving.gateway.tallies import tallies_prune
from serving.models import Endpoint
from serving.services import reading
from serving.services.batch_places import inputs_tidy
from usage import capacity, closing, digest, node_days
from volumes import measuring
from volumes.services import create
from webhooks import sending
from work import services as work

log = structlog.get_logger(__name__)

CELERY_THREADS = 4
SAMPLE_S = 10.0
GATE_S = 1.0  # somebody may be waiting for it
LINGERS_S = 60.0  # who closed files soon opens others: it would end, and start again
# What nobody waits for begins after the watch has read its clusters: a worker that follows one that
# was killed is to know first what changed meanwhile.
LATER_S = 20.0


class Usage:
    """Measures what runs, keeps that, and offers GPUs once there are some."""

    def __init__(self) -> None:
        self._meter = sampling.Meter()

    def tick(self) -> None:
        notebooks.ensure_gpu_preset()
        self._meter.tick()


def gate_tick() -> None:
    """Tell the manager of this machine whether gate and gateway are needed
    (portal.server.processes), and ``berth status`` that this worker goes on.
    """
    with contextlib.suppress(OSError):
        turn_file(settings.BERTH_VAR).touch(mode=0o600)
    attached = Cluster.objects.running_images().filter(enabled=True).exists()
    wanted = {
        "gate": attached or any(gateway.wanted()),
        "gateway": Endpoint.objects.filter(deleted_at=None).exists(),
    }
    for name, is_wanted in wanted.items():
        file = wanted_file(settings.BERTH_VAR, name)
        with contextlib.suppress(OSError):  # no manager here, and no such folder
            if is_wanted:
                file.touch(mode=0o600)
            elif time.time() - file.stat().st_mtime > LINGERS_S:
                file.unlink()
    for name in MODEL_SERVERS:  # what waits for one touches it (serving.environments)
        file = wanted_file(settings.BERTH_VAR, name)
        with contextlib.suppress(OSError):
            is_over = time.time() - file.stat().st_mtime > LINGERS_S
            if is_over and not is_of_before(name):  # whoever began in that one does not ask again
                file.unlink()


class Health:
    """Asks each cluster how it is: often while work runs, seldom when quiet.

    One that was attached, or given another credential, is asked at once.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def tick(self) -> None:
        rows = Cluster.objects.filter(enabled=True).values_list("key", "checked_at")
        for key, checked_at in rows:
            if checked_at is None or time.monotonic() >= self._next.get(key, 0.0):
                clusters.health_refresh(key=key)
                self._next[key] = time.monotonic() + clusters.seconds_to_next_check(key=key)


class Watches:
    """One watcher per cluster; a silent one is replaced (dead man's timer)."""

    def __init__(self, wake: observe.Wake) -> None:
        self._wake = wake
        self._running: dict[str, observe.Watcher] = {}

    def tick(self) -> None:
        keys = set(Cluster.objects.filter(enabled=True).values_list("key", flat=True))
        for key in set(self._running) - keys:  # detached, or switched off
            self._running.pop(key).stop()
        for key in keys:
            old = self._running.get(key)
            if old is not None and not old.is_dead:
                continue
            if old is not None:
                log.error("watch.replaced", cluster=key)
                old.stop()
            self._running[key] = observe.Watcher(key, self._wake)
            self._running[key].start()

    def are_filling(self) -> bool:
        """Whether a long first list arrives: until it is there, rows are what they were."""
        return any(watcher.is_filling for watcher in list(self._running.values()))

    def stop(self) -> None:
        for watcher in self._running.values():
            watcher.stop()


class Worker:
    """All of it. ``run`` returns when Celery was told to end."""

    def __init__(self) -> None:
        self._started = False
        self._is_told = False
        self.pool = due_scheduler.Pool()
        self.sweeper = due_scheduler.Sweeper(self.pool.offer)
        self.pool.on_full = self.sweeper.wake
        self.ear = EngineEar(self.pool.submit)
        self.watches = Watches(self.pool.submit)
        self.pool.gives_way = self.watches.are_filling
        self.loops = [
            Loop("routes", routes.Keeper().tick, routes.EPOCH_S, leased=True),
            Loop("health", Health().tick, CHECK_S, leased=True),
            Loop("watches", self.watches.tick, CHECK_S),
            Loop("gate-wanted", gate_tick, GATE_S),
            Loop("disk-reserve", disk.keep_reserve, CHECK_S),
            Loop("files-idle", files.sessions_tidy, 15.0, leased=True),
            Loop("cluster-checks", checks.run_due, CHECK_S, leased=True),
            Loop("cluster-farewells", detach.run_due, CHECK_S, leased=True),
            Loop("orphans", orphans.collect_orphans, 60.0, leased=True, first_s=LATER_S),
            Loop(
                "notebook-tokens", revocation.Keeper().tick, revocation.Keeper.EVERY_S, leased=True
            ),
            Loop("notebook-activity", activity.poll, activity.POLL_S, leased=True),
            Loop("people-at-provider", oidc_grants.ask_due, CHECK_S, leased=True),
            # its name is that of the version before, which looked at workspaces only
            Loop("workspace-idle", parking.enforce, 15.0, leased=True),
            Loop("job-hints", parking.hints_tell, 900.0, leased=True, first_s=LATER_S),
            Loop("work-limits", work.limits_enforce, 15.0, leased=True),
            Loop("experiments", experiments.Turns().tick, experiments.SOON_S, leased=True),
            Loop("endpoints", endpoints.Turns().tick, endpoints.EVERY_S, leased=True),
            Loop("job-events", told.read_due, told.EVERY_S, leased=True, first_s=LATER_S),
            Loop("perftests", perftests.turn, perftests.EVERY_S, leased=True),
            Loop("job-outputs", outputs_copy, 2.0, leased=True),
            Loop("job-checkpoints", copies_due, 2.0, leased=True),
            Loop("model-files", reading.versions_step, 2.0, leased=True),
            Loop("budgets", budgets.look, 30.0, leased=True, first_s=LATER_S),
            Loop("budget-days", budget_days.roll, 600.0, leased=True, first_s=LATER_S),
            Loop("load-schedules", loaders.schedules_run, 15.0, leased=True),
            Loop("load-retries", loaders.retries_run, CHECK_S, leased=True),
            # its name is that of the version before, which measured workspaces only
            Loop("workspace-usage", Usage().tick, SAMPLE_S, leased=True),
            Loop("usage-ledger", closing.close_due, 60.0, leased=True, first_s=LATER_S),
            Loop("audit-seal", sealer.seal, sealer.EVERY_S, leased=True),
            Loop("mail", notifications.send_due, notifications.EVERY_S, leased=True),
            Loop("webhooks", sending.deliver_due, sending.EVERY_S, leased=True),
            Loop("housekeeping", tidy, TIDY_S, leased=True),
            Loop("garbage", thaw, THAW_S, first_s=THAW_S),
        ]
        if settings.BERTH_DEMO:
            from portal.demo import duty

            self.loops.append(Loop("demo-day", duty.Day().tick, duty.EVERY_S, leased=True))

    def start(self) -> None:
        prepare_broker()
        if settings.BERTH_LOCAL_CLUSTER:
            clusters.ensure_local_cluster()
        installed.ensure_in_cluster()
        leases.beat()
        self.ear.start()
        self.sweeper.start()
        for loop in self.loops:
            loop.start()
        beat.start()
        set_apart()
        self._started = True
        log.info("worker.ready")

    def silent(self) -> list[str]:
        """Names of duties that show no sign of life; for probes."""
        if not self._started:
            return ["start"]
        return [loop.name for loop in self.loops if loop.is_silent]

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._told_early)  # until Celery takes it over
        self.start()
        try:
            if not self._is_told:
                self.celery()
        finally:
            self.stop()
        return 0

    def _told_early(self, *_: Any) -> None:
        """Told to end before Celery listens: it finds this as soon as it begins, and all drains.

        Nothing is raised: an import's own callbacks would swallow it.
        """
        self._is_told = True
        celery_state.should_stop = 0

    def celery(self) -> None:
        """Serve messages until a signal says to end.

        Celery would run Django's checks first, and drop what they say: they import every page,
        while the watch begins. The checks are for ``check`` and the tests.
        """
        os.environ.setdefault("CELERY_SKIP_CHECKS", "yes")
        app.Worker(
            pool="threads",
            concurrency=CELERY_THREADS,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
            loglevel=logging.getLogger().level,
        ).start()

    def stop(self) -> None:
        """Drain: nothing new is taken, what runs may end, then say goodbye."""
        self.ear.stop()
        self.sweeper.stop()
        self.watches.stop()
        for loop in self.loops:
            loop.stop()
        ended = self.pool.drain()
        self.sweeper.join(2)
        for loop in self.loops:
            loop.join(1)
        if ended:
            leases.leave()
        log.info("worker.ended", drained=ended)


# What is tidied now and then by one worker: safety nets and things that are forgotten.


TIDY_S = 600.0


def tidy() -> None:
    repaired = quotas.repair()
    if repaired:
        log.warning("quota.repaired", workloads=repaired)
    create.shared_volumes_repair()
    measuring.prune_days()
    turns.prune()
    packages_prune()
    outputs_tidy()
    inputs_tidy()
    tallies_prune()
    middleware.purge()
    notifications.housekeeping()
    sending.housekeeping()
    tell_due()
    rekey.seal_plain()
    capacity.sample()
    node_days.sample()
    digest.tell_week()
