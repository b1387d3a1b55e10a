"""The API of workspaces, through HTTP."""

import pytest

from notebooks.models import Workspace

BASE = "/api/v1/projects/vision/workspaces"


def test_one_post_without_fields_launches_the_first_preset(api, presets, project, alice, settle):
    answer = api(alice, "POST", BASE, {})
    assert answer.status_code == 202, answer.content
    body = answer.json()
    assert body["name"] == "JupyterLab"
    assert body["status"]["phase"] == "pending"
    assert answer["Location"].endswith(body["id"])
    settle()
    body = api(alice, "GET", answer["Location"]).json()
    assert body["status"]["phase"] == "running"
    assert body["status"]["url"].startswith(f"http://{body['id']}.nb.localhost")
    assert body["status"]["observed_generation"] == body["generation"]


def test_the_same_idempotency_key_gives_the_same_workspace(api, presets, project, alice):
    first = api(alice, "POST", BASE, {"name": "a"}, idempotency_key="k1")
    again = api(alice, "POST", BASE, {"name": "a"}, idempotency_key="k1")
    other = api(alice, "POST", BASE, {"name": "b"}, idempotency_key="k1")
    assert first.json()["id"] == again.json()["id"]
    assert other.status_code == 409
    assert Workspace.objects.count() == 1


def test_a_plan_changes_nothing_and_says_what_would_happen(api, presets, project, alice):
    answer = api(alice, "POST", f"{BASE}?plan=1", {"preset": "large", "cpu_milli": 3000})
    assert answer.status_code == 200
    plan = answer.json()
    assert (plan["action"], plan["name"], plan["allowed"]) == ("create", "Large", True)
    assert plan["spec"]["cpu_milli"] == 3000
    assert plan["starts_now"] is True
    assert not Workspace.objects.exists()


def test_a_plan_names_the_limit_that_would_refuse(
    api, presets, project, alice, operator, principal
):
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 1000})
    plan = api(alice, "POST", f"{BASE}?plan=1", {}).json()
    assert plan["allowed"] is False
    assert "CPU" in plan["refusal"]
    assert api(alice, "POST", BASE, {}).status_code == 409


def test_unknown_and_forbidden_fields_are_refused(api, presets, project, alice, bob):
    for field, value in {"owner": "bob", "launch": 9, "phase": "running", "nonce": "x"}.items():
        answer = api(alice, "POST", BASE, {field: value})
        assert answer.status_code == 400
        assert field in answer.json()["fields"]
    assert not Workspace.objects.exists()


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "JUPYTERHUB_API_TOKEN"]
)
def test_c4_variables_that_change_code_or_devices_are_refused(api, presets, project, alice, name):
    answer = api(alice, "POST", BASE, {"env": {name: "all"}})
    assert answer.status_code == 400
    assert name in answer.json()["fields"]["env"][0]
    assert not Workspace.objects.exists()


def test_c4_what_berth_sets_wins_over_the_environment_of_a_preset(launch, alice, presets):
    from notebooks.reconciler import WorkspaceReconciler

    presets["jupyterlab"].default_env = {"JUPYTERHUB_USER": "root", "SHARED": "1"}
    presets["jupyterlab"].save()
    spec = WorkspaceReconciler().spec_of(launch(alice))
    assert spec.env["JUPYTERHUB_USER"] == "alice"
    assert spec.env["SHARED"] == "1"
    assert "JUPYTERHUB_API_TOKEN" not in spec.env
    assert spec.secret_env()["JUPYTERHUB_API_TOKEN"]


def test_environment_and_logs_are_private_among_colleagues(
    api, launch, alice, bob, mona, operator, settle
):
    row = settle(launch(alice, env={"WANDB_KEY": "canary-6471"}))
    for other in (bob, mona, operator):
        body = api(other, "GET", f"{BASE}/{row.short_id}")
        assert body.status_code == 200
        assert body.json()["spec"]["env"] is None
        assert body.json()["status"]["url"] is None
        assert api(other, "GET", f"{BASE}/{row.short_id}/logs").status_code == 403
        listed = (
            api(other, "GET", BASE).content
            + api(other, "GET", f"{BASE}/{row.short_id}/manifest").content
        )
        assert b"canary-6471" not in body.content + listed
    assert api(alice, "GET", f"{BASE}/{row.short_id}").json()["spec"]["env"] == {
        "WANDB_KEY": "canary-6471"
    }
    assert api(alice, "GET", f"{BASE}/{row.short_id}/logs").status_code == 200


def test_a1_a_stranger_finds_nothing_by_any_verb(api, launch, alice, charlie, settle):
    row = settle(launch(alice))
    one = f"{BASE}/{row.short_id}"
    tries = [("GET", BASE), ("POST", BASE), ("GET", one), ("PATCH", one), ("DELETE", one)]
    tries += [("POST", f"{one}/{verb}") for verb in ("start", "stop", "extend", "shares")]
    tries += [("GET", f"{one}/{part}") for part in ("logs", "events", "usage", "manifest")]
    tries += [("DELETE", f"{one}/shares/bob"), ("POST", f"{BASE}/apply")]
    for verb, path in tries:
        answer = api(charlie, verb, path, {})
        assert answer.status_code == 404, (verb, path)
    row.refresh_from_db()
    assert (row.desired, row.generation) == ("running", 1)


def test_a1_a_workspace_is_not_reached_through_another_project(api, launch, alice, charlie, settle):
    from projects.models import Membership, Project

    row = settle(launch(alice))
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=charlie, role="owner")
    path = f"/api/v1/projects/other/workspaces/{row.short_id}"
    assert api(charlie, "GET", path).status_code == 404
    assert api(charlie, "DELETE", path).status_code == 404


def test_if_match_refuses_a_change_of_what_was_not_seen(api, launch, alice, settle):
    row = settle(launch(alice))
    path = f"{BASE}/{row.short_id}"
    seen = api(alice, "GET", path)["ETag"]
    assert api(alice, "PATCH", path, {"name": "One"}, if_match=seen).status_code == 202
    assert api(alice, "PATCH", path, {"name": "Two"}, if_match=seen).status_code == 412
    row.refresh_from_db()
    assert row.name == "One"


def test_sharing_is_for_members_and_can_be_taken_back(api, launch, alice, bob, charlie, settle):
    row = settle(launch(alice))
    shares = f"{BASE}/{row.short_id}/shares"
    assert api(alice, "POST", shares, {"username": "charlie"}).status_code == 400
    assert api(alice, "POST", shares, {"username": "nobody"}).status_code == 400
    assert api(bob, "POST", shares, {"username": "bob"}).status_code == 403
    assert api(alice, "POST", shares, {"username": "bob"}).status_code == 201
    body = api(bob, "GET", f"{BASE}/{row.short_id}").json()
    assert body["access"] == "visitor"
    assert body["status"]["url"]
    assert api(bob, "GET", f"{BASE}/{row.short_id}/logs").status_code == 403
    assert api(alice, "DELETE", f"{shares}/bob").status_code == 204
    assert api(bob, "GET", f"{BASE}/{row.short_id}").json()["access"] == "none"


def test_a_manifest_makes_the_same_workspace_again(api, launch, alice, settle):
    row = settle(launch(alice, "large", env={"A": "1"}, cpu_milli=3000))
    path = f"{BASE}/{row.short_id}"
    manifest = api(alice, "GET", f"{path}/manifest").json()
    assert manifest["spec"]["cpu_milli"] == 3000
    plan = api(alice, "POST", f"{BASE}/apply?plan=1", manifest).json()
    assert plan["action"] == "none"
    same = api(alice, "POST", f"{BASE}/apply", manifest)
    assert (same.status_code, same.json()["id"]) == (202, row.short_id)
    manifest["metadata"]["name"] = "Copy"
    copy = api(alice, "POST", f"{BASE}/apply", manifest).json()
    made = Workspace.objects.get(short_id=copy["id"])
    assert (made.name, made.cpu_milli, made.env) == ("Copy", 3000, {"A": "1"})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"kind": "Pod"}, "kind"),
        ({"extra": 1}, "extra"),
        ({"metadata": {"name": "x", "labels": {}}}, "metadata.labels"),
        ({"metadata": {"name": 7}}, "metadata.name"),
        ({"spec": {"hostPath": "/"}}, "spec.hostPath"),
        ({"spec": {"gpus": "2"}}, "spec.gpus"),
        ({"spec": {"gpus": True}}, "spec.gpus"),
        ({"spec": []}, "spec"),
    ],
)
def test_a_manifest_is_parsed_strictly(api, presets, project, alice, change, field):
    document = {
        "apiVersion": "berth.dev/v1",
        "kind": "Workspace",
        "metadata": {"name": "x"},
        "spec": {},
        **change,
    }
    answer = api(alice, "POST", f"{BASE}/apply", document)
    if field == "spec":
        assert answer.status_code in {202, 400}
        return
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_the_list_filters_and_takes_few_queries(
    api, launch, alice, bob, project, django_assert_max_num_queries, as_user
):
    for _ in range(3):
        launch(alice)
    launch(bob)
    assert len(api(alice, "GET", BASE).json()["results"]) == 4
    assert len(api(alice, "GET", f"{BASE}?mine=1").json()["results"]) == 3
    assert len(api(alice, "GET", f"{BASE}?q=lab 2").json()["results"]) == 1
    assert api(alice, "GET", f"{BASE}?phase=nonsense").status_code == 400
    client = as_user(alice)
    client.get(BASE)  # the first request of a session notes the session
    with django_assert_max_num_queries(6):
        client.get(BASE)


def test_the_schema_of_the_answer_is_what_is_answered(api, launch, alice):
    from notebooks.api.workspaces import API

    launch(alice)
    row = api(alice, "GET", BASE).json()["results"][0]
    shape = API.gives().fields
    assert set(row) == set(shape)
    assert set(row["spec"]) == set(shape["spec"].fields)
    assert set(row["status"]) == set(shape["status"].fields)
    plan = api(alice, "POST", f"{BASE}?plan=1", {}).json()
    assert set(plan) == set(API.plans().fields)


def test_deleting_through_the_api_is_seen_to_its_end(api, launch, alice, settle):
    row = settle(launch(alice))
    path = f"{BASE}/{row.short_id}"
    answer = api(alice, "DELETE", path)
    assert (answer.status_code, answer.json()["desired"]) == (202, "absent")
    settle()
    assert api(alice, "GET", path).status_code == 404
    kept = api(alice, "GET", "/api/v1/projects/vision/volumes").json()["results"]
    assert {(v["kind"], v["owner"]) for v in kept} == {("home", "alice"), ("project", None)}


@pytest.mark.django_db(transaction=True)
def test_one_that_is_gone_as_soon_as_it_may_be_is_answered_like_any_other(
    api, launch, alice, settle, monkeypatch
):
    from django.db import transaction

    from work import services

    row = settle(launch(alice))
    plain = services.workload_delete

    def quickly(**options):
        transaction.on_commit(lambda: Workspace.objects.filter(pk=row.pk).delete())
        return plain(**options)

    monkeypatch.setattr(services, "workload_delete", quickly)
    answer = api(alice, "DELETE", f"{BASE}/{row.short_id}")
    assert (answer.status_code, answer.json()["desired"]) == (202, "absent")
    assert not Workspace.objects.exists()


def test_one_that_goes_while_it_is_changed_is_not_found(api, launch, alice, settle, monkeypatch):
    from work import services

    row = settle(launch(alice))
    plain = services.workload_edit

    def late(**asked):
        found = plain(**asked)
        Workspace.objects.filter(pk=row.pk).delete()
        return found

    monkeypatch.setattr(services, "workload_edit", late)
    assert api(alice, "PATCH", f"{BASE}/{row.short_id}", {"name": "new"}).status_code == 404


def test_presets_are_listed_for_a_project(api, presets, project, alice):
    slugs = [p["slug"] for p in api(alice, "GET", "/api/v1/projects/vision/presets").json()]
    assert slugs == ["jupyterlab", "small", "large"]
    assert len(api(alice, "GET", "/api/v1/presets").json()) == 3


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800"])
def test_f1_text_that_no_database_keeps_is_an_error_of_the_client(api, as_user, launch, alice, bad):
    row = launch(alice)
    one = f"{BASE}/{row.short_id}"
    tries = [
        ("POST", BASE, {"env": {"A": bad}}),
        ("POST", BASE, {"name": bad}),
        ("POST", BASE, {"gpus": 1, "gpu_flavor": bad}),
        ("POST", f"{one}/shares", {"username": bad}),
    ]
    document = {"apiVersion": "berth.dev/v1", "kind": "Workspace"}
    for spec in ({"preset": bad}, {"env": {"A": bad}}, {"gpus": 1, "gpu_flavor": bad}):
        body = {**document, "metadata": {"name": "x"}, "spec": spec}
        tries.append(("POST", f"{BASE}/apply", body))
    for verb, path, body in tries:
        assert api(alice, verb, path, body).status_code in {400, 404}, body
    page = "/projects/vision/workspaces/"
    assert as_user(alice).post(f"{page}launch/", {"preset": "a\x00b"}).status_code == 404
    assert as_user(alice).post(f"{page}launch/", {"nonce": "a\x00b"}).status_code == 302
    shared = as_user(alice).post(f"{page}{row.short_id}/share/", {"username": "a\x00b"})
    assert shared.status_code == 422
    gone = as_user(alice).delete(f"{one}/shares/a%00b")
    assert gone.status_code in {204, 400, 404}


def test_operators_make_presets_and_others_do_not(api, operator, alice, auditor, project):
    body = {"name": "Two cores", "cpu_milli": 2000, "projects": ["vision"], "position": 3}
    assert api(alice, "POST", "/api/v1/presets", body).status_code == 403
    made = api(operator, "POST", "/api/v1/presets", body)
    assert made.status_code == 201, made.content
    assert made["Location"].endswith("/presets/two-cores")
    path = made["Location"]
    changed = api(operator, "PATCH", path, {"memory_mib": 2048}).json()
    assert (changed["cpu_milli"], changed["memory_mib"]) == (2000, 2048)
    assert api(auditor, "GET", path).status_code == 200
    assert api(auditor, "DELETE", path).status_code == 403
    bad = api(operator, "PATCH", path, {"projects": ["nowhere"]})
    assert (bad.status_code, "projects" in bad.json()["fields"]) == (400, True)
    assert api(operator, "DELETE", path).status_code == 204
    assert api(operator, "GET", path).status_code == 404
