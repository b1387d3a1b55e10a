"""Changing the tree: what is refused, what is shown before it is saved, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from accounts.principal import Principal
from clusters.models import Claim, Cluster
from common.errors import Conflict, Forbidden, Invalid, NotFound
from events.models import Event
from projects.models import Project
from queues import hooks, local, services
from queues.models import Guarantee, Priority, Queue
from queues.planning import Change, plan
from queues.sharing import Share
from queues.tree import entries
from runtime.ports import AdmissionRequest, Granted
from runtime.spec import Resources

pytestmark = pytest.mark.django_db
H100 = ("local", "h100")


@pytest.fixture
def eight(machine: Any) -> Cluster:
    found: Cluster = machine(gpus=["H100"] * 8)
    return found


@pytest.fixture
def hunter(db: Any) -> Project:
    return Project.objects.create(slug="hunter", name="Hunter", phase="running")


@pytest.fixture
def allen(db: Any) -> Project:
    return Project.objects.create(slug="allen", name="Allen", phase="running")


@pytest.fixture
def who(operator: Any) -> Principal:
    return Principal(user=operator)


@pytest.fixture
def asks() -> Callable[..., AdmissionRequest]:
    def make(project: Project, gpus: int = 1) -> AdmissionRequest:
        return AdmissionRequest(
            cluster_key="local",
            uid=str(uuid4()),
            kind="job",
            project_uid=str(project.uid),
            owner_uid=str(uuid4()),
            resources=Resources(100, 100, gpus, "h100"),
        )

    return make


def key(project: Project) -> str:
    return str(project.uid)


def guaranteed(project: Project, number: int, **more: Any) -> dict[str, Change]:
    return {key(project): Change(shares={H100: Share(number, **more)})}


def test_a_plan_tells_who_starts_and_who_is_asked_and_saving_makes_it_so(
    eight, hunter, allen, who, asks
):
    for _n in range(8):
        assert isinstance(local.admit(asks(hunter)), Granted)
    waits = [asks(allen), asks(allen)]
    for one in waits:
        assert local.admit(one).lacking

    (effect,) = plan(guaranteed(allen, 2)).effects
    assert {one.uid for one in effect.starts} == {one.uid for one in waits}
    asked = {one.uid for one in effect.asked}
    assert len(asked) == 2
    assert {one.project for one in effect.asked} == {"Hunter"}
    assert not Queue.objects.exists()
    assert not Claim.objects.filter(reclaim_at__isnull=False).exists()

    services.queues_change(principal=who, changes=guaranteed(allen, 2))
    told = Claim.objects.filter(reclaim_at__isnull=False)
    assert {str(claim.workload_uid) for claim in told} == asked
    assert Guarantee.objects.get().guaranteed == 2
    event = Event.objects.get(verb="queue.tree-changed")
    assert event.message == "local/h100 guaranteed: 0 → 2"
    assert event.data["before"]["guarantees"] == {}
    assert event.data["after"]["guarantees"] == {"local/h100": [2, None, None]}
    assert len(event.data["effect"][0]["asked"]) == 2


def test_a_ceiling_that_goes_lets_in_who_waited(eight, hunter, who, asks):
    services.queues_change(principal=who, changes=guaranteed(hunter, 0, most=1))
    assert isinstance(local.admit(asks(hunter)), Granted)
    second = asks(hunter)
    assert local.admit(second).reason == "ceiling"
    services.queues_change(principal=who, changes={key(hunter): Change(shares={H100: Share()})})
    assert Claim.objects.get(workload_uid=second.uid).granted_at is not None
    assert not Guarantee.objects.exists()


def test_more_than_there_is_is_flagged_and_not_refused(eight, hunter, allen, who):
    services.queues_change(principal=who, changes=guaranteed(hunter, 6))
    made = services.queues_change(principal=who, changes=guaranteed(allen, 6))
    (promise,) = made.effects[0].promised
    assert (promise.promised, promise.exists, promise.is_over) == (12, 8, True)
    org = services.queue_create(principal=who, name="Lab")
    changes = {
        key(hunter): Change(parent=org.key),
        org.key: Change(shares={H100: Share(2)}),
    }
    (promise,) = services.queues_change(principal=who, changes=changes).effects[0].promised
    assert promise.short == ((org.key, 2, 6),)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (Share(2, most=1), "must not be less"),
        (Share(2, lends=3), "more can be lent"),
        (Share(-1), "Whole numbers"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(eight, hunter, who, share, said):
    with pytest.raises(Invalid, match=said) as refused:
        services.queues_change(principal=who, changes={key(hunter): Change(shares={H100: share})})
    assert set(refused.value.fields) == {"guarantees"}
    assert not Queue.objects.exists()


def test_a_tree_has_no_circles_and_projects_hold_no_others(eight, hunter, allen, who):
    lab = services.queue_create(principal=who, name="Lab")
    group = services.queue_create(principal=who, name="Group", parent=lab.key)
    with pytest.raises(Invalid, match="below itself"):
        services.queues_change(principal=who, changes={lab.key: Change(parent=group.key)})
    with pytest.raises(Invalid, match="no such organisation"):
        services.queues_change(principal=who, changes={key(allen): Change(parent=key(hunter))})
    with pytest.raises(Invalid, match="so called"):
        services.queue_create(principal=who, name="lab")
    with pytest.raises(Invalid, match="weight"):
        services.queues_change(principal=who, changes={lab.key: Change(weight=Decimal(-1))})
    with pytest.raises(Invalid, match="no such cluster"):
        services.queues_change(
            principal=who, changes={lab.key: Change(shares={("moon", "h100"): Share(1)})}
        )
    with pytest.raises(NotFound):
        services.queues_change(principal=who, changes={str(uuid4()): Change(weight=Decimal(2))})


def test_an_organisation_is_deleted_when_nothing_stands_below_it(eight, hunter, who):
    lab = services.queue_create(principal=who, name="Lab")
    services.queues_change(
        principal=who,
        changes={key(hunter): Change(parent=lab.key), lab.key: Change(shares={H100: Share(2)})},
    )
    with pytest.raises(Conflict, match="below it"):
        services.queue_delete(principal=who, key=lab.key)
    with pytest.raises(Conflict, match="A project stays"):
        services.queue_delete(principal=who, key=key(hunter))
    services.queues_change(principal=who, changes={key(hunter): Change(parent="")})
    services.queue_delete(principal=who, key=lab.key)
    assert lab.key not in entries()
    assert Event.objects.get(verb="queue.deleted").data["before"]["name"] == "Lab"


def test_only_operators_change_the_tree(eight, hunter, alice):
    principal = Principal(user=alice)
    for act in (
        lambda: services.queues_change(principal=principal, changes=guaranteed(hunter, 1)),
        lambda: services.queue_create(principal=principal, name="Lab"),
        lambda: services.queue_delete(principal=principal, key="x"),
        lambda: services.priority_save(principal=principal, values={}),
    ):
        with pytest.raises(Forbidden):
            act()


def test_who_writes_the_tree_elsewhere_hears_of_it_in_the_same_transaction(eight, hunter, who):
    heard: list[int] = []

    def listen() -> None:
        heard.append(Guarantee.objects.count())

    hooks.tree_changed.register(listen)
    try:
        services.queues_change(principal=who, changes=guaranteed(hunter, 1))
        services.queues_change(principal=who, changes=guaranteed(hunter, 1))  # nothing changed
    finally:
        hooks.tree_changed.unregister(listen)
    assert heard == [1]


def test_a16_fixed_gpus_for_building_and_a_shared_pool_for_training_in_one_step(
    eight, hunter, allen, who, asks
):
    both = Project.objects.create(slug="both", name="Both", phase="running")
    made = services.two_groups_make(
        principal=who,
        where=H100,
        fixed={key(hunter): 2, key(both): 1},
        pool=[key(allen), key(both)],
        name="Shared pool",
    )
    assert made.effects[0].promised[0].promised == 3
    tree = entries()
    pool = next(one for one in tree.values() if one.name == "Shared pool")
    assert tree[key(allen)].parent == tree[key(both)].parent == pool.key
    assert tree[key(hunter)].share(H100) == Share(2, most=2, lends=0)
    assert tree[key(both)].share(H100) == Share(1, lends=0)
    # what is fixed is lent to nobody: five of eight are the pool's
    started = [isinstance(local.admit(asks(allen)), Granted) for _n in range(8)]
    assert started.count(True) == 5
    assert isinstance(local.admit(asks(hunter)), Granted)
    assert isinstance(local.admit(asks(hunter)), Granted)
    assert local.admit(asks(hunter)).reason == "ceiling"
    assert Event.objects.filter(verb__in=["queue.tree-changed", "queue.created"]).count() == 4


def test_a_priority_is_made_changed_and_deleted_and_each_purpose_keeps_its_own(who):
    row = services.priority_save(
        principal=who,
        values={"name": "night", "label": "Night", "value": 5, "who": "everybody", "purpose": ""},
    )
    services.priority_save(principal=who, priority=row, values={"value": 7, "name": "other"})
    row.refresh_from_db()
    assert (row.name, row.value) == ("night", 7)
    changed = Event.objects.get(verb="priority.changed")
    assert (changed.data["before"]["value"], changed.data["after"]["value"]) == (5, 7)
    for values, field in (
        ({"name": "Night!"}, "name"),
        ({"name": "train"}, "name"),
        ({"name": "x", "value": 2_000_000}, "value"),
        ({"name": "x", "purpose": "train"}, "purpose"),
        ({"name": "x", "who": "nobody"}, "who"),
        ({"name": "x", "label": " "}, "label"),
    ):
        with pytest.raises(Invalid) as refused:
            services.priority_save(
                principal=who, values={"label": "L", "value": 1, "who": "everybody", **values}
            )
        assert field in refused.value.fields
    services.priority_delete(principal=who, priority=row)
    with pytest.raises(Conflict):
        services.priority_delete(principal=who, priority=Priority.objects.get(purpose="train"))
