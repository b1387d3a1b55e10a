"""Files that a person sends in the browser: where they go, who may, and what cancelling leaves."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import Conflict
from serving.models import Model, ModelVersion
from serving.services.models import upload_cancel

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake", "project")]

HERE = "/projects/vision/models"
JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def begin(as_user: Any) -> Any:
    def make(who: Any, model: str = "digits") -> dict[str, Any]:
        said = {"model": model, "origin": "upload:iris"}
        answer = as_user(who).post(f"{HERE}/new", said, **JSON)
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    return make


def test_the_script_is_told_where_the_files_go(as_user: Any, alice: Any, begin: Any) -> None:
    made = begin(alice)
    row = ModelVersion.objects.get()
    assert (row.awaits_upload, made["title"], made["mine"]) == (True, "models", "yes")
    assert made["folder"] == row.folder
    assert row.folder.startswith("digits/v1-")
    assert made["page"] == row.get_absolute_url()
    page = as_user(alice).get(made["page"]).content.decode()
    assert f'data-folder="{row.folder}"' in page
    assert as_user(alice).post(made["session"]).status_code == 202


def test_without_a_script_the_form_leads_to_where_they_can_be_sent(
    as_user: Any, alice: Any
) -> None:
    said = {"model": "digits", "origin": "upload:iris"}
    answer = as_user(alice).post(f"{HERE}/new", said)
    assert answer["Location"] == ModelVersion.objects.get().get_absolute_url()


def test_a_form_that_is_refused_is_answered_as_a_page(as_user: Any, alice: Any) -> None:
    said = {"model": "Dig its", "origin": "upload:iris"}
    answer = as_user(alice).post(f"{HERE}/new", said, **JSON)
    assert (answer.status_code, Model.objects.count()) == (422, 0)
    assert 'id="version-fields"' in answer.content.decode()


def test_cancelling_leaves_no_version_and_no_model_that_was_made_with_it(
    as_user: Any, alice: Any, begin: Any, model: Any
) -> None:
    """One that somebody made by itself stays, however short before."""
    made = begin(alice, "flowers")
    answer = as_user(alice).post(made["page"], {"act": "cancel"}, **JSON)
    assert (answer.status_code, answer.json()) == (200, {"page": f"{HERE}/"})
    assert list(Model.objects.all()) == [model]
    made = begin(alice)
    assert as_user(alice).post(made["page"], {"act": "cancel"}).status_code == 302
    assert list(Model.objects.all()) == [model]
    assert not ModelVersion.objects.exists()


def test_cancelling_keeps_a_model_that_has_got_another_version(
    as_user: Any, alice: Any, begin: Any
) -> None:
    made = begin(alice, "flowers")
    begin(alice, "flowers")
    assert as_user(alice).post(made["page"], {"act": "cancel"}).status_code == 302
    assert list(ModelVersion.objects.values_list("model__name", "name")) == [("flowers", "v2")]


def test_what_was_sent_to_its_end_in_another_page_is_not_cancelled(
    as_user: Any, alice: Any, begin: Any, principal: Any
) -> None:
    """Nor by who has looked before; the page shows no box for it any more."""
    made = begin(alice)
    row = ModelVersion.objects.select_related("model__project").get()
    page = as_user(alice).get(made["page"]).content.decode()
    assert 'data-sending="coming"' in page
    assert "Look at its files again" not in page  # half of them would be made a version
    assert as_user(alice).post(made["page"], {"act": "sent"}).status_code == 302
    assert row.awaits_upload  # as it was seen
    with pytest.raises(Conflict):
        upload_cancel(principal=principal(alice), row=row)
    assert as_user(alice).post(made["page"], {"act": "cancel"}, **JSON).status_code == 409
    assert 'data-sending=""' in as_user(alice).get(made["page"]).content.decode()


def test_what_has_arrived_is_deleted_and_not_cancelled(
    as_user: Any, alice: Any, version: Any
) -> None:
    row = version("v1", source="upload", files="there")
    answer = as_user(alice).post(row.get_absolute_url(), {"act": "cancel"})
    assert answer.status_code == 409
    assert "delete it instead" in answer.content.decode()
    assert ModelVersion.objects.exists()


def test_who_may_only_read_is_told_and_sends_nothing(
    as_user: Any, alice: Any, vera: Any, begin: Any
) -> None:
    made = begin(alice)
    page = as_user(vera).get(made["page"]).content.decode()
    assert "Its files have not all arrived" in page
    assert 'id="browser"' not in page
    assert as_user(vera).post(made["page"], {"act": "cancel"}).status_code == 403


def test_files_that_do_not_fit_can_be_sent_again(
    as_user: Any, alice: Any, begin: Any, look: Any, tmp_path: Any
) -> None:
    made = begin(alice)
    folder = tmp_path / "models" / made["folder"]
    folder.mkdir(parents=True)
    (folder / "model.zip").write_bytes(b"PK")
    sent = {"act": "sent", "then": "deploy"}
    assert as_user(alice).post(made["page"], sent)["Location"] == made["page"]
    look()
    row = ModelVersion.objects.get()
    assert (row.files, row.awaits_upload) == ("failed", True)
    page = as_user(alice).get(made["page"]).content.decode()
    assert 'data-sending="failed"' in page
    assert "Look at its files again" in page
    assert "model.zip is an archive" in row.problem
    (folder / "model.joblib").write_bytes(b"\x80\x05")
    assert as_user(alice).post(made["page"], sent).status_code == 302
    look()
    row.refresh_from_db()
    assert (row.files, row.framework, row.awaits_upload) == ("there", "sklearn", False)
