"""What the tree says of people and of time: GPUs of each person, how long work runs, pools.

GPUs of each person are limits of ``quotas``, said in one place; the work is jobs, on a machine that
does nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from accounts.principal import Principal
from clusters.models import Cluster, Pool
from common.clock import now
from common.errors import Invalid, LimitExceeded
from events.models import Event
from jobs.kind import JOB
from jobs.models import Job
from projects.models import Project
from queues import selectors
from queues.choices import Beyond, changes_in_words
from queues.models import Queue
from queues.planning import Change, plan
from queues.services import queues_change
from queues.works import standings
from quotas.models import Limit
from runtime.protocol import Desired, Phase
from work import services

pytestmark = pytest.mark.django_db
TREE = "/console/queues/"
COMMAND = {"command": ["python", "train.py"]}


@pytest.fixture
def change(principal: Any, operator: Any, machine: Any, project: Project) -> Any:
    """Change the part of the project."""
    machine(cpu_milli=64_000, memory_mib=256 * 1024, gpus=["H100"] * 8)

    def make(**said: Any) -> None:
        queues_change(principal=principal(operator), changes={str(project.uid): Change(**said)})

    return make


def start(who: Principal, project: Project, **said: Any) -> Any:
    """Make one; it is not looked at, so it waits and holds its part of the limits."""
    return services.workload_create(
        principal=who, project=project, kind=JOB, said={**COMMAND, **said}
    )


# --- each person --------------------------------------------------------------------------------


def test_each_person_has_so_many_and_nobody_takes_of_another(
    change: Any, principal: Any, project: Project, alice: Any, bob: Any
) -> None:
    change(each_gpus=4)
    for who in (alice, bob):
        start(principal(who), project, gpus=4)
    with pytest.raises(LimitExceeded, match="Your limit in this project on GPUs is 4 GPU"):
        start(principal(alice), project, gpus=1)
    start(principal(alice), project)


def test_one_of_a_persons_own_goes_for_it(
    change: Any, principal: Any, project: Project, alice: Any, bob: Any
) -> None:
    change(each_gpus=4)
    Limit.objects.create(project=project, user=alice, resource="gpus", amount=6)
    Limit.objects.create(project=project, user=bob, resource="gpus", amount=1)
    start(principal(alice), project, gpus=6)
    with pytest.raises(LimitExceeded, match="is 1 GPU"):
        start(principal(bob), project, gpus=2)


def test_who_is_above_a_lowered_one_is_said_before_it_is_saved(
    change: Any, principal: Any, as_user: Any, operator: Any, project: Project, alice: Any, bob: Any
) -> None:
    change(each_gpus=4)
    start(principal(alice), project, gpus=2)
    start(principal(alice), project, gpus=2)
    start(principal(bob), project, gpus=1)
    key = str(project.uid)
    said = [(one.user, one.gpus, one.limit) for one in plan({key: Change(each_gpus=2)}).above]
    assert said == [("alice", 4, 2)]
    assert plan({key: Change(each_gpus=5)}).above == []
    assert plan({key: Change(each_gpus=0)}).above == []
    client = as_user(operator)
    asked = {"data": {"each_gpus": 2}, "content_type": "application/json"}
    told = client.patch(f"/api/v1/queues/{key}?plan=true", **asked).json()
    assert told["above"] == [{"project": "Vision", "user": "alice", "gpus": 4, "limit": 2}]
    Limit.objects.create(project=project, user=alice, resource="gpus", amount=6)
    assert plan({key: Change(each_gpus=2)}).above == []  # hers goes for it


def test_work_that_a_budget_holds_back_starts_under_no_tree(
    project: Project, alice: Any, operator: Any
) -> None:
    there = Cluster.objects.create(
        key="far", name="Far", driver="kubernetes", kinds={"h100": {"total": 2}}
    )
    waits = {"project": project, "owner": alice, "cluster_key": "far", "gpus": 1, "launch": 1}
    waits |= {"gpu_flavor": "h100", "phase": "pending", "command": ["x"], "asked_at": now()}
    beyond = {"free": "", "held": Beyond.WAITS, "loose": Beyond.BORROWS}
    rows = {
        name: Job.objects.create(**waits, name=name, over_budget=word)
        for name, word in beyond.items()
    }
    works = {work.uid: work for work in standings([there])["far"].works}
    assert set(works) == {str(rows["free"].uid), str(rows["loose"].uid)}
    assert works[str(rows["loose"].uid)].borrows
    assert not works[str(rows["free"].uid)].borrows


def test_it_is_no_limit_of_the_project_and_stays_when_that_changes(
    change: Any, as_user: Any, operator: Any, project: Project
) -> None:
    change(each_gpus=4)
    client = as_user(operator)
    path = f"/api/v1/quotas/projects/{project.slug}"
    assert client.get(path).json() == {}
    answer = client.put(path, {"gpus": 6}, content_type="application/json")
    assert answer.status_code == 200
    assert client.get(path).json() == {"gpus": 6}
    assert sorted(Limit.objects.values_list("amount", "each")) == [(4, True), (6, False)]
    change(each_gpus=0)
    assert list(Limit.objects.values_list("amount", flat=True)) == [6]


def test_only_a_project_has_people(change: Any, principal: Any, operator: Any) -> None:
    org = Queue.objects.create(name="Research")
    with pytest.raises(Invalid) as refused:
        queues_change(principal=principal(operator), changes={org.key: Change(each_gpus=2)})
    assert list(refused.value.fields) == ["each_gpus"]


# --- time ---------------------------------------------------------------------------------------


def test_a_job_gets_the_longest_time_and_may_not_ask_for_more(
    change: Any, principal: Any, project: Project, alice: Any
) -> None:
    change(longest={"train": 60, "build": 600})
    who = principal(alice)
    assert start(who, project).time_limit_minutes == 60
    assert start(who, project, time_limit_minutes=30).time_limit_minutes == 30
    for minutes in (61, 0):
        with pytest.raises(Invalid, match="at most 60 minutes") as refused:
            start(who, project, time_limit_minutes=minutes)
        assert list(refused.value.fields) == ["time_limit_minutes"]


def test_the_shortest_on_the_way_up_counts(
    change: Any, project: Project, django_assert_num_queries: Any
) -> None:
    top = Queue.objects.create(name="Top", longest={"train": 120, "inference": 5})
    org = Queue.objects.create(name="Org", parent=top, longest={"train": 240})
    change(parent=org.key)
    with django_assert_num_queries(1):
        assert selectors.longest_of(project, "train") == 120
    change(longest={"train": 45})
    assert selectors.longest_of(project, "train") == 45
    assert selectors.longest_of(project, "inference") == 5
    assert selectors.longest_of(project, "build") is None


def test_what_was_there_before_keeps_its_time_until_it_starts_again(
    change: Any, principal: Any, project: Project, alice: Any
) -> None:
    who = principal(alice)
    row = start(who, project, time_limit_minutes=600)
    change(longest={"train": 60})
    row = services.workload_edit(principal=who, row=row, said={"name": "other"})
    assert row.time_limit_minutes == 600
    assert services.extension_left(row) == 0
    Job.objects.filter(pk=row.pk).update(
        phase=Phase.STOPPED, desired=Desired.RUNNING, observed_generation=row.generation
    )
    again = services.workload_start(principal=who, row=Job.objects.get(pk=row.pk))
    assert (again.launch, again.time_limit_minutes) == (2, 60)


@pytest.mark.parametrize(
    "longest", [{"train": -1}, {"play": 60}, {"train": 60 * 24 * 367}, {"train": True}]
)
def test_times_that_make_no_sense_are_refused(change: Any, longest: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        change(longest=longest)
    assert list(refused.value.fields) == ["longest"]


# --- doors --------------------------------------------------------------------------------------


def test_the_api_says_and_sets_both_with_their_event(
    change: Any, as_user: Any, operator: Any, project: Project
) -> None:
    client, path = as_user(operator), f"/api/v1/queues/{project.uid}"
    body = {"longest": {"train": 60}, "each_gpus": 2}
    assert client.patch(path, body, content_type="application/json").status_code == 200
    found = client.get(path).json()
    assert (found["longest"], found["each_gpus"]) == ({"train": 60}, 2)
    message = Event.objects.get(verb="queue.tree-changed").message
    assert message == "each_gpus: - → 2, train minutes: - → 60"
    assert changes_in_words(message) == (
        "GPUs of each person at most: - → 2, Training minutes at most: - → 60"
    )
    taken = {"longest": {"train": 0}, "each_gpus": 0}
    client.patch(path, taken, content_type="application/json")
    found = client.get(path).json()
    assert (found["longest"], found["each_gpus"]) == ({}, None)


def test_the_page_of_a_part_sets_both_and_the_tree_shows_them_with_pools(
    change: Any, as_user: Any, operator: Any, project: Project
) -> None:
    client = as_user(operator)
    page = f"{TREE}{project.uid}/"
    said = {"weight": "1", "each_gpus": "2", "longest:train": "90", "parent": ""}
    assert client.post(page, said).status_code == 302
    assert Queue.objects.get(project=project).longest == {"train": 90}
    assert Limit.objects.get(each=True).amount == 2
    html = client.get(page).content.decode()
    assert 'name="longest:train" value="90"' in html
    cluster = selectors.look().columns[0].cluster
    Pool.objects.create(cluster=cluster, name="fast", node_labels={"a": "b"}, kinds=["job"])
    Pool.objects.create(
        cluster=cluster, name="own", node_labels={"a": "c"}, project_uids=[str(project.uid)]
    )
    html = client.get(TREE).content.decode()
    assert "2 GPUs each" in html
    assert "Training: 1 h 30 min at most" in html
    assert f'href="/console/clusters/{cluster.key}/pools/fast/"' in html
    assert f'href="{page}">{project.name}</a>' in html
    saved = client.post(page, {"weight": "1", "parent": ""})
    assert saved.status_code == 302
    assert not Limit.objects.exists()
    assert Queue.objects.get(project=project).longest == {}
