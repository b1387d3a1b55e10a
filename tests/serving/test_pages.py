"""The pages of endpoints: list, overview, canary, keys, requests, try it, catalogue."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from projects.models import Project
from serving.models import Endpoint, EndpointKey, Model
from tests.serving.test_traffic import called

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]
HERE = "/projects/vision/endpoints/"


@pytest.fixture
def signed(client, alice) -> Any:
    client.force_login(alice)
    return client


@pytest.fixture
def first(serve, version) -> Any:
    version("v1")
    version("v2", metrics={"accuracy": 0.97})
    return serve(model="digits/v1", command=[])


@pytest.fixture
def at(first) -> str:
    return f"{HERE}{first.short_id}/"


@pytest.fixture
def beside(api, alice, first, settle) -> Any:
    answer = api(alice, "POST", f"/api/v1{HERE}{first.short_id}/canary", {"model": "digits/v2"})
    assert answer.status_code == 202, answer.content
    return settle(Endpoint.objects.get(canary_of=first))


def text_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.content[:2000]
    return str(answer.content.decode())


def test_the_list_says_what_each_serves_and_how_it_is_called(signed, first, beside) -> None:
    called(first, 1, "u1", *[0.02] * 15)
    called(beside, 1, "u1", *[0.02] * 5, server_errors=2)
    text = text_of(signed.get(HERE))
    assert "digits/v1" in text
    assert ">4<" in text  # a minute, over five
    assert "10\N{NO-BREAK SPACE}%" in text
    assert "canary-" not in text


def test_the_list_asks_as_often_for_many_as_for_few(signed, serve, alice, project) -> None:
    serve()

    def questions() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            text_of(signed.get(HERE))
        return len(seen)

    questions()
    few = questions()
    for number in range(20):
        Endpoint.objects.create(project=project, owner=alice, name=f"e{number}", command=["x"])
    assert questions() <= few


@pytest.mark.long("a thousand rows; of twenty beside it")
def test_a_thousand_endpoints_are_listed_in_six_questions(
    signed, serve, version, alice, project
) -> None:
    version("v1")
    first = serve(model="digits/v1", command=[])
    with transaction.atomic():
        for number in range(1000):
            row = Endpoint.objects.create(
                project=project, owner=alice, name=f"e{number:04}", model="digits/v1",
                version=first.version, canary_of=first if number == 999 else None,
            )  # fmt: skip
            called(row, 1, "u1", 0.02)
    signed.get(HERE)
    with CaptureQueriesContext(connection) as seen:
        text = text_of(signed.get(f"{HERE}?sort=name"))
    own = [one["sql"] for one in seen if "serving_" in one["sql"] or "work_workload" in one["sql"]]
    assert len(own) <= 6, "\n".join(own)
    assert re.search(r"1 to \d+ of 1,?000\b", text)
    assert text_of(signed.get(f"{HERE}?q=e0500&state=queued")).count("name-cell") == 1


def test_nothing_yet_leads_to_the_form(signed) -> None:
    assert "Deploy a model" in text_of(signed.get(HERE))


def test_the_overview_has_address_figures_replicas_and_cost(signed, at, first, settings) -> None:
    settings.BERTH_GATEWAY_URL = "https://models.example.org"
    called(first, 2, "u1", *[0.2] * 10)
    text = text_of(signed.get(at))
    assert "https://models.example.org/e/vision/digits" in text
    assert "Cost of the last 30 days" in text
    assert 'class="calls-line' in text
    assert "Put a canary beside it" in text


def test_a_canary_is_made_split_rolled_back_and_promoted_by_forms(signed, at, first) -> None:
    page = text_of(signed.get(f"{at}canary/"))
    assert "v2 (accuracy 0.97)" in page
    made = signed.post(f"{at}canary/", {"model": "digits/v2", "min_replicas": "1"})
    assert made.status_code == 302, made.content
    canary = Endpoint.objects.get(canary_of=first)
    assert canary.model == "digits/v2"
    assert "It is not ready, so it gets no request." in text_of(signed.get(at))
    assert signed.post(f"{at}canary-split/", {"percent": "20"}).status_code == 302
    first.refresh_from_db()
    assert first.canary_percent == 20
    refused = signed.post(f"{at}canary-promote/")
    assert refused.status_code == 409
    assert signed.post(f"{at}canary-split/", {"percent": "0"}).status_code == 302
    first.refresh_from_db()
    assert first.canary_percent == 0
    assert signed.post(f"{at}canary-end/").status_code == 302
    first.refresh_from_db()
    assert first.canary_leaves


@pytest.mark.parametrize(
    ("verb", "said"), [("promote", {}), ("split", {"percent": "90"}), ("end", {})]
)
def test_a_press_is_for_the_canary_that_the_page_showed(signed, at, first, beside, verb, said):
    seen = {"seen": str(beside.uid)}
    Endpoint.objects.filter(pk=beside.pk).update(desired="absent")
    assert (
        signed.post(f"{at}canary/", {"model": "digits/v2", "min_replicas": "1"}).status_code == 302
    )
    refused = signed.post(f"{at}canary-{verb}/", {**said, **seen})
    assert refused.status_code == 409
    assert "It has another canary by now" in refused.content.decode()
    first.refresh_from_db()
    assert (first.canary_percent, first.promoting, first.canary_leaves) == (0, False, False)


def test_a_refusal_is_said_where_its_button_is_gone(signed, at, first) -> None:
    for verb, said in (
        ("canary-promote", "There is no canary beside it now."),
        ("roll-back", "It has served nothing else yet."),
    ):
        refused = signed.post(f"{at}{verb}/", {"seen": "1"})
        assert refused.status_code == 409
        assert said in refused.content.decode()


@pytest.mark.parametrize("percent", ["101", "-1", "x", "", "1e2", "\uff19"])
def test_a_share_that_makes_no_sense_is_said_at_its_field(signed, at, beside, percent) -> None:
    answer = signed.post(f"{at}canary-split/", {"percent": percent})
    assert answer.status_code == 422
    assert "From 0 to 100." in answer.content.decode()
    assert 'id="split-percent-said"' in answer.content.decode()


def test_a_ready_canary_has_its_own_figures_and_a_slider(signed, at, first, beside) -> None:
    Endpoint.objects.filter(pk=first.pk).update(canary_percent=30)
    called(first, 1, "u1", *[0.02] * 10)
    called(beside, 1, "u1", *[0.5] * 5)
    text = text_of(signed.get(at))
    assert ">70&nbsp;%<" in text
    assert ">30&nbsp;%<" in text
    assert 'type="range"' in text
    assert "Roll back" in text
    assert "Promote" in text


def test_a_key_is_shown_once_with_its_limits_and_revoked(signed, at) -> None:
    said = {"name": "web shop", "days": "30", "requests_per_second": "20"}
    made = signed.post(f"{at}keys/", said)
    assert "no-store" in made["Cache-Control"]
    key = EndpointKey.objects.get()
    assert key.expires_at is not None
    secret = next(one for one in made.content.decode().split('"') if one.startswith("bep_"))
    assert len(secret) == 36
    listed = text_of(signed.get(f"{at}keys/"))
    assert secret not in listed
    assert "20 a second" in listed
    assert signed.post(f"{at}key-revoke/", {"key": str(key.uid)}).status_code == 302
    assert "Revoked" in text_of(signed.get(f"{at}keys/"))


def test_a_refused_key_stands_in_the_form_with_what_was_typed(signed, at) -> None:
    signed.post(f"{at}keys/", {"name": "shop", "days": "30"})
    again = signed.post(f"{at}keys/", {"name": "shop", "days": "30", "concurrent": "7"})
    assert again.status_code == 422
    assert "There is a key of this name" in again.content.decode()
    assert 'value="7"' in again.content.decode()


def test_others_see_how_it_is_called_but_no_keys(client, vera, at, first) -> None:
    client.force_login(vera)
    called(first, 2, "u1", 0.1)
    text = text_of(client.get(at))
    assert "/keys/" not in text
    assert client.get(f"{at}keys/").status_code == 403
    assert client.post(f"{at}canary-split/", {"percent": "5"}).status_code == 403
    assert "Who called" in text_of(client.get(f"{at}requests/"))
    assert "Your role may see endpoints" in text_of(client.get(f"{at}try/"))
    tried = client.post(f"{at}try/", {"method": "GET", "path": "", "body": ""})
    assert tried.status_code == 403
    assert not EndpointKey.objects.exists()


def test_who_called_is_a_table_and_a_file(signed, at, first, alice) -> None:
    called(first, 2, f"u{alice.pk}", 0.1, 0.1)
    assert "Alice" in text_of(signed.get(f"{at}requests/?span=week"))
    file = signed.get(f"{at}requests/?format=csv")
    lines = b"".join(file.streaming_content).decode("utf-8-sig").splitlines()
    assert lines[1].split(",")[1:4] == ["Alice", "2", "0"]


def test_nobody_called_is_said(signed, at) -> None:
    assert "Nobody called it in this time" in text_of(signed.get(f"{at}requests/"))


def test_try_it_begins_with_an_example_of_the_signature(signed, first, at, settings) -> None:
    settings.BERTH_GATEWAY_URL = "https://models.example.org"
    version = first.version
    version.signature = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [-1, 2]}]}
    version.save()
    text = text_of(signed.get(f"{at}try/"))
    assert "[[0, 0]]" in text
    assert "v1/models/digits:predict" in text
    assert "v2/models/digits/infer" in text_of(signed.get(f"{at}try/?as=v2"))
    assert "curl" in text


def test_the_catalogue_leads_to_a_form_with_the_size(signed, version) -> None:
    made = version("v3", size_bytes=3 * 2**30)
    text = text_of(signed.get("/projects/vision/endpoints/catalogue/"))
    assert "7 GiB" in text.replace("\N{NO-BREAK SPACE}", " ")
    address = next(one for one in text.split('"') if "endpoints/new/?model=" in one)
    form = text_of(signed.get(address.replace("&amp;", "&")))
    assert f'value="{made}"' in form
    assert 'value="7"' in form


def test_a_catalogue_of_nothing_says_what_to_do(signed) -> None:
    assert "No model yet" in text_of(signed.get("/projects/vision/endpoints/catalogue/"))


def test_a_model_without_files_is_not_deployed(signed, version) -> None:
    version("v1", files="failed")
    text = text_of(signed.get("/projects/vision/endpoints/catalogue/"))
    assert "None of its versions has its files here." in text
    assert "endpoints/new/?model=" not in text


def offered_in(text: str) -> list[tuple[str, list[str]]]:
    """Return what the list of models has: model, and its versions as they are sent."""
    return [
        (model, re.findall(r'<option value="([^"]+)"', group))
        for model, group in re.findall(
            r'<optgroup label="([^"]+)">(.*?)</optgroup>', text, re.DOTALL
        )
    ]


def test_a_model_is_chosen_by_version_the_newest_that_serves_first(
    signed, version, alice, project, fake
) -> None:
    for name, stage in (("v1", "serving"), ("v2", "serving"), ("v3", "candidate")):
        version(name, stage=stage, metrics={"accuracy": 0.5})
    version("old", stage="retired")
    version("gone", files="failed")
    version("unread", framework="")
    other = Model.objects.create(project=project, name="another", created_by=alice)
    version("v1", model=other, size_bytes=3 * 2**30, framework="lightgbm")
    strangers = Project.objects.create(slug="speech", name="Speech", phase="running")
    version("v1", model=Model.objects.create(project=strangers, name="secret"))
    text = text_of(signed.get(f"{HERE}new/"))
    assert offered_in(text) == [
        ("another", ["another/v1"]),
        ("digits", ["digits/v2", "digits/v1", "digits/v3"]),
    ]
    assert "scikit-learn · accuracy 0.5. 1 CPU" in text
    assert "&quot;memory&quot;: &quot;7&quot;" in text
    assert 'name="model"' in text  # any other is typed


def test_a_link_that_names_a_model_has_the_size_that_follows(signed, version) -> None:
    version("v1", size_bytes=3 * 2**30)
    form = signed.get(f"{HERE}new/?model=digits/v1").context["form"]
    assert (form["memory"].value(), form["cpu"].value(), form["gpus"].value()) == (7, 1, 0)
    said = signed.get(f"{HERE}new/?model=digits&memory_mib=4096").context["form"]
    assert said["memory"].value() == 4


def test_who_has_no_model_is_led_to_register_one(signed, vera, client, fake) -> None:
    text = text_of(signed.get(f"{HERE}new/"))
    assert "/projects/vision/models/new" in text
    assert "<optgroup" not in text


def test_the_settings_of_an_endpoint_offer_its_models_too(signed, at) -> None:
    text = text_of(signed.get(f"{at}settings/"))
    assert offered_in(text) == [("digits", ["digits/v2", "digits/v1"])]
    assert "data-follow" not in text  # its size stays
