"""Who holds the GPUs of a node, and are they used? Answered by pages and API alike (A14)."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils.html import strip_tags

from clusters import accelerators, device_use
from clusters.models import Cluster, Node, Pool
from clusters.services import nodes_store
from common.clock import now
from common.templatetags.berth import NOTHING
from hubapi.models import Activity
from metrics.models import Quiet, Sample
from notebooks.models import Workspace
from runtime.capabilities.clusters import NodeChanges
from runtime.models import ObservedWorkload
from tests.clusters.fleet import fleet, node
from tests.support.queries import fewest
from volumes.models import Volume

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db: None) -> Cluster:
    made = Cluster.objects.create(
        key="east", name="East", driver="kubernetes", attached_at=now(), reachable=True
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    made.refresh_from_db()
    return made


@pytest.fixture
def client(as_user: Any, auditor: Any) -> Any:
    return as_user(auditor)


@pytest.fixture
def work(project: Any, alice: Any, cluster: Cluster) -> Any:
    """Make work that holds GPUs of a node."""

    def make(name: str, on: str, gpus: int = 1, phase: str = "running", **more: Any) -> Workspace:
        owner = more.pop("owner", alice)
        home, _made = Volume.objects.get_or_create(project=project, owner=owner, name="home")
        row = Workspace.objects.create(
            project=project,
            owner=owner,
            home=home,
            name=name,
            cluster_key=more.pop("cluster_key", "east"),
            gpus=gpus,
            phase=phase,
            **more,
        )
        ObservedWorkload.objects.create(
            cluster_key=row.cluster_key,
            uid=row.uid,
            kind="workspace",
            seen="ready",
            data={"detail": {"node": on}},
            seen_at=now(),
        )
        return row

    return make


def rows_of(client: Any, **query: str) -> dict[str, Any]:
    answer = client.get(reverse("console:cluster-nodes", kwargs={"cluster": "east"}), query)
    assert answer.status_code == 200
    return {row.record.node.name: row for row in answer.context["table"].paginated_rows}


def cells(client: Any, name: str) -> dict[str, str]:
    row = rows_of(client, q=name)[name]
    return {column.name: str(row.get_cell(column.name)) for column in row.table.columns}


def from_api(client: Any, name: str) -> Any:
    answer = client.get("/api/v1/clusters/east/nodes", {"search": name})
    return {row["name"]: row for row in answer.json()["results"]}[name]


def test_a_node_says_how_many_gpus_are_held_and_free_by_whom_and_how_they_are_used(
    client: Any, cluster: Cluster, work: Any, alice: Any, bob: Any
) -> None:
    used = work("training", "h100-7", 4)
    work("notebook", "h100-7", 1, owner=bob, gpu_flavor="h100-80")
    work("gone", "h100-7", 8, phase="stopped", desired="stopped")
    for minutes, share in ((30, 10), (0, 90)):
        at = now() - timedelta(minutes=minutes, seconds=20)
        Sample.objects.create(uid=used.uid, at=at, gpu_utilisation=share)
    others = node("h100-7", "h100-80", held={"nvidia.com/gpu": 2})
    nodes_store(cluster_key="east", changes=NodeChanges(seen=(others,)))
    shown = cells(client, "h100-7")
    assert "5 of 8" in shown["held_count"]
    assert "Held by others 2" in shown["held_count"]
    assert shown["free_count"] == "<strong>1</strong>"
    assert used.get_absolute_url() in shown["held_by"]
    said = [strip_tags(part) for part in shown["held_by"].split("<br>")]
    assert f"training {alice.label} · Vision" in said[0]
    assert said[1].startswith("4 GPUs · 90 % now, 50 % in the last hour")
    assert f"notebook {bob.label} · Vision" in said[1]
    assert said[2] == "1 GPU · use not known"
    assert "gone" not in shown["held_by"]
    told = from_api(client, "h100-7")
    assert told["gpus"] == {"h100-80": 8}
    assert told["gpus_held"] == {"h100-80": 5}
    assert told["gpus_held_by_others"] == {"h100-80": 2}
    assert told["gpus_free"] == {"h100-80": 1}
    first, second = told["held_by"]
    assert (first["name"], first["owner"], first["gpus"]) == ("training", alice.label, 4)
    assert (first["gpu_utilisation"], first["gpu_utilisation_hour"]) == (90, 50)
    assert (second["gpu_utilisation"], second["gpu_utilisation_hour"]) == (None, None)


def test_a_node_says_its_version_and_its_memory_beside_its_name_and_processors(
    client: Any, cluster: Cluster
) -> None:
    Node.objects.filter(name="h100-7").update(version="v1.33.1", memory_mib=512 * 1024)
    shown = cells(client, "h100-7")
    assert "v1.33.1" in shown["name"]
    assert [strip_tags(part) for part in shown["cpu_milli"].split("<br>")][1].startswith("512")
    assert "Ready" in shown["ready"]
    assert "Changed" in shown["ready"]


def test_old_figures_say_nothing_of_now_and_nothing_is_made_up(
    client: Any, cluster: Cluster, work: Any
) -> None:
    row = work("training", "h100-7", 4)
    at = now() - timedelta(minutes=5)
    Sample.objects.create(uid=row.uid, at=at, gpu_utilisation=40)
    assert "40 % in the last hour, not known now" in cells(client, "h100-7")["held_by"]
    Sample.objects.create(uid=row.uid, at=now(), gpu_utilisation=None, cpu_milli=5)
    holder = from_api(client, "h100-7")["held_by"][0]
    assert (holder["gpu_utilisation"], holder["gpu_utilisation_hour"]) == (None, 40)


def test_who_is_idle_is_said_beside_the_node(client: Any, cluster: Cluster, work: Any) -> None:
    row = work("notebook", "t4-3")
    since = now() - timedelta(minutes=48)
    Activity.objects.create(uid=row.uid, last_activity=since, polled_at=now())
    Quiet.objects.create(uid=row.uid, known_at=now(), since=since)
    assert "Nothing happened for 48 minutes." in cells(client, "t4-3")["held_by"]
    assert from_api(client, "t4-3")["held_by"][0]["idle_since"]


def test_a_node_that_takes_nothing_has_nothing_free(
    client: Any, cluster: Cluster, work: Any
) -> None:
    work("training", "h100-1", 2)
    taint = {"key": "maintenance", "value": "", "effect": "NoSchedule"}
    closed = (
        node("h100-0", "h100-80", ready=False),
        node("h100-1", "h100-80", schedulable=False),
        node("h100-2", "h100-80", taints=(taint,)),
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=closed))
    for facts in closed:
        assert cells(client, facts.name)["free_count"] == NOTHING
        assert from_api(client, facts.name)["gpus_free"] == {"h100-80": 0}
    assert from_api(client, "h100-1")["gpus_held"] == {"h100-80": 2}
    toleration = {"key": "maintenance", "operator": "Exists"}
    Pool.objects.create(cluster=cluster, name="p", node_labels={"a": "b"}, tolerations=[toleration])
    assert from_api(client, "h100-2")["gpus_free"] == {"h100-80": 8}


def test_nodes_are_found_by_holder_and_filtered_and_sorted_by_what_is_held(
    client: Any, cluster: Cluster, work: Any, bob: Any
) -> None:
    work("training", "h100-3", 8)
    work("notebook", "t4-3", owner=bob)
    work("slides", "h100-5", 3, owner=bob)
    assert set(rows_of(client, q="training")) == {"h100-3"}
    assert set(rows_of(client, q=bob.username)) == {"t4-3", "h100-5"}
    assert set(rows_of(client, gpus="held")) == {"h100-3", "t4-3", "h100-5"}
    assert {"h100-3", "t4-3"}.isdisjoint(rows_of(client, gpus="free"))
    assert "h100-5" in rows_of(client, gpus="free")
    assert "h100-5" not in rows_of(client, gpus="unheld")
    assert list(rows_of(client, gpus="held", sort="-held_count")) == ["h100-3", "h100-5", "t4-3"]
    assert next(iter(rows_of(client, gpus="held", sort="-free_count"))) == "h100-5"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Taints of each node that is judged, one after the other."""
    found: list[Any] = []

    def closed_by(taints: Any, *more: Any) -> str:
        found.append(taints)
        return accelerators.closed_by(taints, *more)

    monkeypatch.setattr(device_use, "closed_by", closed_by)
    return found


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ({}, "a100-40-0"),
        ({"sort": "-name"}, "t4-9"),
        ({"sort": "-cpu_milli"}, "a100-40-0"),
        ({"sort": "ready", "page": "4"}, "big-134"),
        ({"sort": "name", "q": "big", "page": "2"}, "big-050"),
    ],
)
def test_a_page_of_many_nodes_judges_only_the_nodes_that_it_shows(
    client: Any, cluster: Cluster, work: Any, judged: list[Any], query: dict[str, str], first: str
) -> None:
    many = [node(f"big-{n:03}", "h100-80") for n in range(300)]
    nodes_store(cluster_key="east", changes=NodeChanges(seen=tuple(many)))
    work("training", "big-007", 4)
    judged.clear()
    shown = rows_of(client, **query)
    assert len(shown) == len(judged) == 50
    assert next(iter(shown)) == first
    held = {name: row.record.held_count for name, row in shown.items() if row.record.held_count}
    assert held == ({"big-007": 4} if "big-007" in shown else {})


def test_what_is_held_still_sorts_and_chooses_among_all_nodes(
    client: Any, cluster: Cluster, work: Any
) -> None:
    many = [node(f"big-{n:03}", "h100-80") for n in range(300)]
    nodes_store(cluster_key="east", changes=NodeChanges(seen=tuple(many)))
    work("training", "big-299", 4)
    assert next(iter(rows_of(client, sort="-held_count"))) == "big-299"
    assert next(iter(rows_of(client, sort="-flavor"))).startswith("t4")
    assert set(rows_of(client, gpus="held")) == {"big-299"}


def test_many_holders_of_one_node_are_named_in_part_with_a_way_to_all(
    client: Any, cluster: Cluster, work: Any
) -> None:
    slices = {"nvidia.com/mig-1g.10gb": 14}
    nodes_store(
        cluster_key="east",
        changes=NodeChanges(seen=(node("mig", "h100-80", 4, accelerators=slices),)),
    )
    for n in range(11):
        work(f"w{n:02}", "mig")
    shown = cells(client, "mig")["held_by"]
    assert shown.count('class="node-holder"') == 8
    assert "and 3 more" in shown
    assert "?cluster=east&amp;node=mig" in shown


def test_workspaces_show_cluster_and_node_and_are_filtered_by_both(
    client: Any, cluster: Cluster, work: Any
) -> None:
    Cluster.objects.create(key="west", name="West", driver="kubernetes")
    work("training", "h100-7", 4)
    work("shell", "h100-7", 0)
    work("twin", "h100-7", cluster_key="west")
    work("other", "h100-70")
    work("ended", "h100-7", phase="stopped", desired="stopped")

    def names(**query: str) -> set[str]:
        answer = client.get(reverse("console:workspaces"), query)
        return {row.record.name for row in answer.context["table"].paginated_rows}

    assert names(cluster="east", node="h100-7") == {"training", "shell"}
    assert names(cluster="west") == {"twin"}
    assert names(q="h100-70") == {"other"}
    assert names(sort="where") == {"training", "shell", "twin", "other", "ended"}
    page = client.get(reverse("console:workspaces"), {"q": "training"}).content.decode()
    assert reverse("console:cluster", kwargs={"cluster": "east"}) in page
    assert reverse("console:cluster-nodes", kwargs={"cluster": "east"}) + "?q=h100-7" in page


def test_the_machines_page_says_what_is_free_on_a_cluster_and_leads_to_its_nodes(
    client: Any, cluster: Cluster, work: Any
) -> None:
    work("training", "h100-7", 4, gpu_flavor="h100-80")
    page = client.get(reverse("console:machines")).content.decode()
    assert reverse("console:cluster-nodes", kwargs={"cluster": "east"}) in page
    assert ">167<" in page  # of 171
    assert "given" not in page.partition('id="machines"')[2]  # its scheduler gives, not the portal


@pytest.mark.parametrize(
    "address",
    ["/console/clusters/east/nodes/", "/api/v1/clusters/east/nodes", "/console/workspaces/"],
)
def test_two_hundred_holders_cost_as_many_queries_as_one(
    client: Any, cluster: Cluster, work: Any, address: str
) -> None:
    def page() -> None:
        assert client.get(address).status_code == 200

    work("first", "a2-0")
    one = fewest(page)
    for n in range(199):
        work(f"w{n}", fleet()[n % 37].name)
    assert fewest(page) <= one
