"""Which cluster of several work goes to, and what may be changed of it where nothing starts."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from notebooks.models import Preset
from tests.notebooks.cluster_world import BASE, CONTAINER, attach, network, pool, row_of

WEB = {"port": 7860, "name": "demo", "web": True}

REFUSED = [  # by what the first cluster lacks, and the second one has
    ({"trusted": False}, {}),  # its self-check is not green yet
    ({"default_image": ""}, {}),
    ({"sidecar_image": "", "default_image": ""}, {**CONTAINER, "ports": [WEB]}),
    ({}, {**CONTAINER, "pool": "fast"}),
    ({}, {**CONTAINER, "gpus": 1, "network": "rdma"}),
]


@pytest.fixture
def two(project, only_gpu, monkeypatch):
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


def test_what_the_fitting_cluster_refuses_goes_to_none_that_could_never_run_it(
    post, two, only_gpu, as_user, alice
):
    two(trusted=False)
    only_gpu.kinds = {}
    only_gpu.save()
    answer = post({"gpus": 1})
    assert (answer.status_code, "Cluster a-first" in answer.json()["detail"]) == (409, True)
    Preset.objects.filter(slug="small").update(gpus=1)
    assert "was not proved yet" in cards(as_user(alice))["small"].refusal


def cards(client):
    return {card.preset.slug: card for card in client.get("/").context["cards"]}


@pytest.mark.parametrize(("of_the_first", "asked"), REFUSED)
def test_a_card_tells_of_the_cluster_that_a_press_on_it_chooses(
    two, as_user, alice, of_the_first, asked
):
    two(**of_the_first)
    Preset.objects.filter(slug="small").update(**asked)
    card = cards(as_user(alice))["small"]
    assert (card.cluster, card.refusal, card.forecast.starts_now) == ("Cluster gpu", "", True)


def test_a_card_that_every_cluster_refuses_says_why_and_promises_nothing(
    two, only_gpu, as_user, alice
):
    two(trusted=False)
    only_gpu.drain = True
    only_gpu.save()
    client = as_user(alice)
    assert "was not proved yet" in cards(client)["small"].refusal
    page = client.get("/").content.decode()
    assert ("was not proved yet" in page, "Starts now" in page) == (True, False)


def test_many_cards_cost_as_many_queries_as_one(two, as_user, alice):
    two(trusted=False)
    client = as_user(alice)
    asked = {"pool": "fast", "network": "rdma", "gpus": 2}
    Preset.objects.exclude(slug="small").delete()
    Preset.objects.update(**asked)
    client.get("/")
    with CaptureQueriesContext(connection) as one:
        assert list(cards(client)) == ["small"]
    for number in range(8):
        Preset.objects.create(slug=f"more-{number}", name=f"More {number}", **asked)
    with CaptureQueriesContext(connection) as many:
        assert len(cards(client)) == 1 + 8
    assert len(many) == len(one)


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


def test_an_image_in_the_settings_is_checked_for_the_cluster_of_the_workspace(
    post, as_user, gpu, alice
):
    row = row_of(post(CONTAINER))
    page = as_user(alice).get(f"/projects/vision/workspaces/{row.short_id}/settings/")
    assert "/projects/vision/images/check?cluster=gpu" in page.content.decode()
