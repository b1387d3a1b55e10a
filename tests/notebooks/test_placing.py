"""Which cluster of several work goes to, and what may be changed of it where nothing starts."""
# ruff: noqa: F811 - fixtures

import pytest

from notebooks.models import Preset
from tests.notebooks.cluster_world import attach, network, pool
from tests.notebooks.test_clusters import (  # noqa: F401 - fixtures
    BASE,
    CONTAINER,
    api,
    gpu,
    only_gpu,
    post,
    row_of,
)

WEB = {"port": 7860, "name": "demo", "web": True}

REFUSED = [  # by what the first cluster lacks, and the second one has
    ({"trusted": False}, {}),  # its self-check is not green yet
    ({"default_image": ""}, {}),
    ({"sidecar_image": "", "default_image": ""}, {**CONTAINER, "ports": [WEB]}),
    ({}, {**CONTAINER, "pool": "fast"}),
    ({}, {**CONTAINER, "gpus": 1, "network": "rdma"}),
]


@pytest.fixture
def two(only_gpu, monkeypatch):
    """Beside ``gpu`` another cluster, which is asked before it: by its name."""

    def make(**of_the_first):
        attach(monkeypatch, "a-first", options=of_the_first)
        pool(only_gpu, "fast")
        network(only_gpu, "rdma")

    return make


@pytest.mark.parametrize(("of_the_first", "asked"), REFUSED)
def test_of_two_clusters_one_that_would_refuse_is_passed_over(post, two, of_the_first, asked):
    two(**of_the_first)
    assert row_of(post(asked)).cluster_key == "gpu"
    Preset.objects.filter(slug="small").update(**asked)
    assert row_of(post({"preset": "small", "name": "by the card"})).cluster_key == "gpu"


def test_where_every_cluster_refuses_the_likeliest_one_says_why(post, two, only_gpu):
    two(trusted=False)
    only_gpu.drain = True
    only_gpu.save()
    answer = post({})
    assert (answer.status_code, "Cluster a-first" in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    "change", [{"drain": True}, {"enabled": False}, {"options": {"trusted": False}}]
)
def test_what_starts_nothing_is_changed_also_where_nothing_may_start(
    post, api, as_user, gpu, settle, alice, change
):
    row = settle(row_of(post({"cluster": "gpu", "gpus": 1})))
    for name, value in change.items():
        setattr(gpu, name, {**gpu.options, **value} if name == "options" else value)
    gpu.save()
    one = f"{BASE}/{row.short_id}"
    assert api(alice, "PATCH", one, {"name": "renamed"}).status_code == 202
    assert api(alice, "PATCH", one, {"time_limit_minutes": 45}).status_code == 202
    page = f"/projects/vision/workspaces/{row.short_id}/settings/"
    form = as_user(alice).get(page).context["form"]
    values = {name: form[name].value() for name in form.fields}
    said = {k: v for k, v in values.items() if v not in (None, "")} | {"name": "by the form"}
    assert as_user(alice).post(page, said).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.time_limit_minutes, row.launch) == ("by the form", 45, 1)
    refused = api(alice, "PATCH", one, {"memory_mib": 8192})
    assert (refused.status_code, refused.json()["code"]) == (409, "cluster-refuses")
    plan = api(alice, "PATCH", f"{one}?plan=1", {"memory_mib": 8192}).json()
    assert (plan["allowed"], plan["refusal"]) == (False, refused.json()["detail"])
    row.refresh_from_db()
    assert (row.launch, row.phase) == (1, "running")
