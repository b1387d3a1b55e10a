"""Which cluster of several work goes to, and what may be changed of it where nothing starts."""
# ruff: noqa: F811 - fixtures

import pytest

from notebooks.models import Preset
from tests.notebooks.cluster_world import attach, network, pool
from tests.notebooks.test_clusters import (  # noqa: F401 - fixtures
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
