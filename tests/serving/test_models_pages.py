"""The pages of models: what they show, and that each press does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from serving.models import Model, ModelVersion

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake")]

HERE = "/projects/vision/models"


def test_the_first_version_is_registered_with_its_model_by_one_form(
    as_user, alice, data, project
) -> None:
    empty = as_user(alice).get(f"{HERE}/").content.decode()
    assert "No model yet" in empty
    said = {"model": "digits", "origin": "volume:data/m", "metrics": "accuracy=0.97\nloss = 0.1"}
    answer = as_user(alice).post(f"{HERE}/new", said)
    assert (answer.status_code, answer["Location"]) == (302, f"{HERE}/digits/")
    assert ModelVersion.objects.get().metrics == {"accuracy": 0.97, "loss": 0.1}
    page = as_user(alice).get(f"{HERE}/digits/").content.decode()
    assert "accuracy=0.97" in page
    assert "digits" in as_user(alice).get(f"{HERE}/").content.decode()


@pytest.mark.parametrize(
    "said",
    [
        {"origin": "volume:nowhere/m"},
        {"model": "Dig its"},
        {"metrics": "accuracy"},
        {"name": "V 1"},
        {"framework": "caffe"},
    ],
)
def test_what_is_wrong_is_said_at_its_field_with_all_that_was_typed(
    as_user, alice, data, said: dict[str, Any]
) -> None:
    answer = as_user(alice).post(
        f"{HERE}/new", {"model": "digits", "origin": "volume:data/m", **said}
    )
    assert answer.status_code in {400, 422}
    form = answer.context["form"]
    assert list(form.errors) == list(said), form.errors
    assert ("this is not: accuracy" in answer.content.decode()) is ("metrics" in said)
    assert not Model.objects.exists()


def test_versions_are_compared_staged_looked_at_and_deleted(as_user, alice, version, api) -> None:
    version("v1", metrics={"accuracy": 0.9})
    version("v2", metrics={"accuracy": 0.95, "loss": 0.2})
    page = as_user(alice).get(f"{HERE}/digits/?compare=v1&compare=v2").content.decode()
    assert "<strong>0.95</strong>" in page
    assert "model=digits%2Fv2" in page  # to the form of an endpoint
    act = f"{HERE}/digits/v1"
    assert as_user(alice).post(act, {"stage": "retired"}).status_code == 302
    assert as_user(alice).post(act, {"act": "default"}).status_code == 302
    assert ModelVersion.objects.get(name="v1").stage == "serving"
    assert as_user(alice).post(act, {"act": "check"}).status_code == 302
    assert as_user(alice).post(act, {"act": "delete"}).status_code == 302
    assert as_user(alice).post(f"{HERE}/digits/delete", {"confirm": "x"}).status_code == 422
    assert as_user(alice).post(f"{HERE}/digits/delete", {"confirm": "digits"}).status_code == 302
    assert not Model.objects.exists()


def test_who_only_reads_sees_no_button_that_would_be_refused(as_user, vera, version) -> None:
    version("v1")
    page = as_user(vera).get(f"{HERE}/digits/").content.decode()
    for word in ("Deploy", "Add a version", "Look at its files again"):
        assert word not in page
    assert as_user(vera).get(f"{HERE}/new").status_code == 403
    assert as_user(vera).post(f"{HERE}/digits/v1", {"act": "delete"}).status_code == 403


def test_models_are_listed_in_as_many_questions_however_many(
    as_user, alice, version, model, project, django_assert_max_num_queries
) -> None:
    for n in range(40):
        version(f"v{n}")
        Model.objects.create(project=project, name=f"m{n}", created_by=alice)
    client = as_user(alice)
    client.get(f"{HERE}/")
    with django_assert_max_num_queries(9):
        client.get(f"{HERE}/")
    with django_assert_max_num_queries(16):
        client.get(f"{HERE}/digits/")


def test_a_run_that_left_something_offers_to_register_it(
    as_user, api, alice, data, settle, fake
) -> None:
    from jobs.models import Job
    from tests.serving.test_models import ends

    said = {"name": "Train 1", "command": ["python", "t.py"], "output": "volume:data/out"}
    answer = api(alice, "POST", "/api/v1/projects/vision/jobs", {**said, "volumes": ["data"]})
    assert answer.status_code == 202, answer.content
    job = settle(Job.objects.get())
    where = f"/projects/vision/jobs/{job.short_id}/artifacts/"
    assert "Register as model" not in as_user(alice).get(where).content.decode()
    ends(job, fake, settle)
    for address in (where, f"/projects/vision/jobs/{job.short_id}/"):
        page = as_user(alice).get(address).content.decode()
        assert f"models/new?model=train-1&amp;origin=run%3A{job.short_id}%2F1" in page


def test_one_press_registers_it_and_leads_to_the_form_of_an_endpoint(
    as_user, alice, data, look, monkeypatch
) -> None:
    from serving.services import version_files

    said = {"model": "digits", "origin": "volume:data/m", "then": "deploy"}
    monkeypatch.setattr(version_files, "LOOKED_WITHIN_S", 0.1)  # nobody serves its files meanwhile
    answer = as_user(alice).post(f"{HERE}/new", said)
    assert answer["Location"] == "/projects/vision/endpoints/new/?model=digits%2Fv1"
    assert ModelVersion.objects.get().files == "coming"
    where = look()
    (where / "data" / "m").mkdir()
    (where / "data" / "m" / "model.onnx").write_bytes(b"x")
    as_user(alice).post(f"{HERE}/new", said)
    assert ModelVersion.objects.get(name="v2").framework == "onnx"


def test_what_does_not_fit_is_not_led_to_the_form(as_user, alice, data, look) -> None:
    said = {"model": "digits", "origin": "volume:data/m"}
    as_user(alice).post(f"{HERE}/new", said)
    where = look()
    (where / "data" / "m").mkdir()
    (where / "data" / "m" / "notes.txt").write_text("no model")
    answer = as_user(alice).post(f"{HERE}/new", {**said, "then": "deploy"})
    assert answer["Location"] == f"{HERE}/digits/"


def test_a_version_says_where_it_serves_also_as_a_canary(
    as_user, alice, vera, version, serve, api, settle
) -> None:
    from serving.models import Endpoint

    version("v1", metrics={"accuracy": 0.9})
    version("v2", signature={"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]})
    first = serve(model="digits/v1", command=[])
    made = {"model": "digits/v2"}
    url = f"/api/v1/projects/vision/endpoints/{first.short_id}/canary"
    assert api(alice, "POST", url, made).status_code == 202
    settle(Endpoint.objects.get(canary_of=first))
    page = as_user(alice).get(f"{HERE}/digits/v1").content.decode()
    assert first.get_absolute_url() in page
    assert "What an endpoint serves can&#x27;t be deleted." in page.replace("'", "&#x27;")
    beside = as_user(vera).get(f"{HERE}/digits/v2").content.decode()
    assert "as its canary, with 0 % of the requests" in beside
    assert "n \N{MULTIPLICATION SIGN} 4" in beside
    for word in ("Deploy</", "Look at its files again", 'popovertarget="delete-version"'):
        assert word not in beside
    listed = as_user(alice).get("/projects/vision/endpoints/").content.decode()
    assert f'href="{HERE}/digits/v1"' in listed


def test_a_refused_stage_is_said_on_the_page_of_the_version(as_user, alice, version) -> None:
    version("v1")
    answer = as_user(alice).post(f"{HERE}/digits/v1", {"stage": "best"})
    assert answer.status_code == 422
    assert "Where it serves" in answer.content.decode()
    assert as_user(alice).get(f"{HERE}/digits/v9").status_code == 404


def test_models_are_searched_narrowed_sorted_and_paged(
    as_user, alice, version, model, project
) -> None:
    version("v1", framework="onnx")
    for n in range(30):
        about = "Nuclei" if n == 3 else ""
        Model.objects.create(project=project, name=f"m{n:02}", description=about, created_by=alice)
    client = as_user(alice)

    def named(query: str) -> list[str]:
        table = client.get(f"{HERE}/?{query}").context["table"]
        return [row.record.name for row in table.paginated_rows]

    assert named("q=nuclei") == ["m03"]
    assert named("framework=onnx") == ["digits"]
    assert named("served=1") == []
    assert named("sort=-name")[:2] == ["m29", "m28"]
    assert len(named("page=2")) == 6
    assert len(named("framework=nothing&page=99&served=x")) == 6  # what makes no sense
    assert "Nothing matches these filters" in client.get(f"{HERE}/?q=zzz").content.decode()
