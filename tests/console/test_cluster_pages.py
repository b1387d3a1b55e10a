"""Operators attach, watch, set and detach clusters; auditors read; nobody else gets in."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from clusters.models import CheckResult, Cluster, Flavor, NetworkProfile, Node, Pool
from clusters.services import nodes_store
from common import sealing
from common.clock import now
from events.models import Event
from runtime.capabilities.clusters import NodeChanges
from tests.clusters import kubeconfigs
from tests.clusters.fleet import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def keys(settings: Any) -> None:
    settings.BERTH_CLUSTER_PUBLIC_KEY, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]


@pytest.fixture
def op(as_user: Any, operator: Any) -> Any:
    return as_user(operator)


@pytest.fixture
def cluster(db: None) -> Cluster:
    made = Cluster.objects.create(
        key="east",
        name="East",
        driver="kubernetes",
        attached_at=now(),
        sealed_kubeconfig="v1.x",
        reachable=True,
        checked_at=now(),
        version="v1.36.3",
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    made.refresh_from_db()
    return made


def url(name: str, /, **kwargs: Any) -> str:
    return reverse(f"console:{name}", kwargs={"cluster": "east", **kwargs})


def page(client: Any, name: str, /, **kwargs: Any) -> str:
    answer = client.get(url(name, **kwargs))
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_short_form_is_enough_to_attach(op: Any) -> None:
    answer = op.post(
        reverse("console:cluster-attach"), {"name": "East", "kubeconfig": kubeconfigs.good()}
    )
    assert answer.status_code == 302
    row = Cluster.objects.get()
    assert answer.url == url("cluster")
    assert row.options["internet"] is True
    assert "Not seen yet" in page(op, "cluster")


def test_many_clusters_are_searched_and_come_in_pages(op: Any, cluster: Cluster) -> None:
    address = reverse("console:clusters")

    def shown(query: str = "") -> list[str]:
        answer = op.get(f"{address}{query}")
        assert answer.status_code == 200
        assert f'hx-get="{address}{query.replace("&", "&amp;")}"' in answer.content.decode()
        return [glance.cluster.key for glance in answer.context["clusters"]]

    Cluster.objects.bulk_create(
        Cluster(key=f"k-{n:03}", name=f"Site {n:03}", reachable=True, checked_at=now())
        for n in range(200)
    )
    assert shown()[:2] == ["east", "k-000"]
    assert (len(shown()), shown("?page=11")) == (20, ["k-199"])
    assert shown("?q=site+04&page=1") == [f"k-{n:03}" for n in range(40, 50)]
    assert shown("?state=attention") == []
    Cluster.objects.filter(key="k-007").update(reachable=False)
    Cluster.objects.filter(key="k-008").update(checked_at=now() - timedelta(hours=1))
    Cluster.objects.filter(key="k-009").update(reachable=False, enabled=False)
    CheckResult.objects.create(cluster=cluster, name="network", state="red", at=now())
    assert shown("?state=attention") == ["east", "k-007", "k-008"]
    assert "Nothing matches these filters" in op.get(f"{address}?q=nowhere").content.decode()


def test_where_nothing_is_attached_the_first_action_is_offered_to_who_may(
    op: Any, as_user: Any, auditor: Any
) -> None:
    Cluster.objects.all().delete()
    address, attach = reverse("console:clusters"), reverse("console:cluster-attach")
    empty = f'<a class="btn btn-primary" href="{attach}">Attach a cluster</a>'
    assert empty in op.get(address).content.decode()
    html = as_user(auditor).get(address).content.decode()
    assert "No cluster yet" in html
    assert attach not in html


def test_a_typed_name_is_asked_for_what_is_named_and_said_to_go(op: Any, cluster: Cluster) -> None:
    Pool.objects.create(cluster=cluster, name="su1", node_labels={"su": "1"}, kinds=["job"])
    NetworkProfile.objects.create(cluster=cluster, name="rdma", attachment="net/rdma")
    pool, network = page(op, "pool", name="su1"), page(op, "network", name="rdma")
    assert "Delete the pool “su1”?" in pool
    assert "open to all work again" in pool
    assert "Delete the network “rdma”?" in network
    kind = op.get(reverse("console:flavor", kwargs={"flavor": "h100-80"})).content.decode()
    assert "Delete the kind “h100-80”?" in kind


def test_an_unticked_box_of_the_whole_form_is_a_choice(op: Any) -> None:
    shown = op.get(reverse("console:cluster-attach")).context["form"]
    data = {f.html_name: f.value() for f in shown if not isinstance(f.value(), bool | None)}
    answer = op.post(
        reverse("console:cluster-attach"),
        {**data, "name": "East", "kubeconfig": kubeconfigs.good()},
    )
    assert answer.status_code == 302, answer.context["form"].errors
    assert Cluster.objects.get().options["internet"] is False


def test_the_storage_that_most_clusters_have_comes_first(op: Any) -> None:
    """Nothing makes directories on an ordinary cluster; some storage class it has."""
    form = op.get(reverse("console:cluster-attach")).context["form"]
    assert form["volume_kind"].value() == form.fields["volume_kind"].choices[0][0] == "storageclass"
    op.post(reverse("console:cluster-attach"), {"name": "East", "kubeconfig": kubeconfigs.good()})
    made = Cluster.objects.get().options
    found = [made[name] for name in ("volume_kind", "storage_class", "volume_access_mode")]
    assert found == ["storageclass", "", "ReadWriteOnce"]
    assert "default storage class" in page(op, "cluster")


def test_what_homes_lie_on_is_changed_and_shown(op: Any, cluster: Cluster) -> None:
    form = op.get(url("cluster-settings")).context["form"]
    data = {f.html_name: f.value() for f in form if f.value() not in {None, False}}
    lacking = op.post(url("cluster-settings"), {**data, "volume_kind": "nfs"})
    assert lacking.status_code == 400
    assert lacking.context["form"].errors.keys() == {"nfs_server", "nfs_export"}
    served = {"volume_kind": "nfs", "nfs_server": "nfs.example", "nfs_export": "/vols"}
    assert op.post(url("cluster-settings"), {**data, **served}).status_code == 302
    assert "nfs.example:/vols" in page(op, "cluster")


def test_a_small_account_is_attached_and_changed_by_the_forms_alone(op: Any) -> None:
    """What its self-check needs: the role that it has only in the namespaces of projects."""
    form = op.get(reverse("console:cluster-attach")).context["form"]
    data = {f.html_name: f.value() for f in form if f.value() not in {None, False}}
    data |= {"name": "East", "kubeconfig": kubeconfigs.good()}
    own = {"portal_role": "berth-projects", "portal_account": "berth/berth"}
    assert op.post(reverse("console:cluster-attach"), {**data, **own}).status_code == 302
    assert own.items() <= Cluster.objects.get().options.items()

    settings = op.get(url("cluster-settings")).context["form"]
    now_set = {f.html_name: f.value() for f in settings if f.value() not in {None, False}}
    assert own.items() <= now_set.items()
    half = op.post(url("cluster-settings"), {**now_set, "portal_account": ""})
    assert half.status_code == 400
    assert half.context["form"].errors.keys() == {"portal_account"}
    none = dict.fromkeys(own, "")
    assert op.post(url("cluster-settings"), {**now_set, **none}).status_code == 302
    assert none.items() <= Cluster.objects.get().options.items()


def test_the_list_shows_what_is_free_of_each_kind(op: Any, cluster: Cluster) -> None:
    text = op.get(reverse("console:clusters")).content.decode()
    for words in ("East", "Answers", "h100-80", "0 of 80", "v1.36.3"):
        assert words in text


def test_a_cluster_that_was_not_seen_for_a_while_says_so(op: Any, cluster: Cluster) -> None:
    Cluster.objects.update(checked_at=now() - timedelta(minutes=10))
    assert "Not seen for a while" in page(op, "cluster")


def test_the_page_has_the_checklist_with_fixes_and_says_what_follows(
    op: Any, cluster: Cluster
) -> None:
    CheckResult.objects.create(
        cluster=cluster,
        name="network",
        state="red",
        sentence="NetworkPolicy is not enforced for %(what)s.",
        values={"what": "<b>x</b>"},
        fix="kubectl get pods -A",
        at=now(),
    )
    text = page(op, "cluster")
    assert "NetworkPolicy is not enforced for &lt;b&gt;x&lt;/b&gt;." in text
    assert "kubectl get pods -A" in text
    assert "does not keep projects apart" in text
    assert "Not checked yet." in text  # the others
    answer = op.post(url("cluster-check"))
    assert answer.status_code == 302
    assert Cluster.objects.get().checks_asked_at
    assert "Running" in page(op, "cluster")


def test_what_to_do_has_the_whole_width_below_its_check(op: Any, cluster: Cluster) -> None:
    for name, state in (("rights", "red"), ("version", "green"), ("queue", "unknown")):
        fix = f"kubectl get {name}"
        CheckResult.objects.create(cluster=cluster, name=name, state=state, fix=fix, at=now())
    above, *below = page(op, "cluster").split('<tr class="check-fix"><td colspan="4">')
    assert '<tr class="has-fix"><td class="check-name">' in above
    shown = [part.split("</td>")[0] for part in below]
    assert ["rights" in shown[0], "queue" in shown[1], len(shown)] == [True, True, 2]


def test_what_must_be_mended_is_read_first(op: Any, cluster: Cluster) -> None:
    for name, state in (("version", "green"), ("storage", "red"), ("queue", "red")):
        CheckResult.objects.create(cluster=cluster, name=name, state=state, at=now())
    answer = op.get(url("cluster"))
    states = [check.state for check in answer.context["checks"]]
    assert states[:3] == ["red", "red", "unknown"]
    assert states[-1] == "green"
    text = answer.content.decode()
    assert "2 checks are red" in text
    assert text.index("2 checks are red") < text.index("GPUs by kind")


def test_a_cluster_that_does_not_answer_is_not_said_to_have_no_gpu(op: Any) -> None:
    made = Cluster.objects.create(
        key="west", name="West", driver="kubernetes", sealed_kubeconfig="v1.x", checked_at=now()
    )
    listed = reverse("console:clusters")
    assert "No GPU was seen here" not in op.get(listed).content.decode()
    Cluster.objects.filter(pk=made.pk).update(reachable=True)
    assert "No GPU was seen here" in op.get(listed).content.decode()


def test_a_pool_of_many_projects_names_some_of_them(op: Any, cluster: Cluster) -> None:
    from projects.models import Project

    made = [Project.objects.create(slug=f"p{n}", name=f"Lab {n}") for n in range(9)]
    uids = [str(project.uid) for project in made]
    Pool.objects.create(cluster=cluster, name="su1", node_labels={"su": "1"}, project_uids=uids)
    assert "Lab 0, Lab 1, Lab 2, Lab 3, Lab 4 and 4 more" in page(op, "cluster")


def test_nodes_can_be_searched_and_filtered(op: Any, cluster: Cluster) -> None:
    Node.objects.filter(name="t4-3").update(ready=False, message="kubelet is silent")
    Pool.objects.create(cluster=cluster, name="su1", node_labels={"berth.dev/su": "1"})

    def names(**query: str) -> set[str]:
        answer = op.get(url("cluster-nodes"), query)
        return {row.record.node.name for row in answer.context["table"].paginated_rows}

    assert names(q="a100-40") == {"a100-40-0", "a100-40-1"}
    assert len(names(kind="h100-80")) == 10
    assert names(ready="no") == {"t4-3"}
    assert names(pool="su1") == {f"h100-{i}" for i in range(5, 10)}
    assert "kubelet is silent" in op.get(url("cluster-nodes"), {"ready": "no"}).content.decode()
    assert "su=<wbr>1" in op.get(url("cluster-nodes"), {"q": "h100-7"}).content.decode()


def test_settings_are_changed_and_wrong_ones_come_back_with_their_sentence(
    op: Any, cluster: Cluster
) -> None:
    form = op.get(url("cluster-settings")).context["form"]
    data = {
        f.html_name: f.value() for f in form if f.value() is not None and f.value() is not False
    }
    bad = op.post(url("cluster-settings"), {**data, "blocked_cidrs": "10.0.0.0/99"})
    assert bad.status_code == 400
    assert "10.0.0.0/99" in bad.content.decode()
    good = op.post(
        url("cluster-settings"),
        {**data, "blocked_cidrs": "203.0.113.0/24\n198.51.100.7", "drain": "on"},
    )
    assert good.status_code == 302
    row = Cluster.objects.get()
    assert row.drain
    assert row.options["blocked_cidrs"] == ["203.0.113.0/24", "198.51.100.7"]
    told = Event.objects.get(verb="cluster.changed")
    assert "blocked_cidrs" in told.data["fields"]


def test_images_of_model_servers_are_named_by_line_and_wrong_ones_come_back(
    op: Any, cluster: Cluster
) -> None:
    form = op.get(url("cluster-settings")).context["form"]
    data = {f.html_name: f.value() for f in form if f.value() not in {None, False}}
    for line, said in {
        "serving-jax=registry.example/jax:1": "no model server “serving-jax”. There are: serving,",
        "serving=Registry Example/serving": "Not the name of an image, for serving: Registry Exa",
        "serving=": "Not the name of an image, for serving: -",
        "registry.example/serving:1": "Write name=value on each line",
    }.items():
        bad = op.post(url("cluster-settings"), {**data, "serving_images": line})
        assert bad.status_code == 400
        assert said in bad.content.decode(), line
    lines = "serving=registry.example/serving:1\nvllm=registry.example/vllm@sha256:" + "a" * 64
    assert op.post(url("cluster-settings"), {**data, "serving_images": lines}).status_code == 302
    kept = Cluster.objects.get().options["serving_images"]
    assert kept["serving"] == "registry.example/serving:1"
    assert set(kept) == {"serving", "vllm"}
    assert op.get(url("cluster-settings")).context["form"]["serving_images"].value() == lines
    assert op.post(url("cluster-settings"), {**data, "serving_images": ""}).status_code == 302
    assert Cluster.objects.get().options["serving_images"] == {}


def test_a_pool_is_made_for_a_kind_of_work_and_a_project(
    op: Any, cluster: Cluster, project: Any
) -> None:
    data = {
        "name": "fabric",
        "node_labels": "berth.dev/pool=fabric",
        "tolerations": "fabric=yes:NoSchedule",
        "flavors": ["h100-80"],
        "kinds": ["distributed"],
        "projects": [str(project.uid)],
        "position": "0",
    }
    assert op.post(url("pool-create"), data).status_code == 302
    pool = Pool.objects.get()
    assert pool.tolerations == [
        {"key": "fabric", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    assert pool.project_uids == [str(project.uid)]
    text = page(op, "cluster")
    assert "Reserved" in text
    assert project.name in text
    two = {**data, "node_labels": "a=b\nc=d"}
    refused = op.post(url("pool", name="fabric"), two)
    assert refused.status_code == 400
    assert "exactly one label" in refused.content.decode()
    assert op.post(url("pool-delete", name="fabric"), {"confirm": "x"}).status_code == 422
    assert op.post(url("pool-delete", name="fabric"), {"confirm": "fabric"}).status_code == 302
    assert not Pool.objects.exists()


@pytest.mark.parametrize("text", [":NoSchedule", "a b:NoSchedule", "x=y z"])
def test_a_toleration_of_everything_or_of_nonsense_is_refused(
    op: Any, cluster: Cluster, text: str
) -> None:
    data = {"name": "p", "node_labels": "a=b", "tolerations": text, "position": "0"}
    assert op.post(url("pool-create"), data).status_code == 400
    assert not Pool.objects.exists()


def test_an_extra_network_is_made_as_data(op: Any, cluster: Cluster) -> None:
    Pool.objects.create(cluster=cluster, name="fabric", node_labels={"a": "b"})
    data = {
        "name": "rdma",
        "attachment": "fabric/rail-0",
        "resource": "nvidia.com/mlnx_sriov_pf0_vf",
        "count": "1",
        "per_gpu": "on",
        "env": "NCCL_IB_HCA=mlx5",
        "pools": ["fabric"],
    }
    assert op.post(url("network-create"), data).status_code == 302
    made = NetworkProfile.objects.get()
    assert made.env == {"NCCL_IB_HCA": "mlx5"}
    assert [pool.name for pool in made.pools.all()] == ["fabric"]
    wrong = op.post(url("network-create"), {**data, "name": "x", "attachment": "../etc"})
    assert wrong.status_code == 400


def test_kinds_of_gpu_are_named_and_priced(op: Any, cluster: Cluster) -> None:
    flavors = reverse("console:flavors")
    assert "h100-80" in op.get(flavors).content.decode()
    one = reverse("console:flavor", kwargs={"flavor": "h100-80"})
    form = op.get(one).context["form"]
    data = {f.html_name: f.value() for f in form if f.value() is not None}
    assert op.post(one, {**data, "price_per_hour": "4.50", "label": "H100"}).status_code == 302
    assert str(Flavor.objects.get(name="h100-80").price_per_hour) == "4.50"
    delete = reverse("console:flavor-delete", kwargs={"flavor": "h100-80"})
    assert op.post(delete, {"confirm": "h100-80"}).status_code == 409  # nodes offer it
    made = op.post(
        reverse("console:flavor-create"),
        {
            "name": "tpu",
            "resource": "google.com/tpu",
            "node_labels": "cloud.google.com/gke-tpu-accelerator=v5e,v6e",
            "memory_mib": "0",
            "price_per_hour": "1",
            "position": "9",
        },
    )
    assert made.status_code == 302
    labels = Flavor.objects.get(name="tpu").node_labels
    assert labels == {"cloud.google.com/gke-tpu-accelerator": ["v5e", "v6e"]}


def test_detaching_asks_for_the_name(op: Any, cluster: Cluster) -> None:
    assert op.post(url("cluster-detach"), {"confirm": "east"}).status_code == 422
    assert op.post(url("cluster-detach"), {"confirm": "East"}).status_code == 302
    assert not Cluster.objects.exists()


def test_auditors_read_and_change_nothing(as_user: Any, auditor: Any, cluster: Cluster) -> None:
    client = as_user(auditor)
    text = page(client, "cluster")
    assert "Detach" not in text
    assert "disabled" in page(client, "cluster-settings")
    for name in ("cluster-check", "cluster-detach", "pool-create", "network-create"):
        assert client.post(url(name), {}).status_code == 403
    assert client.get(url("cluster-kubeconfig")).status_code == 403


def test_members_get_no_page_of_it(as_user: Any, alice: Any, cluster: Cluster) -> None:
    client = as_user(alice)
    for name in ("cluster", "cluster-nodes", "cluster-settings"):
        assert client.get(url(name)).status_code in {403, 404}


def test_what_is_part_of_the_installation_keeps_its_options(op: Any, cluster: Cluster) -> None:
    Cluster.objects.update(attached_at=None, sealed_kubeconfig="")
    assert "namespace_prefix" not in op.get(url("cluster-settings")).context["form"].fields
    answer = op.post(url("cluster-settings"), {"name": "Ours", "enabled": "on"})
    assert answer.status_code == 302
    row = Cluster.objects.get()
    assert (row.name, row.options) == ("Ours", {})
    assert op.post(url("cluster-detach"), {"confirm": "Ours"}).status_code == 409


def test_a3_the_setting_says_that_packing_gives_way_to_an_order_of_kinds(
    op: Any, cluster: Cluster
) -> None:
    del cluster
    assert "kinds of GPU in an order: there the order decides." in page(op, "cluster-settings")


def test_attaching_shows_how_to_make_the_account(as_user: Any, operator: Any) -> None:
    from html import unescape
    from pathlib import Path

    from clusters.checks import recipe

    runbook = " ".join(Path("docs/runbook/clusters.md").read_text().split())
    for line in recipe.steps().replace("\\\n", " ").splitlines():
        assert " ".join(line.split()) in runbook
    page = unescape(as_user(operator).get("/console/clusters/attach").content.decode())
    assert recipe.steps() in page
    assert "templates/admission.yaml" in page  # the fence too
