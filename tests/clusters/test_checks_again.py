"""A self-check that could not be asked is asked again in minutes, not in a day."""

from datetime import timedelta

import pytest
from django.db.models import F

from accounts.principal import Principal
from clusters import checks
from clusters.checks.base import Answer, Check, green
from clusters.models import CheckResult, Cluster
from clusters.services import checks_ask
from clusters.usable import launch_refusal
from common.clock import now
from runtime.protocol import Unreachable
from tests.clusters.probing import network_of

WELL = {"before": 0, "incoming": 0, "outgoing": 0}
MOMENT = timedelta(seconds=1)


class World:
    """One cluster; what answers there is ``api``, or the driver's error."""

    def __init__(self):
        self.api = None
        self.cluster = Cluster.objects.create(
            key="c", name="C", driver="kubernetes", options={"check_image": "x"}
        )
        self.asked = 0

    def asker(self, _cluster):
        self.asked += 1
        if isinstance(self.api, Exception):
            raise self.api
        return self.api

    def well(self):
        self.api = answering(**WELL)

    def wait(self) -> timedelta:
        """How long until it is asked again by itself."""
        self.cluster.refresh_from_db()
        return self.cluster.checks_due_at - now()

    def later(self, by):
        Cluster.objects.update(
            checks_ran_at=F("checks_ran_at") - by, checks_due_at=F("checks_due_at") - by
        )


def answering(**codes):
    api = network_of(**codes)
    said = {"major": "1", "minor": "33", "gitVersion": "v1.33"}
    api.answers = {"version": Answer(200, said), **api.answers}
    api.close = lambda: None
    return api


class Silent:
    def ask(self, *_args, **_more):
        raise Unreachable("The cluster does not answer.")

    def close(self):
        pass


@pytest.fixture
def world(db, monkeypatch):
    made = World()
    monkeypatch.setattr(checks, "_asker", made.asker)
    wanted = tuple(check for check in checks.CHECKS if check.name in {"version", "network"})
    monkeypatch.setattr(checks, "CHECKS", wanted)
    return made


@pytest.mark.parametrize(
    "trouble",
    [
        Silent(),
        Unreachable("Its credential can't be used now."),
        answering(before=137),
        answering(before=0, incoming=0, outgoing=137),
    ],
)
def test_one_bad_minute_does_not_close_a_new_cluster_for_a_day(world, trouble):
    world.api = trouble
    assert checks.run_due() == 1
    assert launch_refusal("c")
    assert checks.run_due() == 0  # not at once
    assert timedelta() < world.wait() <= timedelta(minutes=5)
    world.well()
    world.later(timedelta(minutes=5))
    assert checks.run_due() == 1
    assert launch_refusal("c") == ""
    world.later(timedelta(hours=23))
    assert checks.run_due() == 0
    world.later(timedelta(hours=1))
    assert checks.run_due() == 1  # each day


def test_a_server_that_refuses_is_asked_again_soon(world):
    world.api = answering()
    world.api.answers["version"] = Answer(401, {"message": "Unauthorized"})
    checks.run_due()
    assert CheckResult.objects.get().state == "red"
    assert world.wait() <= timedelta(minutes=5)


def test_a_fault_that_was_found_is_not_asked_again_all_day(world):
    world.api = answering(before=0, incoming=10, outgoing=10)
    checks.run_due()
    assert "does not keep projects apart" in launch_refusal("c")
    world.later(timedelta(hours=23))
    assert checks.run_due() == 0


def test_a_cluster_that_stays_away_is_asked_ever_less_often_within_bounds(world):
    world.api = Silent()
    waits = []
    for _round in range(12):
        assert checks.run_due() == 1
        waits.append(world.wait() + MOMENT)
        world.later(waits[-1])
    assert waits[0] < waits[1] < waits[2]
    assert timedelta(hours=1) < waits[-1] <= timedelta(hours=2) + MOMENT
    assert abs(waits[-1] - waits[-2]) <= MOMENT


def test_asking_by_hand_does_not_wait_and_begins_anew(world, operator):
    world.api = Silent()
    for _round in range(5):
        checks.run_due()
        world.later(world.wait() + MOMENT)
    checks.run_due()
    assert world.wait() > timedelta(minutes=30)
    checks_ask(principal=Principal(user=operator), cluster=world.cluster)
    assert checks.run_due() == 1
    assert world.wait() <= timedelta(minutes=5)
    assert checks.run_due() == 0


@pytest.fixture
def questions(world, monkeypatch):
    """Three questions in place of all; what ``world.fails`` names comes to nothing."""
    asked, world.fails = [], {"slow"}

    def question(name):
        def act(_subject, _bench):
            asked.append(name)
            if name in world.fails:
                raise Unreachable("Not now.")
            return green(name, "Well.")

        return Check(name, name, act)

    monkeypatch.setattr(checks, "CHECKS", tuple(map(question, ("version", "rights", "slow"))))
    world.well()
    return asked


def asked_in(questions):
    found = list(questions)
    questions.clear()
    return found


def test_a_repetition_asks_only_what_is_not_green_yet(world, questions):
    assert checks.run_due() == 1
    assert asked_in(questions) == ["version", "rights", "slow"]
    for _again in range(2):
        world.later(world.wait() + MOMENT)
        assert checks.run_due() == 1
        assert asked_in(questions) == ["version", "slow"]
    world.fails = set()
    world.later(world.wait() + MOMENT)
    checks.run_due()
    assert asked_in(questions) == ["version", "slow"]
    assert set(CheckResult.objects.values_list("state", flat=True)) == {"green"}
    world.cluster.refresh_from_db()
    assert world.cluster.checks_due_at is None  # whole again


def test_each_day_and_when_somebody_asks_everything_is_asked(world, questions, operator):
    world.fails = set()
    checks.run_due()
    asked_in(questions)
    checks_ask(principal=Principal(user=operator), cluster=world.cluster)
    checks.run_due()
    assert asked_in(questions) == ["version", "rights", "slow"]
    world.later(timedelta(hours=24))
    CheckResult.objects.update(at=F("at") - timedelta(hours=24))
    checks.run_due()
    assert asked_in(questions) == ["version", "rights", "slow"]


def test_a_green_answer_of_before_that_could_not_be_renewed_is_asked_for_again(
    world, questions, operator
):
    world.fails = set()
    checks.run_due()
    world.fails = {"slow"}
    checks_ask(principal=Principal(user=operator), cluster=world.cluster)
    checks.run_due()
    assert CheckResult.objects.get(name="slow").state == "green"  # as it was found before
    asked_in(questions)
    world.later(world.wait() + MOMENT)
    checks.run_due()
    assert asked_in(questions) == ["version", "slow"]
