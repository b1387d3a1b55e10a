"""Workspaces on clusters: what may be asked for, and where it goes."""

import json

import pytest

from notebooks.models import Preset, Workspace
from tests.notebooks.cluster_world import (
    BASE,
    CONTAINER,
    IMAGE,
    attach,
    pool,
    row_of,
)


def test_a_plain_notebook_stays_on_this_machine_while_it_fits_there(post, gpu):
    assert row_of(post({})).cluster_key == "local"


def test_a_container_goes_to_the_cluster_by_itself(post, gpu):
    row = row_of(post({"image": IMAGE, "command": ["sleep", "1"]}))
    assert (row.variant, row.cluster_key, row.home.cluster_key) == ("container", "gpu", "gpu")


def test_the_only_cluster_is_chosen_for_everything(post, only_gpu, settle):
    row = row_of(post({}))
    assert (row.cluster_key, row.variant) == ("gpu", "notebook")
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


def test_c34_a_pool_for_jobs_only_refuses_notebooks_with_the_reason(post, api, gpu, alice):
    pool(gpu, "training", kinds=["job"])
    for said in ({**CONTAINER, "pool": "training"}, {"cluster": "gpu", "pool": "training"}):
        refused = post({**said, "name": "mine"})
        assert refused.status_code == 403
        assert "training is reserved for other kinds of work: Jobs" in refused.json()["detail"]
        plan = api(alice, "POST", f"{BASE}?plan=1", {**said, "name": "mine"})
        assert "is reserved for other kinds of work: Jobs" in plan.content.decode()


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
        assert "GPUs of the kind h100-80 is 3 GPU: 2 GPU taken" in refused.json()["detail"]
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
