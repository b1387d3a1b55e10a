"""The commands of AI Platform Prediction: what a version's fields become, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from serving.models import Endpoint, ModelVersion

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake")]

HERE = "/api/v1/projects/vision/ai-platform/models"
ASKED = {"name": "v1", "deploymentUri": "gs://lake/mnist/1", "framework": "TENSORFLOW"}


@pytest.fixture
def mnist(api: Any, alice: Any, project: Any) -> str:
    del project
    answer = api(alice, "POST", HERE, {"name": "mnist"})
    assert answer.status_code == 201, answer.content
    return f"{HERE}/mnist/versions"


def test_a_version_is_registered_copied_and_deployed_under_its_models_name(
    api, alice, mnist, settle
) -> None:
    asked = {**ASKED, "runtimeVersion": "2.11", "machineType": "n1-standard-2"}
    answer = api(alice, "POST", mnist, {**asked, "autoScaling": {"minNodes": 0}})
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert (
        told["name"],
        told["framework"],
        told["state"],
        told["isDefault"],
        told["endpoint"],
    ) == (
        "mnist/v1",
        "TENSORFLOW",
        "CREATING",
        True,
        "mnist",
    )
    row = settle(Endpoint.objects.get())
    assert (row.name, row.model, row.cpu_milli, row.memory_mib) == ("mnist", "mnist/v1", 2000, 7680)
    assert (row.sleep_after_minutes, row.reason) == (15, "data")  # it waits for its files
    assert ModelVersion.objects.get().load.url == "gs://lake/mnist/1"


def test_a_second_version_is_registered_and_says_how_it_is_served(api, alice, mnist) -> None:
    assert api(alice, "POST", mnist, ASKED).status_code == 202
    told = api(alice, "POST", mnist, {**ASKED, "name": "v2"}).json()
    assert "berth endpoint edit mnist --model mnist/v2" in told["message"]
    assert Endpoint.objects.get().model == "mnist/v1"
    listed = api(alice, "GET", mnist).json()["results"]
    assert [(r["name"], r["isDefault"]) for r in listed] == [
        ("mnist/v2", True),
        ("mnist/v1", False),
    ]
    assert api(alice, "POST", f"{mnist}/v1/set-default").json()["isDefault"] is True
    found = api(alice, "GET", f"{HERE}/mnist").json()
    assert found["defaultVersion"]["name"] == "mnist/v1"
    assert api(alice, "DELETE", f"{mnist}/v1").json()["code"] == "model-serves"
    assert api(alice, "DELETE", f"{mnist}/v2").status_code == 204


def test_a_plan_says_what_each_field_becomes_and_makes_nothing(api, alice, mnist) -> None:
    asked = {**ASKED, "pythonVersion": "3.7", "unsupported": {"explanationConfig": {"a": 1}}}
    told = api(alice, "POST", f"{mnist}?plan=1", asked).json()
    lines = {line["field"]: line for line in told["fields"]}
    assert (told["allowed"], lines["explanationConfig.a"]["refused"]) == (False, True)
    assert lines["pythonVersion"]["becomes"] == "nothing"
    assert lines["deploymentUri"]["becomes"].startswith("copied")
    assert not ModelVersion.objects.exists()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"framework": "CAFFE"}, "framework"),
        ({"deploymentUri": ""}, "deploymentUri"),
        ({"machineType": "abacus-1"}, "machineType"),
        ({"acceleratorConfig": {"type": "NVIDIA_TESLA_K80"}}, "acceleratorConfig"),
        ({"unsupported": {"predictionClass": "a.B"}}, "predictionClass"),
        ({"deploymentUri": "ftp://x/y"}, "origin"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_makes_nothing(
    api, alice, mnist, said: dict[str, Any], field: str
) -> None:
    answer = api(alice, "POST", mnist, {**ASKED, **said})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), answer.content
    assert not ModelVersion.objects.exists()
    assert not Endpoint.objects.exists()


def test_who_may_only_read_creates_nothing(api, vera, mnist) -> None:
    assert api(vera, "POST", mnist, ASKED).status_code == 403
    assert api(vera, "GET", mnist).status_code == 200
