"""Attaching clusters by kubeconfig: parsed by an allow-list, sealed, never readable again."""

import json

import pytest
from django.core.management import call_command
from django.urls import reverse

from clusters import registry
from clusters.checks.base import green
from clusters.models import CheckResult, Cluster, Node
from clusters.services.health import checks_store
from common import sealing
from common.clock import now
from events.models import Event
from tests.clusters import kubeconfigs
from tests.clusters.kubeconfigs import CANARY

pytestmark = pytest.mark.django_db
CLUSTERS = "/api/v1/clusters"


@pytest.fixture(autouse=True)
def keys(settings):
    public, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PUBLIC_KEY = public
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]
    registry.reset()
    yield settings
    registry.reset()


@pytest.fixture
def op(as_user, operator):
    return as_user(operator)


def attach(client, kubeconfig=None, **more):
    body = {"name": "East", "kubeconfig": kubeconfig or kubeconfigs.good(), **more}
    return client.post(CLUSTERS, body, content_type="application/json")


def test_an_operator_attaches_a_cluster_and_sees_whose_certificate_it_is(op):
    answer = attach(op, options={"namespace_prefix": "t-", "trusted": True})
    assert answer.status_code == 201, answer.json()
    shown = answer.json()
    assert (shown["key"], shown["server"]) == ("east", "https://k8s.example.org:6443")
    assert len(shown["fingerprint"].split(":")) == 32
    assert shown["options"]["namespace_prefix"] == "t-"
    assert Cluster.objects.get(key="east").checks_asked_at
    assert Event.objects.filter(verb="cluster.attached", target_name="East").exists()


def test_the_worker_can_open_it_and_web_without_the_key_cannot(op, settings):
    attach(op)
    row = Cluster.objects.get(key="east")
    assert registry.access_of(row).token == CANARY
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    assert registry.access_of(row) is None


def test_a2_a_canary_in_the_kubeconfig_shows_nowhere(op, as_user, auditor, alice, caplog, tmp_path):
    answers = [attach(op)]
    op.patch(f"{CLUSTERS}/east", {"drain": True}, content_type="application/json")
    for client in (op, as_user(auditor), as_user(alice)):
        for path in (CLUSTERS, f"{CLUSTERS}/east", f"{CLUSTERS}/east/nodes", "/api/v1/flavors"):
            answers += [client.get(path), client.options(path)]
        for name in ("clusters", "machines", "system", "audit", "audit-export"):
            answers.append(client.get(reverse(f"console:{name}")))
        for name in ("cluster", "cluster-settings", "cluster-kubeconfig", "cluster-nodes"):
            answers.append(client.get(reverse(f"console:{name}", kwargs={"cluster": "east"})))
    bodies = [b"".join(a.streaming_content) if a.streaming else a.content for a in answers]
    dump = tmp_path / "dump.json"
    call_command("dumpdata", output=str(dump), verbosity=0)
    for body in [*bodies, dump.read_bytes(), caplog.text.encode()]:
        assert CANARY.encode() not in body
    row = Cluster.objects.get()
    assert CANARY not in json.dumps(
        [row.sealed_kubeconfig, str(row), repr(registry.access_of(row))]
    )


def test_a2_a_refused_one_is_not_said_back(op):
    broken = kubeconfigs.good().replace("kind: Config", "kind: Other")
    answer = attach(op, broken)
    assert answer.status_code == 400
    assert CANARY not in answer.content.decode()
    page = op.post(reverse("console:cluster-attach"), {"name": "East", "kubeconfig": broken})
    assert page.status_code == 400
    assert CANARY not in page.content.decode()


@pytest.mark.parametrize("kind", sorted(kubeconfigs.hostile("m", "f")))
@pytest.mark.parametrize("door", ["page", "api"])
def test_c1_a_hostile_kubeconfig_is_refused_and_does_nothing(op, kind, door, tmp_path):
    marker, canary = tmp_path / "marker", tmp_path / "canary"
    canary.write_text("canary-in-a-file")
    text = kubeconfigs.hostile(str(marker), str(canary))[kind]
    if door == "api":
        answer = attach(op, text)
    else:
        answer = op.post(reverse("console:cluster-attach"), {"name": "E", "kubeconfig": text})
    assert answer.status_code == 400
    assert "canary-in-a-file" not in answer.content.decode()
    assert not marker.exists()
    assert not Cluster.objects.exists()


@pytest.mark.parametrize(
    "server",
    ["https://127.0.0.1:1", "https://169.254.169.254", "https://[::1]:1", "https://0.0.0.0:1"],
)
def test_c2_a_server_at_this_machine_or_at_metadata_is_refused_when_it_is_connected(
    op, server, settings
):
    settings.BERTH_ALLOW_PRIVATE_CLUSTERS = False
    assert attach(op, kubeconfigs.good(server)).status_code == 201
    from clusters.services import health_refresh

    cluster = health_refresh(key="east")
    assert not cluster.reachable
    assert "not allowed" in cluster.message


@pytest.mark.parametrize("person", ["alice", "auditor"])
def test_others_may_not_attach(as_user, person, request):
    client = as_user(request.getfixturevalue(person))
    assert attach(client).status_code == 403
    assert client.get(reverse("console:cluster-attach")).status_code == 403


def test_members_see_what_is_free_and_nothing_of_the_operators(op, as_user, alice):
    attach(op)
    seen = as_user(alice).get(CLUSTERS).json()
    assert {row["key"] for row in seen} >= {"east"}
    assert all("server" not in row and "options" not in row for row in seen)
    assert as_user(alice).get(f"{CLUSTERS}/east").status_code == 403


def test_a_second_one_of_the_same_name_is_refused(op):
    attach(op)
    assert attach(op).status_code == 409


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"namespace_prefix": "Bad_"}, "namespace_prefix"),
        ({"blocked_cidrs": ["10.0.0.0/33"]}, "blocked_cidrs"),
        ({"allowed_cidrs": ["10.0.0.0/33"]}, "allowed_cidrs"),
        ({"allowed_cidrs": ["10.0.0.1/8"]}, "allowed_cidrs"),
        ({"allowed_cidrs": ["10.0.0.0/8:0"]}, "allowed_cidrs"),
        ({"allowed_cidrs": ["10.0.0.0/8:https"]}, "allowed_cidrs"),
        ({"allowed_cidrs": ["0.0.0.0/0"]}, "allowed_cidrs"),
        ({"allowed_cidrs": ["store.example:9000"]}, "allowed_cidrs"),
        ({"data_image": 1}, "data_image"),
        ({"volume_path": "/var/../etc\n"}, "volume_path"),
        ({"run_as_user": 0}, "run_as_user"),
        ({"run_as_user": True}, "run_as_user"),
        ({"volume_kind": "floppy"}, "volume_kind"),
        ({"volume_kind": "storageclass", "storage_class": "A B"}, "storage_class"),
        ({"volume_kind": "nfs"}, "nfs_server"),
        ({"volume_kind": "nfs", "nfs_server": "-oproxy", "nfs_export": "/x"}, "nfs_server"),
        ({"volume_kind": "nfs", "nfs_server": "nfs.example"}, "nfs_export"),
        ({"volume_kind": "nfs", "nfs_server": "a", "nfs_export": "/x/../etc"}, "nfs_export"),
        ({"portal_role": "a role", "portal_account": "berth/berth"}, "portal_role"),
        ({"portal_role": "berth-projects", "portal_account": "berth"}, "portal_account"),
        ({"portal_role": "berth-projects"}, "portal_account"),  # half of it binds nothing
        ({"portal_account": "berth/berth"}, "portal_role"),
        ({"nothing": 1}, "nothing"),
        ({"hub_url": "file:///etc/passwd"}, "hub_url"),
        ({"hub_url": "http://portal:99999"}, "hub_url"),
        ({"kube_api_url": "https://:6443"}, "kube_api_url"),
        ({"kube_api_url": "https://[::1:6443"}, "kube_api_url"),
        ({"proxy_peers": ["berth/-proxy"]}, "proxy_peers"),
        ({"hub_peers": [f"berth/{'x' * 64}"]}, "hub_peers"),
        ({"dns_peers": ["fe80::1%eth0"]}, "dns_peers"),
        ({"extra": {"cost center": "a"}}, "extra"),
        ({"extra": {"-cost": "a"}}, "extra"),
        ({"extra": {"Example.org/cost": "a"}}, "extra"),
        ({"extra": {"a/b/c": "a"}}, "extra"),
        ({"extra": {"x" * 64: "a"}}, "extra"),
        ({"extra": {f"{'x.' * 127}org/cost": "a"}}, "extra"),
        ({"extra": {"berth.dev/project": "a"}}, "extra"),
        ({"extra": {"": "a"}}, "extra"),
    ],
)
def test_wrong_options_are_refused_by_name(op, options, field):
    answer = attach(op, options=options)
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_peers_and_labels_that_a_cluster_takes_are_stored(op):
    given = {
        "proxy_peers": ["berth/proxy-2", "10.0.0.0/8", "fd00::/8"],
        "extra": {"cost-center": "Physics & Astronomy", "example.org/Team_1.a": ""},
    }
    assert attach(op, options=given).status_code == 201
    stored = Cluster.objects.get().options
    assert {name: stored[name] for name in given} == given


@pytest.mark.parametrize(
    "options",
    [
        {"volume_kind": "storageclass"},  # the one that the cluster takes by itself
        {"volume_kind": "storageclass", "storage_class": "gold"},
        {"volume_kind": "nfs", "nfs_server": "10.0.0.1", "nfs_export": "/"},
        {"volume_kind": "directory", "volume_path": "/mnt/shared"},
    ],
)
def test_homes_lie_on_each_kind_of_storage(op, options):
    assert attach(op, options=options).status_code == 201
    assert options.items() <= Cluster.objects.get().options.items()


def test_a_new_credential_makes_a_new_driver(op):
    attach(op)
    before = Cluster.objects.get().revision
    other = kubeconfigs.good("https://other.example.org")
    path = f"{CLUSTERS}/east/kubeconfig"
    answer = op.put(path, {"kubeconfig": other}, content_type="application/json")
    assert answer.status_code == 200
    row = Cluster.objects.get()
    assert row.revision > before
    assert row.server == "https://other.example.org:443"


def test_c10_what_was_proved_of_one_cluster_is_not_believed_of_another(op):
    attach(op)
    row = Cluster.objects.get()
    CheckResult.objects.create(cluster=row, name="network", state="green", at=now())
    path = f"{CLUSTERS}/east/kubeconfig"
    op.put(path, {"kubeconfig": kubeconfigs.good()}, content_type="application/json")
    assert CheckResult.objects.get().state == "green"  # the same cluster, a new credential
    other = kubeconfigs.good("https://other.example.org")
    op.put(path, {"kubeconfig": other}, content_type="application/json")
    assert not CheckResult.objects.exists()
    checks_store(cluster=row, findings=[green("network", "Closed.")])  # begun before
    assert not CheckResult.objects.exists()


def test_detaching_wants_the_name_and_is_refused_while_there_is_work(op, alice, project):
    from tests.architecture.world import build

    attach(op)
    assert op.delete(f"{CLUSTERS}/east?confirm=west").status_code == 400
    build(project, alice)
    from notebooks.models import Workspace

    Workspace.objects.update(cluster_key="east")
    refused = op.delete(f"{CLUSTERS}/east?confirm=East")
    assert refused.status_code == 409
    assert refused.json()["there"]["workspace"] == 1
    assert "Workspaces: 1" in refused.json()["detail"]  # words, not the names of programs
    Workspace.objects.update(cluster_key="local")
    assert op.delete(f"{CLUSTERS}/east?confirm=East").status_code == 200
    assert not Cluster.objects.filter(key="east").exists()
    assert not Node.objects.exists()
    assert Event.objects.filter(verb="cluster.detached").exists()


def test_this_machine_cannot_be_detached(op):
    Cluster.objects.create(key="local", name="This machine", driver="fake")
    assert op.delete(f"{CLUSTERS}/local?confirm=This machine").status_code == 409
