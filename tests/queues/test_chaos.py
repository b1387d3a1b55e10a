"""One machine in chaos: submissions, stops, ends, edits of the tree, faults, and workers that die.

Judged each time the line has decided and at each named step of a worker: nothing is held twice or
beyond a ceiling at the moment it is given, nobody within a guarantee is asked, and what runs holds
the devices that its claim holds. When it is quiet, the database equals the machine; and when all
may, all come to their end. Each seed is one story; what fails tells its steps.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from clusters import services
from clusters.models import Claim, Cluster, Device, Flavor, Hold
from common.clock import now
from jobs.models import Job
from projects.models import Membership, Project
from queues import local
from queues.line import Verdict
from queues.models import Guarantee, Queue
from queues.services import tree_changed
from runtime import killpoints
from runtime.protocol import Desired, Health, Phase, Seen
from runtime.protocol import Device as Found
from work.models import Workload
from work.services import workload_stop

pytestmark = pytest.mark.django_db
H100, A100 = "h100", "a100"
THERE = [*(("H100", n) for n in range(6)), *(("A100", n) for n in range(6, 10))]
SLUGS = ("hunter", "allen", "evan")
MOST_LIVE = 16
OVER = {Seen.EXITED, Seen.MISSING}
ERRORS = ("unreachable", "not-yet", "no-capacity", "crash")
VERBS = ("*", "ensure", "stop", "remove", "observe")
NAMES = ("claimed", "admitted", "ensured", "stepped", "applied", "stop-asked", "released")
JUDGED = {"ensured", "released"}
ACTS = ("submit", "submit", "submit", "end", "end", "stop", "edit", "edit", "fault", "fail", "die")


class Died(BaseException):
    """A worker was killed at this very step."""


class Judge:
    """What was true a moment ago, and what must hold now."""

    def __init__(self, fake: Any, story: list[str]) -> None:
        self.fake, self.story = fake, story
        self.granted: set[int] = set()
        self.asked: set[int] = set()
        self.looks = self.given = self.told = self.bounded = 0
        self.wrong: AssertionError | None = None

    def look(self) -> None:
        """An engine goes on after any error of a step: what was wrong first is kept for the end."""
        try:
            self._look()
        except AssertionError as error:
            self.wrong = self.wrong or error
            raise

    def _look(self) -> None:
        self.looks += 1
        claims = list(Claim.objects.all())
        held = {c.pk: c for c in claims if c.granted_at is not None}
        holds: dict[int, list[str]] = defaultdict(list)
        kinds: dict[int, str] = {}
        rows = Hold.objects.values_list("claim_id", "device__uuid", "device__flavor__name")
        for pk, uuid, kind in rows:
            holds[pk].append(uuid)
            kinds[pk] = kind
        assert set(holds) <= set(held), self.story  # who waits holds nothing
        for pk, claim in held.items():
            assert len(holds[pk]) == claim.gpus, self.story
        self._devices_of_one(held, holds)
        shares, above = _shares(), _paths()
        sums = Counter[tuple[str, str]]()
        for pk, claim in held.items():
            for part in above[str(claim.project_uid)]:
                sums[part, kinds[pk]] += claim.gpus
        for pk in held.keys() - self.granted:
            for part in above[str(held[pk].project_uid)]:
                most = shares[part, kinds[pk]][1]
                self.given += 1
                self.bounded += most is not None
                assert most is None or sums[part, kinds[pk]] <= most, (part, self.story)
        told = {pk: c for pk, c in held.items() if c.reclaim_at is not None}
        self.told += len(told.keys() - self.asked)
        self._over_their_guarantee(
            {pk: told[pk] for pk in told.keys() - self.asked}, claims, held, kinds, shares
        )
        self.granted, self.asked = set(held), set(told)

    def _devices_of_one(self, held: dict[int, Claim], holds: dict[int, list[str]]) -> None:
        """What is alive on the machine uses what its own claim holds, and nothing else."""
        own = {str(claim.workload_uid): set(holds[pk]) for pk, claim in held.items()}
        with self.fake._store.open() as world:
            alive = [w for w in world.get("workloads", {}).values() if w["seen"] not in OVER]
        used = Counter(uuid for one in alive for uuid in one["devices"])
        assert all(count == 1 for count in used.values()), self.story
        for one in alive:
            assert set(one["devices"]) <= own.get(one["uid"], set()), (one, self.story)

    def _over_their_guarantee(
        self,
        told: dict[int, Claim],
        claims: list[Claim],
        held: dict[int, Claim],
        kinds: dict[int, str],
        shares: dict[tuple[str, str], tuple[int, int | None]],
    ) -> None:
        """Whoever was asked last held more than is guaranteed to its part, all others let go."""
        uids = {claim.workload_uid: str(claim.project_uid) for claim in claims}
        for part, kind in {(str(c.project_uid), kinds[pk]) for pk, c in told.items()}:
            mine = [c for pk, c in told.items() if (str(c.project_uid), kinds[pk]) == (part, kind)]
            if any(uids.get(c.reclaim_for) == part for c in mine):
                continue  # among its own, by priority
            before = sum(
                c.gpus
                for pk, c in held.items()
                if (str(c.project_uid), kinds[pk]) == (part, kind)
                and (pk not in self.asked or c.reclaim_at is None)  # given back and had again
            )
            left = before - sum(c.gpus for c in mine) + max(c.gpus for c in mine)
            assert left > shares[part, kind][0], (part, kind, before, self.story)


def _shares() -> dict[tuple[str, str], tuple[int, int | None]]:
    found: dict[tuple[str, str], tuple[int, int | None]] = defaultdict(lambda: (0, None))
    for row in Guarantee.objects.select_related("queue__project", "flavor"):
        found[row.queue.key, row.flavor.name] = (row.guaranteed, row.most)
    return found


def _paths() -> dict[str, list[str]]:
    """Return each project with the organisations above it."""
    queues = {q.pk: q for q in Queue.objects.select_related("project")}
    found = {}
    for queue in queues.values():
        path, at = [queue.key], queue
        while at.parent_id is not None:
            at = queues[at.parent_id]
            path.append(at.key)
        found[queue.key] = path
    return found


class Chaos:
    """A machine, three projects, and what happens to them."""

    def __init__(self, seed: int, fake: Any, alice: Any, principal: Any, settle: Any) -> None:
        self.chance, self.fake, self.alice, self.settle = random.Random(seed), fake, alice, settle
        self.principal = principal
        self.story: list[str] = []
        self.judge = Judge(fake, self.story)
        self.armed = ""
        self.devices = [Found(f"GPU-{n}", n, name, 80_000) for name, n in THERE]
        fake.script("*", stop_takes_s=0)
        self.see(self.devices)
        self.org = Queue.objects.create(name="Research")
        self.projects = [
            Project.objects.create(slug=s, name=s.title(), phase="running") for s in SLUGS
        ]
        for n, project in enumerate(self.projects):
            Membership.objects.create(project=project, user=alice, role="owner")
            parent = self.org if n else None
            queue = Queue.objects.create(project=project, name=project.slug, parent=parent)
            cluster = Cluster.objects.get(key="local")
            for flavor in Flavor.objects.filter(name__in=[H100, A100]):
                shares = {"guaranteed": 2, "most": 5} if n else {"guaranteed": 1}
                Guarantee.objects.create(queue=queue, cluster=cluster, flavor=flavor, **shares)

    def see(self, devices: list[Found]) -> None:
        self.fake.set_devices(devices)
        key = services.ensure_local_cluster().key
        health = Health(True, "1", 64_000, 262_144, tuple(devices))
        services.health_store(key=key, health=health)

    def alive(self) -> list[str]:
        with self.fake._store.open() as world:
            there = world.get("workloads", {}).items()
            alive = [(item["name"], uid) for uid, item in there if item["seen"] not in OVER]
        return [uid for _name, uid in sorted(alive)]  # uids differ from run to run

    # --- what happens ------------------------------------------------------------------------
    def act(self) -> None:
        for _n in range(3):
            word = self.chance.choice(ACTS)
            self.story.append(word)
            getattr(self, f"_{word}")()
            self.judge.look()
        self.work(horizon_s=self.chance.choice([0, 5, 600]), rounds=self.chance.choice([1, 2]))
        self.judge.look()

    def _submit(self) -> None:
        live = Claim.objects.count()
        project = self.chance.choice(self.projects)
        for _n in range(min(self.chance.randint(1, 6), MOST_LIVE - live)):
            row = Job.objects.create(
                project=project,
                owner=self.alice,
                name=f"job-{Job.objects.count()}",
                cluster_key="local",
                environment="jupyterlab",
                command=["python", "train.py"],
                launch=1,
                gpus=self.chance.choice([1, 1, 1, 2, 2, 4]),
                gpu_flavor=self.chance.choice(["", H100, A100, f"{A100},{H100}"]),
                priority=self.chance.choice(["", "train", "build"]),
                time_limit_minutes=self.chance.choice([None, 5, 600]),
                cpu_milli=100,
                memory_mib=256,
                asked_at=now(),
                next_reconcile_at=now(),
            )
            self.story[-1] += f" {row.project.slug}:{row.gpus}×{row.gpu_flavor}"  # noqa: RUF001

    def _end(self) -> None:
        for uid in self.chance.sample(self.alive(), k=min(2, len(self.alive()))):
            self.fake.exit(uid, code=self.chance.choice([0, 0, 1]))

    def _stop(self) -> None:
        rows = [r for r in Job.objects.filter(desired=Desired.RUNNING) if r.is_on_its_way]
        if rows:
            row = self.chance.choice(sorted(rows, key=lambda one: one.pk))
            workload_stop(principal=self.principal(self.alice), row=row)
            self.story[-1] += f" {row.name}"

    def _edit(self) -> None:
        """Anything that the tree may say, guarantees that do not fit among it."""
        project = self.chance.choice([*self.projects, None])
        queue = Queue.objects.get(project=project) if project else self.org
        kind = self.chance.choice([H100, A100])
        guaranteed = self.chance.choice([0, 1, 2, 3, 6])
        most = self.chance.choice([None, guaranteed, guaranteed + 1, guaranteed + 2])
        lends = self.chance.choice([None, None, 0, 1])
        with transaction.atomic():
            Cluster.objects.select_for_update().get(key="local")
            Guarantee.objects.update_or_create(
                queue=queue,
                cluster=Cluster.objects.get(key="local"),
                flavor=Flavor.objects.get(name=kind),
                defaults={"guaranteed": guaranteed, "most": most, "lends": lends},
            )
            if project and self.chance.random() < 0.3:
                queue.parent = self.chance.choice([self.org, None])
                queue.save()
            self.story[-1] += f" {queue}:{kind} {guaranteed}/{most}/{lends} below {queue.parent}"
            tree_changed()

    def _fault(self) -> None:
        """Devices that can't be read, or all of them again."""
        sick = set(self.chance.sample(range(len(THERE)), k=self.chance.choice([0, 0, 1, 3])))
        self.see([one for one in self.devices if one.index not in sick])
        self.story[-1] += f" {sorted(sick)}"

    def _fail(self) -> None:
        verb, error = self.chance.choice(VERBS), self.chance.choice(ERRORS)
        self.fake.fail(verb, error, times=self.chance.choice([1, 3]))
        self.story[-1] += f" {verb} {error}"

    def _die(self) -> None:
        self.armed = self.chance.choice(NAMES)
        self.story[-1] += f" {self.armed}"

    def step(self, name: str) -> None:
        """At each named step of a worker: it is judged, and here it may die."""
        if name in JUDGED:
            self.judge.look()
        if name == self.armed:
            self.armed = ""
            self.story.append(f"died at {name}")
            raise Died

    def work(self, **options: Any) -> None:
        try:
            self.settle(**options)
        except Died:
            # whoever comes next sees that it is gone: its leases count no more
            Workload.objects.update(lease_until=None)
        if self.judge.wrong is not None:
            raise self.judge.wrong

    # --- and its end -------------------------------------------------------------------------
    def quiet(self) -> None:
        self.armed = ""
        self.fake.heal()
        self.see(self.devices)
        for _n in range(4):
            self.work(horizon_s=6000, rounds=3)
        self.judge.look()
        self.story.append("quiet")
        assert not Claim.objects.filter(reclaim_at__isnull=False).exists(), self.story
        runs = Job.objects.filter(phase=Phase.RUNNING)
        granted = Claim.objects.filter(granted_at__isnull=False)
        assert {str(row.uid) for row in runs} == set(self.alive()), self.story
        assert {str(c.workload_uid) for c in granted} == set(self.alive()), self.story
        waits = Job.objects.filter(phase=Phase.PENDING, desired=Desired.RUNNING)
        claimed = Claim.objects.filter(granted_at__isnull=True)
        assert {row.uid for row in waits} == {c.workload_uid for c in claimed}, self.story
        left = Job.objects.exclude(phase__in=[Phase.RUNNING, Phase.STOPPED, Phase.FAILED])
        assert set(left) == set(waits), self.story

    def drain(self) -> None:
        """With every ceiling away all come to their end, in as many turns as there are jobs."""
        with transaction.atomic():
            Guarantee.objects.update(most=None, lends=None)
            tree_changed()
        for _turn in range(Job.objects.count() + 4):
            for uid in self.alive():
                self.fake.exit(uid, code=0)
            self.work(horizon_s=6000, rounds=2)
            self.judge.look()
            if not Claim.objects.exists():
                break
        assert Claim.objects.count() == 0, self.story
        assert not Job.objects.exclude(phase__in=[Phase.STOPPED, Phase.FAILED]).exists(), self.story
        assert not Device.objects.filter(hold__isnull=False).exists()


@pytest.fixture
def chaos(
    world: Any, settle: Any, alice: Any, principal: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], Chaos]:
    def make(seed: int) -> Chaos:
        found = Chaos(seed, world.driver_for("local"), alice, principal, settle)
        decide = local._decide

        def judged(verdicts: list[Verdict], **more: Any) -> None:
            decide(verdicts, **more)
            found.judge.look()

        monkeypatch.setattr(local, "_decide", judged)
        for module in killed_in():
            monkeypatch.setattr(module, "killpoint", found.step)
        return found

    return make


def killed_in() -> list[Any]:
    import sys

    real = killpoints.killpoint
    there = [m for name, m in sys.modules.items() if name.startswith("runtime.")]
    return [m for m in there if m is not killpoints and getattr(m, "killpoint", None) is real]


def story(made: Chaos, acts: int) -> None:
    for _n in range(acts):
        made.act()
    made.quiet()
    made.drain()
    # it was worth a look
    assert min(made.judge.given, made.judge.bounded, made.judge.told) > 0


@pytest.mark.parametrize(
    "seed", [1, pytest.param(3, marks=pytest.mark.long("one story beside it"))]
)
def test_chaos_holds_no_more_than_there_is_and_breaks_no_guarantee(
    chaos: Callable[[int], Chaos], seed: int
) -> None:
    story(chaos(seed), 12)


@pytest.mark.long("two stories of it: the same test with fewer seeds")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_chaos_of_many_seeds(chaos: Callable[[int], Chaos], seed: int) -> None:
    story(chaos(seed), 60)
