"""What is run on a cluster, and which routes lead to it."""

import json

import pytest

from notebooks.models import Preset, Workspace
from notebooks.reconciler import WorkspaceReconciler
from runtime.protocol import InvalidSpec, Observation, Seen
from tests.notebooks.cluster_world import (
    BASE,
    CONTAINER,
    IMAGE,
    network,
    pool,
    row_of,
    spec,
)


def test_a_notebook_on_a_cluster_listens_everywhere_and_speaks_to_the_clusters_hub(
    post, only_gpu, project
):
    found = spec(row_of(post({"env": {"A": "1"}})))
    assert found.namespace == f"t-vision-{str(project.uid)[:8]}"
    assert found.image == "registry.example.org/lab:6"
    assert found.port == 8888
    assert found.command[0] == "jupyterhub-singleuser"
    assert "--ServerApp.root_dir=/home/berth" in found.command
    assert found.env["JUPYTERHUB_SERVICE_URL"] == "http://0.0.0.0:8888/"
    assert found.env["JUPYTERHUB_API_URL"] == "http://hub.internal:8001/hub/api"
    assert found.env["A"] == "1"
    layout = found.env["JUPYTERLAB_WORKSPACES_DIR"]  # several may share the home
    assert layout == f"/home/berth/.jupyter/lab/workspaces/{found.name}"
    assert "JUPYTERHUB_API_TOKEN" in found.secret_env()
    assert not found.sidecars
    assert found.links_volumes  # its file browser begins at the home
    extension = json.loads(found.secret_files()["lab-package.json"])
    assert extension["name"] == "@berth/notices"
    assert set(found.unpacked) == set(found.secret_files())
    assert "--LabApp.extra_labextensions_path=/tmp/berth-lab" in found.command


def test_a_container_gets_a_sign_in_before_each_web_port_and_no_secret_of_its_own(post, gpu):
    row = row_of(
        post(
            {
                **CONTAINER,
                "ports": [{"port": 7860, "name": "demo"}, 9000, {"port": 5432, "web": False}],
            }
        )
    )
    found = spec(row)
    assert found.command == ("python", "app.py")
    assert found.ports == (7860, 9000, 5432)
    assert found.secret_env() == {}
    assert not any(name.startswith("JUPYTERHUB") for name in found.env)
    assert [(s.name, s.port) for s in found.sidecars] == [("port-7860", 8889), ("port-9000", 8890)]
    guard = found.sidecars[0]
    assert guard.env["JUPYTERHUB_SERVER_NAME"] == f"{row.short_id}-7860"
    assert guard.env["JUPYTERHUB_SERVICE_URL"].startswith("http://0.0.0.0:8889")
    tokens = {s.secret_env()["JUPYTERHUB_API_TOKEN"] for s in found.sidecars}
    assert len(tokens) == 2


@pytest.mark.parametrize("kind", ["container", "notebook"])
def test_a_persons_words_are_left_alone_and_his_credentials_are_found(
    post, gpu, project, principal, mona, kind
):
    """``${port}`` is a shell's variable, and no port that Berth fills in."""
    from credentials.services import Label, credential_add
    from runtime.drivers.kubernetes.builders.workload import environment, template
    from runtime.drivers.kubernetes.options import KubernetesOptions

    fields = {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "s" * 40, "region": "eu-west-1"}
    credential_add(
        principal=principal(mona), project=project, kind="s3", label=Label("k"), fields=fields
    )
    said = "port=5; echo ${port} {secrets}"
    body = {"cluster": "gpu", "env": {"SAID": said}, "credentials": ["k"]}
    if kind == "container":
        body |= {**CONTAINER, "command": ["sh", "-c", said], "args": [said]}
    found = spec(row_of(post(body)))
    told = environment(found, {})
    assert told["SAID"] == said
    assert told["AWS_CONFIG_FILE"] == "/var/run/berth/secrets/aws-config"
    main = template(found, KubernetesOptions(), labels={})["spec"]["containers"][0]
    if kind == "container":
        assert (main["command"][2], main["args"]) == (said, [said])


def test_routes_lead_to_the_sign_in_of_each_port(post, gpu):
    row = row_of(post({**CONTAINER, "ports": [7860, 9000]}))
    seen = Observation(uid=str(row.uid), seen=Seen.READY, address="10.244.0.7:0")
    routes = WorkspaceReconciler().routes_of(row, seen)
    assert [(r.key, r.target) for r in routes] == [
        (f"/{row.short_id}-7860.nb.localhost", "http://10.244.0.7:8889"),
        (f"/{row.short_id}-9000.nb.localhost", "http://10.244.0.7:8890"),
    ]


def test_a_container_without_web_ports_runs_and_has_no_way_in(post, api, gpu, settle, alice):
    row = settle(row_of(post(CONTAINER)))
    assert row.phase == "running"
    body = api(alice, "GET", f"{BASE}/{row.short_id}").json()
    assert (body["status"]["url"], body["status"]["ports"]) == (None, [])


def test_routes_come_with_readiness_and_all_go_with_the_stop(post, api, gpu, settle, alice):
    from clusters.registry import router

    row = settle(row_of(post({**CONTAINER, "ports": [7860, 9000]})))
    keys = {f"/{row.short_id}-{port}.nb.localhost" for port in (7860, 9000)}
    assert keys <= set(router().list())
    body = api(alice, "GET", f"{BASE}/{row.short_id}").json()
    assert [p["url"] for p in body["status"]["ports"]] == [
        f"http://{row.short_id}-7860.nb.localhost:{_port()}/",
        f"http://{row.short_id}-9000.nb.localhost:{_port()}/",
    ]
    api(alice, "POST", f"{BASE}/{row.short_id}/stop")
    settle(row)
    assert row.phase == "stopped"
    assert not keys & set(router().list())


def _port():
    from django.conf import settings

    return settings.BERTH_NOTEBOOK_PORT


def test_placement_and_network_come_from_operators_rows(post, gpu):
    wired = pool(gpu, "wired", tolerations=[{"key": "wired", "operator": "Exists"}])
    network(gpu, "rdma", wired)
    row = row_of(
        post(
            {
                **CONTAINER,
                "gpus": 2,
                "gpu_flavor": "l40s,h100-80",
                "pool": "wired",
                "network": "rdma",
            }
        )
    )
    found = spec(row)
    assert found.resources.gpus == 2
    assert {t["gpu"] for t in found.placement.any_of} == {"l40s", "h100-80"}
    assert found.placement.node_labels == {"pool": "wired"}
    assert found.network.resources == {"example.com/vf": 2}
    assert found.network.env == {"NCCL_IB_HCA": "mlx5"}


def test_l3_a_network_is_refused_where_the_pool_has_none_or_it_is_another_tenants(post, gpu):
    wired, dry = pool(gpu, "wired"), pool(gpu, "dry")
    network(gpu, "rdma", wired)
    network(gpu, "theirs", project_uids=["00000000-0000-0000-0000-000000000000"])
    body = {**CONTAINER, "gpus": 1}
    assert post({**body, "pool": dry.name, "network": "rdma"}).status_code == 400
    assert post({**body, "network": "theirs"}).status_code == 400
    assert not Workspace.objects.exists()


def test_what_an_operator_took_away_since_is_a_plain_failure(post, gpu, settle):
    pool(gpu, "soon-gone")
    row = row_of(post({**CONTAINER, "pool": "soon-gone"}))
    gpu.pools.all().delete()
    with pytest.raises(InvalidSpec):
        spec(row)
    assert settle(row).phase == "failed"
    assert "soon-gone" in row.message


def test_an_image_is_pinned_by_its_digest_where_one_is_known(post, gpu):
    from clusters.options import options_of
    from notebooks.where import image_of

    row = row_of(post(CONTAINER))
    row.image_digest = "sha256:" + "a" * 64
    options = options_of(gpu.options)
    assert image_of(row, options) == f"registry.example.org/team/train@sha256:{'a' * 64}"
    row.image = "localhost:5000/x"
    assert image_of(row, options) == f"localhost:5000/x@sha256:{'a' * 64}"


def test_another_image_does_not_take_over_the_command_and_ports_of_a_preset(post, gpu):
    Preset.objects.filter(slug="small").update(
        kind="container",
        image=IMAGE,
        command=["serve"],
        ports=[{"port": 7860, "name": "d", "web": True}],
    )
    own = row_of(post({"preset": "small"}))
    assert (own.command, len(own.ports)) == (["serve"], 1)
    other = row_of(post({"preset": "small", "image": "registry.example.org/other:1"}))
    assert (other.variant, other.command, other.ports) == ("container", [], [])
