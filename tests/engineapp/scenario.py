"""Real processes against a real database: killed at every named step, and racing each other.

The acts are called by name, in a fork of a started Django (``tests/support/django_shell.py``), which
never touches the database; each runs in a forked child, as a worker of its own.
"""

import gc
import os
import pickle
import signal
import sys
import time
import traceback

import django

django.setup()

from django.db import connections, transaction  # noqa: E402
from django.db.models import F  # noqa: E402

from clusters import registry, services  # noqa: E402
from clusters.models import Claim, Hold  # noqa: E402
from common.clock import now  # noqa: E402
from runtime import due_scheduler, engine, hints, killpoints, leases, routes  # noqa: E402
from runtime.models import Lease, Route  # noqa: E402
from tests.engineapp.models import Note, Thing  # noqa: E402
from tests.support import driving  # noqa: E402


def child(act, *args):
    """Run ``act`` in a process of its own; return its result, or the signal that ended it."""
    gc.freeze()  # or a collection in the child looks at, and so copies, all that it got from here
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        code = 0
        try:
            registry.reset()
            result = act(*args)
            os.write(writer, pickle.dumps(result))
        except BaseException:  # noqa: BLE001 - a forked child must never return
            traceback.print_exc()
            code = 1
        connections.close_all()
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    _pid, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    if os.WEXITSTATUS(status):
        sys.exit("a child failed")
    return pickle.loads(data)


# --- acts of children ------------------------------------------------------------------------


def create():
    services.ensure_local_cluster()
    return Thing.objects.create(next_reconcile_at=now()).pk


def want(pk, desired):
    change = {"launch": F("launch") + 1} if desired == "running" else {}
    Thing.objects.filter(pk=pk).update(
        desired=desired, generation=F("generation") + 1, next_reconcile_at=now(), **change
    )


def settle():
    driving.run_due()


def work_until_killed(point, nth):
    leases.beat()
    killpoints._armed, killpoints._left = point, nth
    driving.run_due()


def take_over():
    """A new worker, after the time in which the dead one would have said that it lives."""
    Lease.objects.filter(name__startswith="worker:").update(until=now())
    leases.beat()
    due_scheduler.free_dead_leases()
    driving.run_due()
    for proxy in routes.proxies():
        routes.resync(proxy)


def audit(pk):
    """Everything in the world and in the tables that belongs to the thing."""
    thing = Thing.objects.get(pk=pk)
    driver = registry.driver_for("local")
    owned = {o.uid: str(o.seen) for o in driver.list_owned()}
    notes = list(Note.objects.filter(thing=thing).order_by("id").values_list("launch", "word"))
    with driver._store.open() as world:
        starts = world.get("starts", {}).get(str(thing.uid), [])
    return {
        "phase": thing.phase,
        "gone": thing.deleted_at is not None,
        "seen": owned.get(str(thing.uid), "missing"),
        "route": f"/thing-{thing.uid}" in registry.router().list(),
        "route_row": Route.objects.filter(uid=thing.uid).exists(),
        "claims": Claim.objects.filter(workload_uid=thing.uid).count(),
        "tokens": len(thing.tokens),
        "starts": starts,
        "doubled_notes": len(notes) - len(set(notes)),
        "leased": thing.lease_token is not None,
    }


WORLDS = {
    "running": {"phase": "running", "seen": "ready", "route": True, "claims": 1, "tokens": 1},
    "stopped": {"phase": "stopped", "seen": "exited", "route": False, "claims": 0, "tokens": 0},
    "absent": {"phase": "deleted", "seen": "missing", "route": False, "claims": 0, "tokens": 0},
}


def kill():
    """For each intent and each named step: die there, let a new worker go on, look."""
    wrong, deaths = [], {}
    for desired, expected in WORLDS.items():
        for point in killpoints.NAMES:
            for nth in (1, 2) if point in {"claimed", "committed"} else (1,):
                pk = child(create)
                if desired != "running":
                    child(settle)
                    child(want, pk, desired)
                if child(work_until_killed, point, nth) != "SIGKILL":
                    continue
                deaths.setdefault(desired, []).append(f"{point}#{nth}")
                child(take_over)
                found = child(audit, pk)
                full = {
                    **expected,
                    "route_row": expected["route"],
                    "gone": desired == "absent",
                    "starts": [1],
                    "doubled_notes": 0,
                    "leased": False,
                }
                if found != full:
                    wrong.append({"at": f"{desired}:{point}#{nth}", "found": found})
    return {"wrong": wrong, "deaths": deaths}


def race_worker():
    """One of several workers that all see the same rows."""
    done = 0
    end = time.monotonic() + 120
    while time.monotonic() < end:
        due = driving.due("thing", horizon_s=1)
        for pk in due:
            done += engine.reconcile_one("thing", pk, horizon_s=1)
        if not due and not Thing.objects.exclude(phase="running").exists():
            return done
    return done


def make_many(count):
    services.ensure_local_cluster()
    for _ in range(count):
        Thing.objects.create(next_reconcile_at=now())


def race_audit():
    with registry.driver_for("local")._store.open() as world:
        starts = world.get("starts", {})
    return {
        "running": Thing.objects.filter(phase="running").count(),
        "twice": sum(len(s) != 1 for s in starts.values()),
        "started": len(starts),
        "routes": len(registry.router().list()),
        "doubled_notes": Note.objects.count()
        - Note.objects.values("thing", "launch", "word").distinct().count(),
        "holds": Hold.objects.count(),
        "claims": Claim.objects.count(),
    }


def race(workers=4, things=60):
    child(make_many, things)
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            try:
                race_worker()
            except BaseException:  # noqa: BLE001 - a forked child must never return
                traceback.print_exc()
                os._exit(1)
            connections.close_all()
            os._exit(0)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    return {**child(race_audit), "codes": codes}


# --- acts of a test next to a real worker --------------------------------------------------------


def launch(count="1"):
    """What a service does: intent and a hint, nothing else."""
    services.ensure_local_cluster()
    pks = []
    for _ in range(int(count)):
        with transaction.atomic():
            thing = Thing.objects.create()
            hints.hint(thing)
        pks.append(thing.pk)
    return pks


def intend(pk, desired):
    want(int(pk), desired)
    hints.hint(Thing.objects.get(pk=int(pk)))


def wait(phase, seconds="90"):
    """Wait until every thing has the phase; return the audits."""
    end = time.monotonic() + float(seconds)
    things = Thing.objects.all()
    while things.exclude(phase=phase).exists() and time.monotonic() < end:
        time.sleep(0.02)
    return [audit(t.pk) for t in things.order_by("pk")]


def send_old_payloads():
    """Messages of other versions, as they may wait in the broker during an upgrade."""
    from portal.celery import app, prepare_broker

    prepare_broker()
    app.send_task("runtime.reconcile_one", args=("workspace-of-v0", {"id": 3}))
    app.send_task("runtime.reconcile_one", kwargs={"kind": "thing", "pk": 1, "new": True})
    app.send_task("runtime.task_of_the_future", args=(1,))


ACTS = {
    "kill": kill,
    "race": race,
    "launch": launch,
    "intend": intend,
    "wait": wait,
    "old": send_old_payloads,
}
