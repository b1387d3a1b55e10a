"""On clusters, too, pages, files and API say the same and make the same."""

from common.clock import now
from notebooks.models import Workspace
from tests.notebooks.cluster_world import BASE, CONTAINER, IMAGE, row_of, spec
from volumes.services.create import project_volume_ensure
from work.models import Step

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
    Step.objects.create(workload=row, launch=row.launch, word="placed", at=now(), message="")
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
    assert "in a container in “/volumes”." in form


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
