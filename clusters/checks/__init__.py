"""The self-check of a cluster: a list of questions, each green, red with a fix, or unknown."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop as _n

from clusters import registry
from clusters.checks import (
    connectivity,
    image,
    models,
    network,
    node_groups,
    queue,
    rights,
    simple,
    storage,
    training,
)
from clusters.checks.base import Check, ClientAsker, Finding, Subject, undecided, unknown
from clusters.checks.network import UNPROVED
from clusters.checks.probe_runner import Bench, BenchError
from clusters.models import CheckResult, Cluster
from clusters.options import options_of
from clusters.services.health import checks_store
from common.clock import now
from runtime import installation, leases
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from clusters.checks.base import Asker


CHECKS: tuple[Check, ...] = (
    Check("version", _("API server"), simple.version, _("It answers and is new enough.")),
    Check(
        simple.SOLE,
        _("Only this Berth"),
        simple.sole,
        _("Two that share a prefix would be in each other's way."),
    ),
    Check("clock", _("Clock"), simple.clock, _("Tokens end at the time that both agree on.")),
    Check("rights", _("Our rights"), rights.needed, _("Our identity may do what is needed.")),
    Check(
        "restraint",
        _("No more rights"),
        rights.restraint,
        _("Whoever takes our credential must not own the cluster."),
    ),
    Check(
        "security",
        _("Pod Security"),
        simple.pod_security,
        _("Pods that would own their node are refused in projects."),
    ),
    Check("image", _("Images"), image.act, _("Nodes can pull what workloads need.")),
    Check(
        "ports",
        _("Ports of containers"),
        image.ports,
        _("An image signs people in before they see what a container serves."),
    ),
    Check(
        "ways",
        _("Ways to Berth and back"),
        connectivity.ways,
        _("Pods find Berth's listener, and the notebook proxy finds pods: tried as work goes."),
    ),
    Check(
        "network",
        _("Network policies"),
        network.act,
        _("Projects can't reach each other: probed with pods, not assumed."),
    ),
    Check(
        "host",
        _("Nodes and metadata"),
        connectivity.apart,
        _("Pods of projects reach no kubelet, API server or cloud's metadata: probed with a pod."),
    ),
    Check("storage", _("Storage"), storage.act, _("Homes can be made and written.")),
    Check(
        "users",
        _("User namespaces"),
        simple.users,
        _("Root inside a container is nobody on its node, where the runtime can do that."),
    ),
    Check(
        "kubectl",
        _("kubectl"),
        simple.kubectl,
        _("People's kubectl is told an address that they reach."),
    ),
    Check("gpus", _("GPUs"), simple.gpus, _("Nodes say what they have.")),
    Check("queue", _("Queue"), queue.act, _("What admits workloads is there and works.")),
    Check(
        training.NAME,
        _("Operators of training"),
        training.act,
        _("PyTorch, TensorFlow and MPI on several replicas need one each."),
    ),
    Check(
        training.SEARCHES_NAME,
        _("Searches"),
        training.searches,
        _("Where Katib is, it chooses the values that are tried."),
    ),
    Check(
        models.NAME,
        _("Models"),
        models.act,
        _("Endpoints are placed where KServe is, and nodes can pull their model servers."),
    ),
)


# Running the self-check: in worker, where the credential can be opened.


log = structlog.get_logger(__name__)
AGAIN = timedelta(hours=24)
SOON, LATEST = timedelta(minutes=2), timedelta(hours=2)  # where asking came to nothing
LEASE_S = 900.0  # more than all waits together
FRESH = timedelta(hours=23)  # so long a green answer is not asked for again by itself
ALWAYS = "version"  # whether anybody is there


def run_due() -> int:
    """Check every cluster that was not checked, is to be checked again or was so long ago."""
    at = now()
    rows = (
        Cluster.objects.running_images()
        .filter(enabled=True)
        .filter(
            Q(checks_ran_at__isnull=True)
            | Q(checks_ran_at__lt=at - AGAIN)
            | Q(checks_due_at__lte=at)
            | Q(checks_asked_at__gt=F("checks_ran_at"))
        )
    )
    count = 0
    for cluster in rows:
        held = leases.acquire(f"checks:{cluster.key}", ttl_s=LEASE_S)
        if held is None:
            continue
        try:
            count += check(cluster)
        finally:
            held.release()
    return count


def check(cluster: Cluster) -> bool:
    """Check one cluster and keep the answers. False: not from this process."""
    begun = now()
    try:
        api = _asker(cluster)
    except DriverError as error:
        found = unknown("version", _n("Not reached: %(why)s"), why=str(error)[:200])
        checks_store(cluster=cluster, findings=[found])
        _ran(cluster, begun, whole=False)
        return True
    if api is None:
        return False
    try:
        run(cluster, api, known=_known(cluster))
    finally:
        api.close()
    return True


def _known(cluster: Cluster) -> frozenset[str]:
    """Return what this round has found green: where some came to nothing, it goes on with those.

    A round begins when somebody asks, when something was changed, and each day.
    """
    asked = cluster.checks_asked_at
    rows = CheckResult.objects.filter(
        cluster=cluster, state=CheckResult.State.GREEN, at__gt=now() - FRESH
    ).exclude(name=ALWAYS)
    return frozenset(
        row.name
        for row in rows
        if not row.values.get(UNPROVED)
        and (asked is None or row.at - timedelta(milliseconds=row.took_ms) > asked)
    )


def run(
    cluster: Cluster, api: Asker, *, wait_s: float = 90.0, known: Collection[str] = ()
) -> list[Finding]:
    """Ask in order what is not ``known``; each answer is shown as soon as it is there."""
    begun = now()
    options = options_of(cluster.options)
    bench = Bench(
        api,
        options,
        wait_s,
        tolerations=node_groups.tolerations(cluster),
        installation=installation.own_id(),
    )
    subject = Subject(cluster, options, api)
    findings: list[Finding] = []
    wanted = [entry for entry in CHECKS if entry.name not in known]
    try:
        for entry in wanted:
            found = one(entry, subject, bench)
            findings.append(found)
            checks_store(cluster=cluster, findings=[found])
            if entry.name == ALWAYS and found.state != "green":
                break  # nobody there: the rest would only repeat it
            if entry.name == simple.SOLE and found.state == "red":
                break  # where another one is, nothing is made, not even to try
    finally:
        try:
            bench.close()
            bench.sweep()
        except DriverError as error:
            log.warning("check.left", error=str(error))
        answered = not any(found.failed or found.values.get(UNPROVED) for found in findings)
        _ran(cluster, begun, whole=answered and len(findings) == len(wanted))
    return findings


def _ran(cluster: Cluster, begun: datetime, *, whole: bool) -> None:
    """Write down that it was checked; a run that came to nothing is soon tried again."""
    due = None if whole else now() + _pause(cluster, begun)
    Cluster.objects.filter(pk=cluster.pk).update(checks_ran_at=begun, checks_due_at=due)


def _pause(cluster: Cluster, begun: datetime) -> timedelta:
    """Twice as long each time that it was tried again by itself; anew where somebody asked."""
    ran, due = cluster.checks_ran_at, cluster.checks_due_at
    if ran is None or due is None or due > begun:
        return SOON
    return min(max(2 * (due - ran), SOON), LATEST)


def one(entry: Check, subject: Subject, bench: Bench) -> Finding:
    """Whatever goes wrong while asking is an answer too."""
    started = time.perf_counter()
    try:
        found = entry.act(subject, bench)
    except (DriverError, BenchError) as error:
        found = _failed(entry.name, str(error))
    except Exception as error:
        log.exception("check.failed", cluster=subject.cluster.key, check=entry.name)
        found = _failed(entry.name, type(error).__name__)
    return replace(found, took_ms=round((time.perf_counter() - started) * 1000))


def _failed(name: str, why: str) -> Finding:
    return undecided(name, _n("Could not be checked: %(why)s"), why=why[:200])


def _asker(cluster: Cluster) -> ClientAsker | None:
    from runtime.drivers.kubernetes.access import check_from_settings
    from runtime.drivers.kubernetes.client import KubeClient

    access = registry.access_of(cluster)
    if access is None:
        return None
    return ClientAsker(KubeClient(access, check=check_from_settings(), connections=4))
