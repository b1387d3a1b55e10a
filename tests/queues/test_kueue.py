"""Queues that Berth keeps in Kueue: from rows to what the cluster is told, and when."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters import registry, services
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from clusters.options import ClusterOptions, changed, options_of
from clusters.services import cluster_detach, cluster_update
from common import sealing
from common.clock import now
from common.errors import Conflict, Invalid
from events.models import Event
from jobs.models import Job
from jobs.runtime_spec import workload_spec
from placement.decision import Request
from placement.fleet import Fleet
from projects import namespaces
from projects.models import Project
from queues import admission, kueue, selectors
from queues.hooks import tree_changed
from queues.models import ClusterQueues, Guarantee, Priority, Queue
from queues.standing import left_on
from runtime import ports
from runtime.capabilities.clusters import NodeChanges, NodeFacts
from runtime.capabilities.queues import QueueShare, QueueTree
from runtime.hints import hint
from runtime.ports import AdmissionRequest, Granted, Waiting
from runtime.protocol import Denied, Desired, NotYet, Phase, Unreachable
from runtime.reasons import NOT_ASKED, Reason
from runtime.spec import Resources
from tests.projects.cluster_double import KEY, TenantFake
from tests.support import driving
from work.services import workload_edit
from work.waits import wait_of

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
MODEL = "nvidia.com/gpu.product"


class QueueFake(TenantFake):
    """A cluster that keeps the tree it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.tree: QueueTree | None = None
        self.broken_queues: tuple[str, ...] = ()
        self.away = ""
        self.in_use = 0
        self.waiting: tuple[str, ...] = ()

    def ensure_queues(self, tree: QueueTree) -> tuple[str, ...]:
        if self.away:
            raise Denied(self.away)
        written, self.broken_queues = self.broken_queues, ()
        if self.tree != tree:
            self.tree, written = tree, ("Cohort/berth",)
        return written

    def remove_queues(self) -> None:
        if self.in_use:
            self.in_use -= 1
            raise NotYet("In use.", retry_in=0.01)
        self.tree = None

    def waiting_in(self, namespace: str) -> tuple[str, ...]:
        assert namespace
        return self.waiting


@pytest.fixture
def fake(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueueFake]:
    driver = QueueFake()
    monkeypatch.setitem(registry.DRIVERS, "kubernetes", lambda _cluster: driver)
    options = {"manages_queues": True, "trusted": True}
    Cluster.objects.create(
        key=KEY,
        name="Alpha",
        driver="kubernetes",
        reachable=True,
        options=options,
        attached_at=now(),
    )
    registry.reset()
    yield driver
    registry.reset()


@pytest.fixture
def cluster(fake: QueueFake) -> Cluster:
    kueue.cluster_changed(KEY)
    driving.run_due()
    return Cluster.objects.get(key=KEY)


@pytest.fixture
def place(cluster: Cluster, project: Any) -> Any:
    made = namespaces.place_ensure(project=project, cluster_key=KEY)
    driving.run_due()
    assert made is not None
    return made


def row() -> ClusterQueues:
    return ClusterQueues.objects.get(cluster_key=KEY, deleted_at__isnull=True)


def look_again() -> None:
    hint(row())
    driving.run_due()


def node(name: str, product: str = "", gpus: int = 8, **changes: Any) -> NodeFacts:
    facts = {
        "ready": True,
        "cpu_milli": 64_000,
        "memory_mib": 262_144,
        "accelerators": {GPU: gpus, "example.com/rdma": 4} if product else {},
        "labels": {MODEL: product} if product else {},
    }
    return NodeFacts(name, **{**facts, **changes})


def asked(project: Project) -> AdmissionRequest:
    return AdmissionRequest(
        KEY, "7" * 32, "job", str(project.uid), "", Resources(1000, 1024, gpus=1)
    )


def test_what_only_borrows_has_the_class_behind_all_others(cluster: Cluster) -> None:
    Priority.objects.get_or_create(name="over-budget", defaults={"label": "B", "value": -1000})
    found = kueue.labels_of(cluster, "train", "urgent", over_budget="borrows")
    assert found["priority"] == "berth-over-budget"
    assert "over-budget" in kueue.tree_on(cluster).priorities


def test_what_waits_for_a_budget_is_not_made(place: Any, project: Project) -> None:
    assert isinstance(kueue.admit(asked(project)), Granted)
    held = kueue.admit(replace(asked(project), over_budget="waits"))
    assert isinstance(held, Waiting)
    assert held.reason == Reason.BUDGET


def test_a_project_has_a_queue_before_its_work_is_made(
    fake: QueueFake, cluster: Cluster, project: Any
) -> None:
    waits = admission.admit(asked(project))
    assert isinstance(waits, Waiting)
    assert waits.reason == Reason.NO_QUEUE
    assert ports.tenant_ready(KEY, str(project.uid))
    driving.run_due()
    assert admission.admit(asked(project)) == Granted()
    assert fake.tree is not None
    (part,) = fake.tree.parts
    assert (part.key, part.parent, part.shares) == (str(project.uid), "", {})
    assert part.namespace in fake.places


def test_the_tree_is_what_rows_and_nodes_say(
    fake: QueueFake, cluster: Cluster, place: Any, project: Any
) -> None:
    models = {MODEL: ["H100-SXM", "H100-PCIe"]}
    flavor = Flavor.objects.create(name="h100", label="H100", node_labels=models)
    Pool.objects.create(cluster=cluster, name="far", tolerations=[{"key": "far"}])
    NetworkProfile.objects.create(
        cluster=cluster, name="ib", attachment="net/ib", resource="example.com/rdma"
    )
    services.nodes_store(
        cluster_key=KEY,
        changes=NodeChanges(
            seen=(
                node("sxm-0", "H100-SXM", held={GPU: 3}),
                node("sxm-1", "H100-SXM", ready=False),
                # others of its kind are open: work without devices has those
                node("sxm-2", "H100-SXM", 0, taints=({"key": "far", "effect": "NoSchedule"},)),
                node("pcie", "H100-PCIe", 4, taints=({"key": GPU, "effect": "NoSchedule"},)),
                node("cpu-0"),
                node("cpu-1", taints=({"key": "theirs", "effect": "NoSchedule"},)),
            ),
            full=True,
        ),
    )
    org = Queue.objects.create(name="Research", weight=2)
    own = Queue.objects.create(name=project.slug, project=project, parent=org)
    Guarantee.objects.create(queue=org, cluster=cluster, flavor=flavor, guaranteed=6, lends=1)
    Guarantee.objects.create(queue=own, cluster=cluster, flavor=flavor, guaranteed=2, most=5)
    tree_changed()
    driving.run_due()
    tree = fake.tree
    assert tree is not None
    assert {p.name: (p.parent, p.weight, p.namespace, dict(p.shares)) for p in tree.parts} == {
        "Research": ("", 2, "", {"h100": QueueShare(6, None, 1)}),
        project.name: (org.key, 1, place.namespace, {"h100": QueueShare(2, 5)}),
    }
    found = {(k.variant, k.devices, k.open, k.beside["cpu"]) for k in tree.kinds}
    assert found == {("h100-sxm", 5, True, 64_000), ("h100-pcie", 4, False, 64_000)}
    assert {k.beside["example.com/rdma"] for k in tree.kinds} == {4}
    assert tree.plain["cpu"] == 64_000  # the tainted one is for nobody
    assert tree.priorities == dict(Priority.objects.values_list("name", "value"))


def test_levels_are_those_that_nodes_of_a_kind_carry(
    fake: QueueFake, cluster: Cluster, place: Any
) -> None:
    """A node that lacks what others of its kind carry is not there for Kueue: nor in its quota."""
    Flavor.objects.create(name="h100", label="H100", node_labels={MODEL: ["H100"]})
    Flavor.objects.create(name="t4", label="T4", node_labels={MODEL: ["T4"]})
    stands = {"example.com/su": "1", "rack": "7"}
    services.nodes_store(
        cluster_key=KEY,
        changes=NodeChanges(
            seen=(
                node("a", labels={MODEL: "H100", **stands}, accelerators={GPU: 8}),
                node("b", labels={MODEL: "H100", "rack": "7"}, accelerators={GPU: 8}),
                node("c", "T4", 4),
                node("d"),
            ),
            full=True,
        ),
    )
    look_again()
    assert fake.tree is not None
    assert [(kind.devices, kind.levels) for kind in fake.tree.kinds] == [(16, ()), (4, ())]
    assert not fake.tree.plain_levels
    cluster.options |= {"unit_label": "example.com/su", "rack_label": "rack"}
    cluster.save()
    look_again()
    host = "kubernetes.io/hostname"
    assert [(kind.devices, kind.levels) for kind in fake.tree.kinds] == [
        (8, ("example.com/su", "rack", host)),
        (4, (host,)),
    ]
    assert fake.tree.plain_levels == (host,)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"unit_label": "no label"}, "unit_label"),
        ({"rack_label": "a/b/c"}, "rack_label"),
        ({"unit_label": "x", "rack_label": "x"}, "rack_label"),
        ({"rack_label": "kubernetes.io/hostname"}, "rack_label"),
        ({"unit_label": "x", "manages_queues": False}, "unit_label"),
    ],
)
def test_levels_that_make_no_sense_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        changed(ClusterOptions(manages_queues=True), options)
    assert field in refused.value.fields


def test_levels_change_only_while_there_is_no_work(
    cluster: Cluster, operator: Any, principal: Any, project: Any, alice: Any
) -> None:
    job = Job.objects.create(project=project, owner=alice, name="j", cluster_key=KEY)
    change: dict[str, Any] = {"principal": principal(operator), "cluster": cluster, "values": {}}
    with pytest.raises(Conflict, match="while there is work"):
        cluster_update(**change, options={"rack_label": "rack"})
    Job.objects.filter(pk=job.pk).update(phase=Phase.STOPPED, desired=Desired.STOPPED)
    cluster_update(**change, options={"rack_label": "rack"})
    cluster.refresh_from_db()
    assert options_of(cluster.options).levels == {"rack": "rack", "host": "kubernetes.io/hostname"}


def test_what_was_changed_by_hand_is_put_back_and_told(
    fake: QueueFake, cluster: Cluster, place: Any
) -> None:
    look_again()
    assert not Event.objects.filter(verb="queues.restored").exists()
    fake.broken_queues = (f"ClusterQueue/{place.namespace}",)
    assert row().next_reconcile_at is not None
    look_again()
    event = Event.objects.get(verb="queues.restored")
    assert event.message == f"ClusterQueue/{place.namespace}"
    tree_changed()  # what we change ourselves is not told so
    Queue.objects.create(name="New")
    driving.run_due()
    assert Event.objects.filter(verb="queues.restored").count() == 1


def test_without_kueue_nothing_new_is_made_and_nothing_is_lost(
    fake: QueueFake, cluster: Cluster, place: Any, project: Any, alice: Any
) -> None:
    fake.away = "A webhook of the cluster does not answer."
    look_again()
    assert (row().phase, row().reason, row().message) == (
        Phase.PENDING,
        Reason.NO_QUEUE,
        fake.away,
    )
    job = Job.objects.create(
        project=project,
        owner=alice,
        name="train",
        cluster_key=KEY,
        image="example.org/train:1",
        launch=1,
        gpus=1,
        cpu_milli=1000,
        memory_mib=1024,
    )
    hint(job)
    driving.run_due()
    job.refresh_from_db()
    assert (job.phase, job.reason, job.message) == (Phase.PENDING, Reason.NO_QUEUE, fake.away)
    assert fake.calls("ensure") == 0
    fake.away = ""
    look_again()
    assert fake.calls("ensure") == 1


def test_a_namespace_in_trouble_keeps_its_queue(
    fake: QueueFake, cluster: Cluster, place: Any, project: Any
) -> None:
    type(place).objects.filter(pk=place.pk).update(phase=Phase.PENDING, reason=Reason.DENIED)
    look_again()
    assert [part.namespace for part in fake.tree.parts] == [place.namespace]
    type(place).objects.filter(pk=place.pk).update(desired=Desired.ABSENT)
    look_again()
    assert fake.tree.parts == ()


def test_what_work_is_for_says_its_priority(
    fake: QueueFake, cluster: Cluster, place: Any, project: Any, alice: Any
) -> None:
    job = Job(
        project=project, owner=alice, name="train", cluster_key=KEY, image="example.org/a:1", gpus=1
    )
    job.save()
    usual = Priority.objects.get(purpose="train").name
    assert workload_spec(job).priority == f"berth-{usual}"
    job.queue, job.priority = "theirs", Priority.objects.exclude(name=usual)[0].name
    spec = workload_spec(job)
    assert (spec.queue, spec.priority) == ("", f"berth-{job.priority}")
    Cluster.objects.filter(key=KEY).update(options={})
    registry.reset()
    spec = workload_spec(job)
    assert (spec.queue, spec.priority) == ("theirs", job.priority)


def test_an_operator_turns_it_on_and_off_while_nothing_runs(
    fake: QueueFake, cluster: Cluster, operator: Any, principal: Any, project: Any, alice: Any
) -> None:
    of_it = {"principal": principal(operator), "cluster": cluster}
    change = {**of_it, "values": {}}
    with pytest.raises(Invalid):
        cluster_update(**change, options={"queue": "theirs"})
    job = Job.objects.create(project=project, owner=alice, name="a", cluster_key=KEY)
    with pytest.raises(Conflict):
        cluster_update(**change, options={"manages_queues": False})
    job.phase = Phase.STOPPED
    job.save()
    with pytest.raises(Conflict, match="Switch that off"):
        cluster_detach(**of_it, confirm="Alpha")
    fake.in_use = 2
    cluster_update(**change, options={"manages_queues": False})
    driving.run_due()
    assert fake.tree is None
    assert not ClusterQueues.objects.filter(deleted_at__isnull=True).exists()
    cluster_update(**change, options={"manages_queues": True})
    driving.run_due()
    assert fake.tree is not None
    assert row().phase == Phase.RUNNING


def test_a_number_of_queries_whatever_the_number_of_projects(
    cluster: Cluster, django_assert_num_queries: Any
) -> None:
    for n in range(20):
        project = Project.objects.create(name=f"p{n}", slug=f"p{n}")
        made = namespaces.place_ensure(project=project, cluster_key=KEY)
        assert made is not None
        type(made).objects.filter(pk=made.pk).update(external_ref={"namespace": made.namespace})
    with django_assert_num_queries(8):
        assert len(kueue.tree_on(cluster).parts) == 20


# --- what somebody who waits there is told ----------------------------------------------------
LINE = {"word": "WaitingForQuota", "lacks": [["h100", GPU, "2"]], "most": [], "asked": 0}


@pytest.fixture
def nodes(cluster: Cluster, place: Any, settings: Any) -> Flavor:
    """Eight GPUs of a kind; this process holds the cluster's credential."""
    settings.BERTH_CLUSTER_PRIVATE_KEY = sealing.new_pair()[0]
    flavor = Flavor.objects.create(name="h100", label="H100", node_labels={MODEL: ["H100"]})
    changes = NodeChanges(seen=(node("n0", "H100"),), full=True)
    services.nodes_store(cluster_key=KEY, changes=changes)
    return flavor


@pytest.fixture
def job(project: Any, alice: Any) -> Any:
    def make(name: str, **columns: Any) -> Job:
        values = {
            "cluster_key": KEY,
            "image": "example.org/train:1",
            "command": ["train"],
            "launch": 1,
            "cpu_milli": 1000,
            "memory_mib": 1024,
            "asked_at": now(),
        }
        return Job.objects.create(
            **{"project": project, "owner": alice, "name": name, **values, **columns}
        )

    return make


@pytest.fixture
def held(job: Any, place: Any) -> Any:
    """Work that was handed to the cluster, whose queue holds it back."""

    def make(name: str, **columns: Any) -> Job:
        ref = {
            "launch": 1,
            "driver": {"namespace": place.namespace, "name": f"ws-{name}"},
            "line": LINE,
        }
        said = {"phase": Phase.PENDING, "reason": Reason.QUEUED, "external_ref": ref}
        return job(name, **{"gpus": 3, "observed_generation": 1, **said, **columns})

    return make


def test_g13_what_others_wait_for_within_their_guarantee_is_not_free(
    nodes: Flavor, cluster: Cluster, held: Any, project: Any
) -> None:
    """Who took a place may not have it yet; what borrows, or is one's own, keeps nothing."""
    Cluster.objects.filter(pk=cluster.pk).update(kinds={"h100": {"total": 8}})
    cluster.refresh_from_db()
    other = Project.objects.create(name="Other", slug="other")
    queue = Queue.objects.create(project=other, name="other")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=nodes, guaranteed=3)
    held("mine", gpu_flavor="h100")
    assert left_on(cluster, str(project.uid))["h100"] == (8, False)
    held("owed", gpu_flavor="h100", project=other)
    held("more", gpu_flavor="h100", project=other)
    assert left_on(cluster, str(project.uid))["h100"] == (5, False)
    Guarantee.objects.update(lends=0)
    assert left_on(cluster, str(project.uid))["h100"] == (5, False)


def test_g13_what_their_own_work_gives_way_to_takes_nothing_from_others(
    nodes: Flavor, cluster: Cluster, job: Any, held: Any, project: Any
) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(kinds={"h100": {"total": 16}})
    cluster.refresh_from_db()
    other = Project.objects.create(name="Other", slug="other")
    for whose in (project, other):
        queue = Queue.objects.create(project=whose, name=whose.slug)
        Guarantee.objects.create(queue=queue, cluster=cluster, flavor=nodes, guaranteed=8)
    low, high = Priority.objects.order_by("value").first(), Priority.objects.order_by("-value")[0]
    assert low is not None
    theirs = {"gpu_flavor": "h100", "project": other, "gpus": 8}
    job("low", phase=Phase.RUNNING, priority=low.name, **theirs)
    held("high", priority=high.name, **theirs)
    assert left_on(cluster, str(project.uid))["h100"] == (8, False)


def test_g13_what_the_team_is_guaranteed_is_nobodys_alone_in_it(
    nodes: Flavor, cluster: Cluster, held: Any, project: Any
) -> None:
    """To who is not of the team it is taken."""
    Cluster.objects.filter(pk=cluster.pk).update(kinds={"h100": {"total": 8}})
    cluster.refresh_from_db()
    team = Queue.objects.create(name="Team")
    Guarantee.objects.create(queue=team, cluster=cluster, flavor=nodes, guaranteed=8)
    mate, foreign = (Project.objects.create(name=n, slug=n) for n in ("mate", "foreign"))
    for whose in (project, mate):
        Queue.objects.create(project=whose, name=whose.slug, parent=team)
    held("owed", gpu_flavor="h100", project=mate, gpus=8)
    assert left_on(cluster, str(project.uid))["h100"] == (8, False)
    assert left_on(cluster, str(foreign.uid))["h100"] == (0, False)


def test_g13_what_has_not_asked_for_a_place_keeps_none_free(
    nodes: Flavor, cluster: Cluster, held: Any, project: Any
) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(kinds={"h100": {"total": 8}})
    cluster.refresh_from_db()
    other = Project.objects.create(name="Other", slug="other")
    queue = Queue.objects.create(project=other, name="other")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=nodes, guaranteed=8)
    row = held("asks", gpu_flavor="h100", project=other, gpus=8)
    assert left_on(cluster, str(project.uid))["h100"] == (0, False)
    for reason in sorted(NOT_ASKED):
        Job.objects.filter(pk=row.pk).update(reason=reason)
        assert left_on(cluster, str(project.uid))["h100"] == (8, False), reason


def test_f13_its_place_is_what_the_clusters_queue_says_and_its_sentence_says_what_it_lacks(
    fake: QueueFake, nodes: Flavor, held: Any, alice: Any, principal: Any
) -> None:
    row = held("b")
    fake.waiting = ("ws-of-kubectl", "ws-a", "ws-b")
    found = wait_of(principal(alice), row)
    assert found is not None
    assert found.position == 3
    assert found.sentence == (
        "What it asks for is in use, or kept for others: 2 GPUs (h100) must get free."
    )


@pytest.mark.parametrize("trouble", ["not among them", "no answer", "silent"])
def test_a_place_that_nobody_tells_is_said_as_unknown(
    fake: QueueFake, nodes: Flavor, held: Any, alice: Any, principal: Any, trouble: str
) -> None:
    row = held("b")
    if trouble == "no answer":
        fake.waiting_in = lambda _namespace: (_ for _ in ()).throw(Unreachable("gone"))  # type: ignore[method-assign]
    if trouble == "silent":
        Cluster.objects.filter(key=KEY).update(reachable=False)
        fake.waiting = ("ws-b",)
    found = wait_of(principal(alice), row)
    assert found is not None
    assert found.position is None


def test_what_the_clusters_queue_holds_back_becomes_another_one_by_a_press(
    fake: QueueFake, nodes: Flavor, held: Any, alice: Any, principal: Any
) -> None:
    other = Project.objects.create(slug="other", name="Other")
    held("runs", project=other, gpus=6, gpu_flavor="h100", phase=Phase.RUNNING, reason="")
    row = held("b", gpu_flavor="h100")
    found = wait_of(principal(alice), row)
    assert found is not None
    assert [one.said for one in found.changes] == [{"gpus": 2}, {"gpus": 1}]
    workload_edit(principal=principal(alice), row=row, said=found.changes[0].said)
    row.refresh_from_db()
    assert (row.gpus, row.launch) == (2, 2)


@pytest.mark.parametrize(
    ("share", "starts", "reason"),
    [
        ({}, True, "starts-now"),
        ({"most": 2}, False, "ceiling"),
        ({"guaranteed": 2}, True, "starts-now"),
    ],
)
def test_what_is_free_starts_work_only_where_its_project_may_have_it(
    fake: QueueFake, nodes: Flavor, place: Any, project: Any, share: Any, starts: bool, reason: str
) -> None:
    cluster = Cluster.objects.get(key=KEY)
    queue = Queue.objects.create(name="q", project=project)
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=nodes, **share)
    asked = Request.of_size("job", Resources(1000, 1024, gpus=3))
    made = Fleet([cluster], project.uid).decide(cluster, asked)
    assert (made.starts_now, made.standing.reason.id) == (starts, reason)


def test_what_others_keep_for_themselves_starts_nothing_of_ours(
    fake: QueueFake, nodes: Flavor, place: Any, project: Any
) -> None:
    cluster = Cluster.objects.get(key=KEY)
    other = Project.objects.create(slug="other", name="Other")
    queue = Queue.objects.create(name="q", project=other)
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=nodes, guaranteed=6, lends=0)
    asked = Request.of_size("job", Resources(1000, 1024, gpus=3))
    made = Fleet([cluster], project.uid).decide(cluster, asked)
    assert made.rooms[0].free == 8
    assert (made.starts_now, made.standing.reason.id) == (False, "in-use")


def test_what_keeps_two_groups_apart_on_a_cluster_is_said(cluster: Cluster) -> None:
    """A16: the pair is made for a kind of GPU; which nodes that means is not always the same."""
    assert "both groups run on the same nodes" in selectors.kept_apart(cluster)
    Pool.objects.create(cluster=cluster, name="any")
    Pool.objects.create(cluster=cluster, name="train", node_labels={"pool": "train"})
    assert "its pools (train)" in selectors.kept_apart(cluster)
    cluster.options = {**cluster.options, "manages_queues": False}
    assert "Alpha decides itself who starts" in selectors.kept_apart(cluster)
    here = Cluster(key="local", name="Here", driver="local")
    assert selectors.kept_apart(here) == ""
