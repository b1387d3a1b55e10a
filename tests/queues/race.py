# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Fifty ask one machine for its last GPUs at once, while an operator may lower what they may hold.

A word ``8:3`` plays one round: eight GPUs, and a ceiling of three that is set meanwhile; ``1``:
one GPU and nobody lowers anything. Each round says how many were let in and wait, how many devices
are held, and how many were let in at the moment the ceiling was set.
"""

import json
import os
import sys
import threading
import uuid
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.db import connection, connections, transaction

from clusters import services
from clusters.models import Claim, Cluster, Flavor, Hold
from projects.models import Project
from queues import local
from queues.models import Guarantee, Queue
from queues.services import tree_changed
from runtime.ports import AdmissionRequest, Granted
from runtime.protocol import Device, Health
from runtime.spec import Resources

THREADS = 50


def main(*words: str) -> list[dict[str, object]]:
    rounds = [race(*(int(number) for number in word.split(":"))) for word in words]
    connections.close_all()
    return rounds


def race(gpus: int, lowered: int | None = None) -> dict[str, object]:
    cluster = services.ensure_local_cluster()
    devices = tuple(Device(f"GPU-{n}", n, "H100", 80_000) for n in range(gpus))
    services.health_store(key=cluster.key, health=Health(True, "1", devices=devices))
    Claim.objects.all().delete()
    project = Project.objects.create(slug=f"race-{gpus}", name="Race")
    queue = Queue.objects.create(project=project, name=project.slug)
    share = Guarantee.objects.create(
        queue=queue, cluster=cluster, flavor=Flavor.objects.get(name="h100")
    )
    results: list[str] = []  # adding to a Counter is not one step
    held_then: list[int] = []
    barrier = threading.Barrier(THREADS + (lowered is not None))

    def guarded(act: object) -> None:
        barrier.wait()
        try:
            act()  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(type(error).__name__)
        finally:
            connections.close_all()

    def ask() -> None:
        request = AdmissionRequest(
            cluster_key=cluster.key,
            uid=str(uuid.uuid4()),
            kind="job",
            project_uid=str(project.uid),
            owner_uid=str(uuid.uuid4()),
            resources=Resources(gpus=1),
        )
        results.append("in" if isinstance(local.admit(request), Granted) else "waits")

    def lower() -> None:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=cluster.pk)
            Guarantee.objects.filter(pk=share.pk).update(most=lowered)
            held_then.append(Hold.objects.count())
            tree_changed()

    acts = [ask] * THREADS + ([lower] if lowered is not None else [])
    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = {"held": Hold.objects.count(), "then": held_then, "vendor": connection.vendor}
    return {**Counter(results), **held}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
