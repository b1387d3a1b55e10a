"""Workspaces on clusters: what may be asked for, where it goes, and what is run there."""

import json

import pytest

from common.clock import now
from notebooks.models import Preset, Step, Workspace
from notebooks.reconciler import WorkspaceReconciler
from runtime.protocol import InvalidSpec, Observation, Seen
from tests.notebooks.cluster_world import attach, network, pool
from volumes.services import project_volume_ensure

BASE = "/api/v1/projects/vision/workspaces"
IMAGE = "registry.example.org/team/train:1.2"
CONTAINER = {"kind": "container", "image": IMAGE, "command": ["python", "app.py"]}


@pytest.fixture
def gpu(presets, monkeypatch):
    """A cluster besides this machine."""
    from clusters.services import ensure_local_cluster, health_refresh

    ensure_local_cluster()
    health_refresh(key="local")
    return attach(monkeypatch)


@pytest.fixture
def only_gpu(settings, gpu):
    """A cluster and nothing else."""
    settings.BERTH_LOCAL_CLUSTER = False
    return gpu


@pytest.fixture
def api(as_user):
    def call(user, verb, path, body=None):
        data = {} if body is None else {"data": json.dumps(body)}
        return as_user(user).generic(verb, path, content_type="application/json", **data)

    return call


@pytest.fixture
def post(api, project, alice):
    """Launch as alice; return the answer."""
    return lambda body, user=None: api(user or alice, "POST", BASE, body)


def row_of(answer):
    assert answer.status_code == 202, answer.content
    return Workspace.objects.get(short_id=answer.json()["id"])


def fields(answer):
    assert answer.status_code in {400, 409, 422}, answer.content
    return answer.json().get("errors") or answer.json().get("fields") or answer.json()


# --- where it goes ----------------------------------------------------------------------------


def test_a_plain_notebook_stays_on_this_machine_while_it_fits_there(post, gpu):
    assert row_of(post({})).cluster_key == "local"


def test_a_container_goes_to_the_cluster_by_itself(post, gpu):
    row = row_of(post({"image": IMAGE, "command": ["sleep", "1"]}))
    assert (row.kind, row.cluster_key, row.home.cluster_key) == ("container", "gpu", "gpu")


def test_the_only_cluster_is_chosen_for_everything(post, only_gpu, settle):
    row = row_of(post({}))
    assert (row.cluster_key, row.kind) == ("gpu", "notebook")
    assert settle(row).phase == "running"


def test_what_was_said_goes_before_the_preset_and_the_preset_before_what_fits(
    post, gpu, monkeypatch
):
    attach(monkeypatch, "other")
    Preset.objects.filter(slug="small").update(cluster_key="other")
    assert row_of(post({"preset": "small"})).cluster_key == "other"
    said = row_of(post({"preset": "small", "cluster": "gpu"}))
    assert said.cluster_key == "gpu"


def test_of_two_clusters_the_one_where_it_fits_now_is_chosen(post, only_gpu, monkeypatch):
    attach(monkeypatch, "a-full")
    from clusters.models import Cluster

    Cluster.objects.filter(key="a-full").update(kinds={})
    row = row_of(post({"gpus": 2, "gpu_flavor": "h100-80"}))
    assert row.cluster_key == "gpu"


def test_a_home_on_each_cluster_is_its_own(post, gpu):
    local, far = row_of(post({})), row_of(post({"cluster": "gpu"}))
    again = row_of(post({"cluster": "gpu", "name": "again"}))
    assert local.home_id != far.home_id
    assert far.home_id == again.home_id


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "container", "cluster": "local", "image": IMAGE}, "kind"),
        ({"image": IMAGE, "cluster": "local"}, "image"),
        ({"cluster": "nowhere"}, "cluster"),
        ({"kind": "container", "cluster": "gpu"}, "image"),
        ({"kind": "notebook", "command": ["x"], "cluster": "gpu"}, "command"),
        ({**CONTAINER, "ports": [80]}, "ports"),
        ({**CONTAINER, "ports": [{"port": 7860}, {"port": 7860}]}, "ports"),
        ({**CONTAINER, "ports": [{"port": 8889}]}, "ports"),
        ({**CONTAINER, "ports": [{"port": 7860, "hostPort": 7860}]}, "ports"),
        ({**CONTAINER, "image": "bad image"}, "image"),
        ({**CONTAINER, "image": "a\x00b"}, "image"),
        ({**CONTAINER, "command": ["a\x00"]}, "command"),
        ({**CONTAINER, "command": "python app.py"}, "command"),
        ({**CONTAINER, "shm_mib": 999_999, "memory_mib": 1024}, "shm_mib"),
        ({**CONTAINER, "pool": "nope"}, "pool"),
        ({**CONTAINER, "network": "nope"}, "network"),
        ({"cluster": "gpu", "gpus": 1, "gpu_flavor": "h100-80,nope"}, "gpu_flavor"),
    ],
)
def test_what_is_not_there_is_refused_at_its_field(post, gpu, body, field):
    answer = post(body)
    assert answer.status_code in {400, 422}, answer.content
    assert field in json.dumps(answer.json())
    assert not Workspace.objects.exists()


@pytest.mark.parametrize(
    "field",
    [
        *("privileged", "securityContext", "hostPath", "hostNetwork", "hostPID", "hostIPC"),
        *("capabilities", "serviceAccountName", "runtimeClassName", "nodeName", "nodeSelector"),
        *("tolerations", "finalizers", "ownerReferences", "sysctls", "annotations", "volumes"),
        *("image_digest", "cluster_key", "owner", "launch"),
    ],
)
def test_c3_nothing_privileged_can_be_asked_for(post, api, gpu, alice, field):
    assert post({**CONTAINER, field: True}).status_code == 400
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Workspace",
        "metadata": {"name": "x"},
        "spec": {**CONTAINER, field: True},
    }
    answer = api(alice, "POST", f"{BASE}/apply", document)
    assert answer.status_code in {400, 422}
    assert field in json.dumps(answer.json())
    assert not Workspace.objects.exists()


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"]
)
def test_c4_environment_that_picks_code_or_devices_is_refused(post, gpu, name):
    assert post({**CONTAINER, "env": {name: "all"}}).status_code in {400, 422}


def test_a_cluster_that_takes_nothing_new_refuses_with_its_sentence(post, gpu, settle):
    row = row_of(post({"cluster": "gpu"}))
    gpu.drain = True
    gpu.save()
    assert post({"cluster": "gpu", "name": "b"}).status_code in {400, 409, 422}
    assert settle(row).phase == "running"  # what was started goes on


def test_a_cluster_whose_separation_is_not_proved_takes_no_tenants(post, gpu):
    gpu.options = {**gpu.options, "trusted": False}
    gpu.save()
    answer = post({"cluster": "gpu"})
    assert answer.status_code == 409
    assert "keeps projects apart" in answer.json()["detail"]


def test_a_reserved_pool_is_closed_to_others(post, api, gpu, project, bob):
    pool(gpu, "ours", project_uids=[str(project.uid)])
    pool(gpu, "theirs", project_uids=["00000000-0000-0000-0000-000000000000"])
    pool(gpu, "training", kinds=["job"])
    assert row_of(post({**CONTAINER, "pool": "ours"})).pool == "ours"
    assert post({**CONTAINER, "pool": "theirs", "name": "b"}).status_code == 400
    assert post({**CONTAINER, "pool": "training", "name": "c"}).status_code == 403


# --- what is run -----------------------------------------------------------------------------


def spec(row):
    return WorkspaceReconciler().spec_of(row)


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
    assert "JUPYTERHUB_API_TOKEN" in found.secret_env()
    assert not found.sidecars
    assert found.links_volumes  # its file browser begins at the home


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
    from runtime.drivers.kubernetes.builders.pod import environment, template
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
    assert (other.kind, other.command, other.ports) == ("container", [], [])


# --- the doors say the same -------------------------------------------------------------------

WHOLE = {
    "kind": "container",
    "cluster": "gpu",
    "image": IMAGE,
    "command": ["python", "-m", "app"],
    "args": ["--share"],
    "ports": [{"port": 7860, "name": "demo", "web": True}],
    "cpu_milli": 3000,
    "memory_mib": 8192,
    "gpus": 2,
    "gpu_flavor": "h100-80,l40s",
    "shm_mib": 2048,
}


def test_form_file_and_api_make_the_same_container(post, api, as_user, gpu, alice):
    by_api = row_of(post({**WHOLE, "name": "api"}))
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Workspace",
        "metadata": {"name": "file"},
        "spec": WHOLE,
    }
    by_file = row_of(api(alice, "POST", f"{BASE}/apply", document))
    form = {
        "preset": "jupyterlab",
        "name": "form",
        "kind": "container",
        "cluster": "gpu",
        "image": IMAGE,
        "command": "python -m app",
        "args": "--share",
        "ports": "7860 demo",
        "cpu": "3",
        "memory": "8",
        "gpus": "2",
        "gpu_flavor": ["h100-80", "l40s"],
        "shm": "2",
        "env": "",
    }
    answer = as_user(alice).post("/projects/vision/workspaces/launch/", form)
    assert answer.status_code == 302, answer.content.decode()
    by_form = Workspace.objects.get(name="form")
    names = [n if n != "cluster" else "cluster_key" for n in WHOLE]
    for name in names:
        values = {str(getattr(row, name)) for row in (by_api, by_file, by_form)}
        assert len(values) == 1, (name, values)


def test_a3_every_door_keeps_the_order_of_kinds(post, api, as_user, gpu, alice):
    """Listed in the form: what was chosen stands first, in the order it was chosen in."""
    asked = {**WHOLE, "gpu_flavor": "l40s,h100-80"}
    row = row_of(post({**asked, "name": "api"}))
    assert row.gpu_flavor == "l40s,h100-80"
    assert spec(row).placement.ranks == (0, 1)
    assert next(iter(spec(row).placement.any_of)) == {"gpu": "l40s"}
    document = api(alice, "GET", f"{BASE}/{row.short_id}/manifest").json()
    assert document["spec"]["gpu_flavor"] == "l40s,h100-80"
    page = as_user(alice).get(f"/projects/vision/workspaces/{row.short_id}/settings/")
    text = page.content.decode()
    assert text.index('value="l40s"') < text.index('value="h100-80"')
    assert 'data-ordered="Prefer"' in text


def test_the_file_of_a_workspace_makes_it_again_and_hides_its_command_from_others(
    post, api, gpu, alice, bob
):
    row = row_of(post({**WHOLE, "name": "one", "command": ["run", "canary-7741"]}))
    mine = api(alice, "GET", f"{BASE}/{row.short_id}/manifest").json()
    mine["metadata"]["name"] = "two"
    again = row_of(api(alice, "POST", f"{BASE}/apply", mine))
    assert (again.command, again.ports, again.image) == (row.command, row.ports, row.image)
    for path in ("", "/manifest", "/events"):
        answer = api(bob, "GET", f"{BASE}/{row.short_id}{path}")
        assert "canary-7741" not in answer.content.decode()
    assert "canary-7741" not in api(bob, "GET", BASE).content.decode()


def test_kind_and_cluster_stay_what_they_were(post, api, gpu, alice):
    row = row_of(post(CONTAINER))
    one = f"{BASE}/{row.short_id}"
    assert api(alice, "PATCH", one, {"cluster": "local"}).status_code == 400
    assert api(alice, "PATCH", one, {"kind": "notebook"}).status_code == 400
    assert api(alice, "PATCH", one, {"image": "registry.example.org/b:2"}).status_code == 202
    row.refresh_from_db()
    assert (row.image, row.launch) == ("registry.example.org/b:2", 2)


def test_the_page_says_that_a_start_waits_and_what_its_steps_are(post, as_user, gpu, alice):
    row = row_of(post(CONTAINER))
    place = f"/projects/vision/workspaces/{row.short_id}/"
    client = as_user(alice)
    assert "Accepted" in client.get(f"{place}state/").content.decode()
    said = "Not enough left on so many of 34 nodes: nvidia.com/gpu (34)."  # as the driver says it
    full = {"phase": "pending", "reason": "nodes-full", "message": said}
    Workspace.objects.filter(pk=row.pk).update(**full, observed_generation=row.generation)
    text = client.get(f"{place}state/").content.decode()
    assert 'class="phase phase-pending"' in text
    advice = "It starts by itself when something ends. A smaller size may start sooner."
    places = [text.index(words) for words in ("All nodes that could hold it are in use.", said)]
    assert places[0] < places[1] < text.index(advice)
    Step.objects.create(workspace=row, launch=row.launch, word="placed", at=now(), message="")
    assert "Handed to the cluster" in client.get(f"{place}events/").content.decode()
    Workspace.objects.filter(pk=row.pk).update(gpus=2, gpu_flavor="l40s,h100-80")
    listed = client.get("/projects/vision/workspaces/").content.decode()
    assert "2\N{NO-BREAK SPACE}l40s / h100-80" in listed  # as everywhere, and it can wrap


def test_the_form_shows_containers_where_there_is_a_cluster(as_user, gpu, project, alice):
    page = as_user(alice).get("/projects/vision/workspaces/launch/").content.decode()
    for words in ("What runs", "Image", "Ports", "Shared memory", "Cluster gpu", "8 of 8 free"):
        assert words in page


def test_one_machine_alone_shows_none_of_it(as_user, presets, project, alice):
    page = as_user(alice).get("/projects/vision/workspaces/launch/").content.decode()
    for words in ("What runs", "Shared memory", 'name="image"', 'name="cluster"'):
        assert words not in page


def test_limits_count_every_kind_that_may_be_taken(post, gpu, project, operator, principal):
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"gpus:h100-80": 1})
    assert post({**CONTAINER, "gpus": 2, "gpu_flavor": "h100-80,l40s"}).status_code == 409


def test_any_kind_counts_against_each_kind_that_it_may_get(
    post, api, gpu, project, alice, operator, principal
):
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"gpus:h100-80": 3})
    first = row_of(post({**CONTAINER, "gpus": 2}))
    for asked in ({}, {"gpu_flavor": "h100-80"}):
        refused = post({**CONTAINER, "gpus": 2, **asked})
        assert refused.status_code == 409
        assert "GPUs of the kind h100-80 is 3 GPU: 2 GPU in use" in refused.json()["detail"]
        assert ("name one whose limit leaves room" in refused.json()["detail"]) == (not asked)
    plan = api(alice, "POST", f"{BASE}?plan=1", {**CONTAINER, "gpus": 2}).json()
    assert not plan["allowed"]
    assert "name one whose limit leaves room" in plan["refusal"]
    assert post({**CONTAINER, "gpus": 1, "gpu_flavor": "l40s"}).status_code == 202
    # a smaller one fits, and a started one cannot grow past the limit by an edit either
    assert post({**CONTAINER, "gpus": 1}).status_code == 202
    assert api(alice, "PATCH", f"{BASE}/{first.short_id}", {"gpus": 4}).status_code == 409


def test_any_kind_of_a_pool_counts_only_what_is_in_the_pool(
    post, gpu, project, operator, principal
):
    from clusters.models import Flavor
    from quotas.services import limits_set

    pool(gpu, "small").flavors.set(Flavor.objects.filter(name="l40s"))
    limits_set(principal=principal(operator), project=project, limits={"gpus:h100-80": 0})
    assert post({**CONTAINER, "gpus": 1}).status_code == 409
    assert post({**CONTAINER, "gpus": 1, "pool": "small"}).status_code == 202


def test_where_no_kind_is_known_any_kind_counts_against_all(
    post, gpu, project, operator, principal
):
    from quotas.services import limits_set

    gpu.kinds = {}
    gpu.save(update_fields=["kinds"])
    limits_set(principal=principal(operator), project=project, limits={"gpus:h100-80": 0})
    assert post({**CONTAINER, "gpus": 1}).status_code == 409


def test_on_one_machine_any_kind_counts_against_none(post, gpu, project, operator, principal):
    from quotas.selectors import held_by
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"gpus:h100-80": 0})
    row = row_of(post({"cluster": "local", "gpus": 1}))
    assert {key for key in held_by(row.uid) if key.startswith("gpus")} == {"gpus"}


def test_the_page_of_a_container_shows_its_ports_and_the_other_ways_in(
    post, as_user, gpu, settle, alice, bob
):
    row = settle(row_of(post({**CONTAINER, "ports": [{"port": 7860, "name": "demo"}]})))
    path = f"/projects/vision/workspaces/{row.short_id}/"
    page = as_user(alice).get(path).content.decode()
    assert f"http://{row.short_id}-7860.nb.localhost" in page
    assert f"exec -it ws-{row.short_id}-0 -- sh" in page
    assert IMAGE in page
    assert "Cluster gpu" in page
    others = as_user(bob).get(path).content.decode()
    assert f"{row.short_id}-7860.nb" not in others
    assert "exec -it" not in others
    assert "app.py" not in others


def test_the_page_says_where_each_volume_is_found(post, as_user, gpu, settle, alice, project):
    project_volume_ensure(principal=None, project=project, cluster_key=gpu.key)
    notebook, container = ({"cluster": gpu.key, "name": "lab"}, {**CONTAINER, "name": "any"})
    for body, path in ((notebook, "~/volumes/shared"), (container, "/volumes/shared")):
        row = settle(row_of(post(body)))
        assert spec(row).links_volumes is (body is notebook)
        page = as_user(alice).get(f"/projects/vision/workspaces/{row.short_id}/").content.decode()
        assert f'<span class="mono">{path}</span>' in page
    form = as_user(alice).get("/projects/vision/workspaces/launch/").content.decode()
    assert "In a container this folder is “/volumes”." in form


def test_a_start_that_cannot_go_on_says_why_and_what_to_do(post, as_user, gpu, settle, alice):
    from clusters.registry import driver_for
    from runtime import reasons

    row = row_of(post(CONTAINER))
    driver_for("gpu").script(str(row.uid), never_ready=True)
    settle(row)
    Workspace.objects.filter(pk=row.pk).update(reason="image-auth", message="")
    page = as_user(alice).get(f"/projects/vision/workspaces/{row.short_id}/").content.decode()
    info = reasons.info("image-auth")
    assert str(info.text) in page
    assert str(info.advice) in page
