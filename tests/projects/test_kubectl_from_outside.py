"""Inside the cluster that Berth runs in: the address that Berth uses there leads nobody in."""

from html import unescape
from typing import Any

import pytest

from clusters.models import Cluster
from tests.projects.cluster_double import KEY, TenantFake, alpha

pytestmark = pytest.mark.django_db
__all__ = ["alpha"]
API, PAGE = "/api/v1/projects/vision/kubeconfigs", "/projects/vision/kubectl"
SENTENCE = "kubectl can't reach “Alpha” from outside yet"


@pytest.fixture
def own(alpha: TenantFake, settings: Any) -> TenantFake:
    """Alpha is the cluster that Berth runs in, as the chart makes it."""
    settings.BERTH_IN_CLUSTER = KEY
    return alpha


def test_without_an_address_for_people_no_kubeconfig_is_made(
    own: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    Cluster.objects.update(options={})
    client = as_user(bob)
    answer = client.post(API, {"cluster": KEY}, content_type="application/json")
    assert answer.status_code == 409, answer.content
    assert answer.json()["code"] == "no-kube-address"
    assert "kube_api_url" in answer.json()["detail"]
    page = unescape(client.get(PAGE).content.decode())
    assert SENTENCE in page
    assert "New kubeconfig" not in page
    assert "No Kubernetes cluster is attached" not in page


def test_a_file_made_before_the_address_was_taken_away_is_refused_too(
    own: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = client.post(API, {"cluster": KEY}, content_type="application/json").json()
    Cluster.objects.update(options={})
    answer = client.post(f"{API}/{made['id']}/file")
    assert (answer.status_code, answer.json()["code"]) == (409, "no-kube-address")
    shown = client.post(f"{PAGE}/{made['id']}/file")
    assert shown.status_code == 409
    assert SENTENCE in unescape(shown.content.decode())


def test_with_an_address_the_own_cluster_is_as_any_other(
    own: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = client.post(API, {"cluster": KEY}, content_type="application/json").json()
    answer = client.post(f"{API}/{made['id']}/file").json()
    assert "https://alpha.example.org:6443" in answer["kubeconfig"]
    page = unescape(client.get(PAGE).content.decode())
    assert "New kubeconfig" in page
    assert SENTENCE not in page


def test_an_attached_cluster_has_the_address_that_was_attached(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    Cluster.objects.update(options={})
    made = as_user(bob).post(API, {"cluster": KEY}, content_type="application/json")
    assert made.status_code == 201, made.content
