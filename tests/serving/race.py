# ruff: noqa: T201 - a program
"""Two presses at once on one endpoint, each in a thread of its own, many times over.

Answered is how often each was taken or refused with a sentence, and what was wrong afterwards:
an error that nobody reads, a launch that was made twice, a row that comes to no end.
"""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections

from clusters import registry
from clusters.installed import ensure_local_cluster
from common.clock import now
from common.errors import BerthError
from projects.models import Membership, Project
from projects.services.life import project_archive, project_request_delete, project_unarchive
from quotas.models import Reservation
from serving import services
from serving.gateway.counts import Count, Slice
from serving.gateway.table import Principal as Caller
from serving.gateway.table import RoutingTable
from serving.gateway.tallies import Tallies
from serving.kind import ENDPOINT
from serving.models import Calls, Endpoint, Model, ModelVersion
from serving.services.models import model_delete
from serving.services.scale import replicas_set
from serving.services.versions import version_delete
from tests.support.driving import run_due
from volumes.models import Volume
from work.services import workload_create, workload_delete, workload_start, workload_stop

ROUNDS = 5
PAST = timedelta(seconds=10)


class World:
    """One person, one project, one model of two versions; a new endpoint for each round."""

    def __init__(self) -> None:
        self.who, _project, _preset = begin()
        ensure_local_cluster()
        self.results: Counter[str] = Counter()
        self.number = 0
        self.move()

    def move(self) -> None:
        """Go on in a new project."""
        self.number += 1
        self.project = Project.objects.create(slug=f"race{self.number}", name="Race")
        Membership.objects.create(project=self.project, user=self.who.user, role="owner")
        self.volume = Volume.objects.create(
            project=self.project,
            owner=self.who.user,
            name="models",
            phase="running",
            cluster_key="local",
        )

    def version(self, model: str, name: str) -> ModelVersion:
        made, _new = Model.objects.get_or_create(
            project=self.project, name=model, defaults={"created_by": self.who.user}
        )
        return ModelVersion.objects.create(
            model=made, name=name, framework="sklearn", source="volume", origin="volume:models",
            volume=self.volume, folder=f"{model}/{name}", created_by=self.who.user,
        )  # fmt: skip

    def endpoint(self, *, state: str) -> Endpoint:
        self.number += 1
        model = f"m{self.number}"
        for name in ("v1", "v2", "v3"):
            self.version(model, name)
        said = {"name": f"e{self.number}", "model": f"{model}/v1", "max_replicas": 3}
        row = workload_create(principal=self.who, project=self.project, kind=ENDPOINT, said=said)
        self.settle()
        if state in {"canary", "promoting", "served"}:
            services.canary_make(principal=self.who, row=row, said={"model": f"{model}/v2"})
            self.settle()
        if state in {"promoting", "served"}:
            services.canary_promote(principal=self.who, row=row)
        if state == "asleep":
            services.endpoint_sleep(principal=self.who, row=row)
        if state != "promoting":
            self.settle()
        row.refresh_from_db()
        return row

    def settle(self) -> None:
        """Let duty and engine come to their end."""
        for _turn in range(8):
            Endpoint.objects.filter(split_at__isnull=False).update(split_at=now() - PAST)
            done = services.canaries_step()
            if not run_due() and not done:
                return
        self.results["it came to no end"] += 1

    def at_once(self, *acts: Callable[[], object]) -> None:
        barrier = threading.Barrier(len(acts))

        def run(number: int, act: Callable[[], object]) -> None:
            try:
                connection.ensure_connection()
                barrier.wait()
                act()
                self.results[f"{number} taken"] += 1
            except BerthError:
                self.results[f"{number} refused"] += 1
            except Exception as error:  # noqa: BLE001 - counted and shown
                self.results[f"{number} {type(error).__name__}: {error}"[:300]] += 1
            finally:
                connections.close_all()

        threads = [threading.Thread(target=run, args=one) for one in enumerate(acts, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def judge(self, row: Endpoint) -> None:
        """Whatever was first: one of both ways is whole, and nothing is left of the other."""
        self.project.refresh_from_db()
        if self.project.desired == "absent":
            if Endpoint.objects.filter(deleted_at=None, project=self.project).exists():
                self.results["an endpoint without its project"] += 1
            if self.project.deleted_at is None:
                self.results["a deletion without an end"] += 1
            self.move()
        if self.project.archived_at is not None:
            if Endpoint.objects.filter(desired="running").exists():
                self.results["something runs in an archived project"] += 1
            project_unarchive(principal=self.who, project=self.project)
            self.project.refresh_from_db()
        row.refresh_from_db()
        if row.desired == "stopped" and row.promoting:
            workload_start(principal=self.who, row=row)  # then it becomes what it was to become
            self.settle()
            row.refresh_from_db()
        canaries = Endpoint.objects.filter(canary_of=row, deleted_at=None)
        wrong = {
            "a promotion without an end": not row.deleted_at
            and (row.promoting or row.rolls_back or row.canary_leaves),
            "two canaries": canaries.count() > 1,
            "a canary without its endpoint": row.deleted_at and canaries.exists(),
            "a canary that runs alone": row.desired != "running"
            and canaries.filter(desired="running").exists(),
            "it is between two states": row.phase not in {"running", "stopped", "gone", "failed"}
            and not row.deleted_at,
            "held by what stopped": row.desired != "running"
            and Reservation.objects.filter(workload_uid=row.uid).exists(),
        }
        driver: Any = registry.driver_for("local")
        with driver._store.open() as world:
            for uid in [
                row.uid,
                *Endpoint.objects.filter(canary_of=row).values_list("uid", flat=True),
            ]:
                starts = world["starts"].get(str(uid), [])
                wrong["a launch that was started twice"] = starts != sorted(set(starts))
        self.results.update(name for name, is_so in wrong.items() if is_so)


class Carried(Tallies):
    """A gateway's, to which one caller comes."""

    def tell(self, row: Endpoint, *canaries: Endpoint) -> None:
        self.know(RoutingTable((), {"0" * 64: Caller("k1", "k1")}))
        minute, main = int(now().timestamp()) // 60 * 60, str(row.pk)
        self.write_calls(
            {Slice(minute, main, str(one.pk), "k1"): Count() for one in (row, *canaries)}
        )


def acts_on(world: World, row: Endpoint) -> dict[str, Callable[[], object]]:
    who = world.who
    model = row.model.partition("/")[0]
    version = ModelVersion.objects.get(model__name=model, name="v3")

    def carried() -> None:
        """As a gateway does, of all that it carried."""
        gateway = Carried("g")
        for _turn in range(5):
            gateway.tell(row, *Endpoint.objects.filter(canary_of=row))

    return {
        "promote": lambda: services.canary_promote(principal=who, row=row),
        "split": lambda: services.canary_split(principal=who, row=row, percent=20),
        "back": lambda: services.canary_split(principal=who, row=row, percent=0),
        "end": lambda: services.canary_end(principal=who, row=row),
        "canary": lambda: services.canary_make(
            principal=who, row=row, said={"model": f"{model}/v3"}
        ),
        "roll-back": lambda: services.endpoint_roll_back(principal=who, row=row),
        "sleep": lambda: services.endpoint_sleep(principal=who, row=row),
        "wake": lambda: services.endpoint_wake(row.pk),
        "stop": lambda: workload_stop(principal=who, row=row),
        "delete": lambda: workload_delete(principal=who, row=row),
        "scale": lambda: replicas_set(Endpoint.objects.get(pk=row.pk), 2),
        "duty": services.canaries_step,
        "engine": run_due,
        "carried": carried,
        "archive": lambda: project_archive(principal=who, project=world.project, confirm_stop=True),
        "delete-project": lambda: project_request_delete(
            principal=who, project=world.project, confirm=world.project.slug
        ),
        "new": lambda: workload_create(
            principal=who, project=world.project, kind=ENDPOINT, said={"model": f"{model}/v1"}
        ),
        "version-delete": lambda: version_delete(principal=who, row=version),
        "model-delete": lambda: model_delete(principal=who, row=version.model),
    }


def deploy(world: World) -> None:
    """A model is deleted while an endpoint of it starts: one of both is refused."""
    world.number += 1
    name = f"n{world.number}"
    version = world.version(name, "v1")
    said = {"name": f"e{world.number}", "model": f"{name}/v1"}
    world.at_once(
        lambda: model_delete(principal=world.who, row=version.model),
        lambda: workload_create(
            principal=world.who, project=world.project, kind=ENDPOINT, said=said
        ),
    )
    world.settle()
    made = Endpoint.objects.filter(name=said["name"], deleted_at=None)
    is_there = ModelVersion.objects.filter(pk=version.pk).exists()
    if made.exists() != is_there:
        world.results["an endpoint without its model"] += 1


def referred(world: World) -> None:
    """What another writes that only refers to an endpoint keeps no gateway from telling of it."""
    row, gateway, other = world.endpoint(state="running"), Carried("g"), connection.copy()
    other.set_autocommit(False)
    with other.cursor() as cursor:
        for table, key in (("work_workload", "id"), ("serving_endpoint", "workload_ptr_id")):
            cursor.execute(f"SELECT 1 FROM {table} WHERE {key} = %s FOR KEY SHARE", [row.pk])
    gateway.tell(row)
    other.rollback()
    other.close()
    world.results["1 taken"] += 1
    if not Calls.objects.filter(endpoint=row).exists():
        world.results["a count that waits for what only refers to its endpoint"] += 1


def begun(world: World) -> None:
    """Who begins an endpoint refers to the project, and holds a version: nobody waits for both."""
    version, other = world.version("begun", "v1"), connection.copy()
    other.set_autocommit(False)
    with other.cursor() as cursor, connection.cursor() as own:
        key = [world.project.pk]
        cursor.execute("SELECT 1 FROM projects_project WHERE id = %s FOR KEY SHARE", key)
        own.execute("SET lock_timeout = '5s'")
        model_delete(principal=world.who, row=version.model)
        own.execute("SET lock_timeout = 0")
    other.rollback()
    other.close()
    world.results["1 taken"] += 1


ALONE = {
    "deploy": (deploy, ROUNDS),
    "referred": (referred, 1),
    "begun": (begun, 1),
}  # nothing random is in it


def main(*pairs: str) -> dict[str, Any]:
    """``pairs``: STATE:ACT+ACT(+ACT…)."""
    world = World()
    answer: dict[str, Any] = {}
    for pair in pairs:
        world.results = Counter()
        state, _, words = pair.partition(":")
        alone, rounds = ALONE.get(state, (None, ROUNDS))
        for _round in range(rounds):
            if alone is not None:
                alone(world)
                continue
            row = world.endpoint(state=state)
            acts = acts_on(world, row)
            world.at_once(*(acts[word] for word in words.split("+")))
            world.settle()
            world.judge(row)
            row.refresh_from_db()
            if row.deleted_at is None:
                workload_delete(principal=world.who, row=row)
                world.settle()
        answer[pair] = dict(sorted(world.results.items()))
    answer["vendor"] = connection.vendor
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
