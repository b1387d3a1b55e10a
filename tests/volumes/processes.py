# ruff: noqa: E402 - a program: Django first
"""Workers that are killed at every named step of a volume, and people who press at once.

``python -m tests.volumes.processes kill|race`` prints one JSON line. Built on the engine's own
scenario: each act runs in a forked child, as a worker of its own.
"""

import json
import sys
import threading
from collections import Counter

import django

django.setup()

from django.db import connections

from accounts.models import User
from accounts.principal import Principal
from clusters import registry
from clusters import services as clusters
from common.clock import now
from projects.models import Membership, Project
from quotas.models import Limit, Reservation
from runtime import killpoints
from tests.engineapp.scenario import child, take_over, work_until_killed
from tests.support import driving
from volumes.models import Volume, VolumeSnapshot
from volumes.services import base, create, edit, removal, transfers

ENGINE = ("claimed", "stepped", "applied", "committed")
BYTES = 7 * 1024**2


def people():
    clusters.ensure_local_cluster()
    ann = User.objects.create(username="ann", password="!")
    for slug in ("one", "two"):
        project = Project.objects.create(slug=slug, name=slug, phase="running")
        Membership.objects.create(project=project, user=ann, role="owner")


def who():
    return Principal(user=User.objects.get(username="ann"))


def driver():
    return registry.driver_for("local")


def make():
    wanted = create.NewVolume("set", 2048)
    row = create.volume_create(
        principal=who(), project=Project.objects.get(slug="one"), wanted=wanted
    )
    return row.pk


def made():
    """A volume that is there, holds something and has a copy of it."""
    pk = make()
    driving.run_due()
    row = Volume.objects.get(pk=pk)
    driver().fill_volume(row.uid, BYTES)
    base.volume_measure_soon(uids=[row.uid])
    driving.run_due()
    return pk


def copied():
    pk = made()
    removal.snapshot_create(principal=who(), volume=Volume.objects.get(pk=pk), name="copy")
    driving.run_due()
    return pk


def copy_asked(pk):
    removal.snapshot_create(principal=who(), volume=Volume.objects.get(pk=pk), name="copy")


def restore_asked(pk):
    row = Volume.objects.get(pk=pk)
    driver().fill_volume(row.uid, 1)
    removal.snapshot_restore(principal=who(), snapshot=row.snapshots.get())


def copy_unwanted(pk):
    removal.snapshot_delete(principal=who(), snapshot=VolumeSnapshot.objects.get(volume_id=pk))


def purged(pk):
    removal.volume_purge(principal=who(), volume=Volume.objects.get(pk=pk), said="full")


def moved(pk):
    offer = transfers.transfer_ask(principal=who(), volume=Volume.objects.get(pk=pk), to="two")
    transfers.transfer_accept(principal=who(), transfer=offer)


def audit(pk):
    row = Volume.objects.get(pk=pk)
    with driver()._store.open() as world:
        there = world.get("volumes", {}).get(str(row.uid))
        copies = [c for c in world.get("snapshots", {}).values() if c["of"] == str(row.uid)]
    live = row.snapshots.filter(deleted_at__isnull=True)
    return {
        "phase": row.phase,
        "bytes": there and there["bytes"],
        "project_follows": there is None or there["project"] == str(row.project.uid),
        "project": row.project.slug,
        "copies": len(copies),
        "copies_follow": len(copies) == live.count(),
        "busy": row.is_restoring or row.is_moving,
        "reserved": sum(
            Reservation.objects.filter(
                workload_uid__in=[row.uid, *live.values_list("uid", flat=True)]
            ).values_list("amount", flat=True)
        ),
        "leased": row.lease_token is not None,
        "gone": row.deleted_at is not None,
    }


KEPT = {
    "phase": "running",
    "bytes": BYTES,
    "project_follows": True,
    "project": "one",
    "copies": 0,
    "copies_follow": True,
    "busy": False,
    "reserved": 2048,
    "leased": False,
    "gone": False,
}
GONE = {**KEPT, "phase": "deleted", "bytes": None, "reserved": 0, "gone": True}
# what is there before, what is asked then, the steps on the way of it, what must be in the end
STORIES = {
    "make": (None, make, ("volume-ensured", "volume-measured"), {**KEPT, "bytes": 0}),
    "copy": (made, copy_asked, ("snapshot-made",), {**KEPT, "copies": 1, "reserved": 2055}),
    "restore": (
        copied,
        restore_asked,
        ("volume-restored",),
        {**KEPT, "copies": 1, "reserved": 2055},
    ),
    "uncopy": (copied, copy_unwanted, ("snapshot-removed",), KEPT),
    "move": (made, moved, ("volume-moved",), {**KEPT, "project": "two"}),
    "purge": (copied, purged, ("snapshot-removed", "volume-removed"), GONE),
}


def forget(pk):
    """Make room for the next story: another name."""
    Volume.objects.filter(pk=pk).update(name=f"old-{pk}", created_at=now().replace(year=2020))


def kill():
    child(people)
    wrong, deaths = [], {}
    for name, (before, ask, own, expected) in STORIES.items():
        for point in (*own, *ENGINE):
            pk = child(before) if before else None
            pk = child(ask, pk) or pk if before else child(ask)
            if child(work_until_killed, point, 1) == "SIGKILL":
                deaths.setdefault(name, []).append(point)
            child(take_over)
            child(take_over)
            found = child(audit, pk)
            if found != expected:
                wrong.append({"at": f"{name}:{point}", "found": found})
            child(forget, pk)
    return {"wrong": wrong, "deaths": deaths, "named": list(killpoints.VOLUME_NAMES)}


# --- races ------------------------------------------------------------------------------------
def at_once(acts):
    results = []  # adding to a Counter is not one step
    barrier = threading.Barrier(len(acts))

    def run(act):
        barrier.wait()
        try:
            act()
            results.append("done")
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(getattr(error, "code", type(error).__name__))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(results)


def race():
    people()
    project, principal = Project.objects.get(slug="one"), who()

    def creating(name, size):
        wanted = create.NewVolume(name, size)
        return lambda: create.volume_create(principal=principal, project=project, wanted=wanted)

    same = at_once([creating("set", 2048 + number) for number in range(8)])
    rows = Volume.objects.filter(kind="data").count()
    for number in range(6):
        creating(f"v{number}", 1024)()
    held = sum(Reservation.objects.values_list("amount", flat=True))
    Limit.objects.create(project=project, resource="storage_mib", amount=held + 2 * 1024)
    small = list(Volume.objects.filter(name__startswith="v"))
    grown = at_once(
        [
            lambda row=row: edit.volume_edit(
                principal=principal, volume=row, changes=edit.Changes(size_limit_mib=2048)
            )
            for row in small
        ]
    )
    row = Volume.objects.get(name="set")
    ended = at_once(
        [
            lambda: removal.volume_delete(principal=principal, volume=row),
            lambda: edit.volume_edit(
                principal=principal, volume=row, changes=edit.Changes(size_limit_mib=1024)
            ),
        ]
    )
    row.refresh_from_db()
    return {
        "same": same,
        "rows": rows,
        "grown": grown,
        "over": sum(Reservation.objects.values_list("amount", flat=True)) > held + 2 * 1024,
        "sizes_are_reserved": all(
            Reservation.objects.get(workload_uid=v.uid).amount == v.size_limit_mib
            for v in Volume.objects.filter(kind="data")
        ),
        "ended": sorted(ended),
        "desired": row.desired,
    }


if __name__ == "__main__":
    print(json.dumps({"kill": kill, "race": race}[sys.argv[1]]()))  # noqa: T201 - the answer
    connections.close_all()
