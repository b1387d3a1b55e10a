"""A form that was refused stands again where it was, with what was typed; errors keep the frame."""

import re
from typing import Any

import pytest

from notebooks.models import Workspace
from volumes.models import Volume

pytestmark = pytest.mark.django_db
RAIL = 'id="rail"'


@pytest.fixture
def row(project: Any, alice: Any) -> Workspace:
    home, _made = Volume.objects.get_or_create(
        project=project, owner=alice, defaults={"name": "home"}
    )
    return Workspace.objects.create(
        project=project, owner=alice, name="zebra", home=home, phase="stopped", desired="stopped"
    )


def test_a_misspelt_name_in_share_is_said_at_its_field(
    row: Workspace, alice: Any, bob: Any, as_user: Any
) -> None:
    answer = as_user(alice).post(f"{row.get_absolute_url()}share/", {"username": "bbo"})
    page = answer.content.decode()
    assert answer.status_code == 422
    field = re.search(r'<input[^>]*id="share-username"[^>]*>', page)
    assert field
    assert 'value="bbo"' in field[0]
    assert 'aria-invalid="true"' in field[0]
    assert "No member of the project has this name." in page
    assert '<option value="bob">Bob</option>' in page
    assert RAIL in page
    assert "zebra" in page


def test_a_wrongly_typed_name_stands_in_its_open_question(
    row: Workspace, alice: Any, as_user: Any
) -> None:
    answer = as_user(alice).post(f"{row.get_absolute_url()}delete/", {"confirm": "zebr"})
    page = answer.content.decode()
    assert answer.status_code == 422
    sheet = re.search(r'<div id="delete-work"[^>]*data-open[^>]*>.*?</form>', page, re.DOTALL)
    assert sheet
    assert 'role="alert"' in sheet[0]
    assert Workspace.objects.filter(desired="stopped").exists()


@pytest.mark.parametrize("verb", ["share", "delete"])
def test_a_stranger_is_told_no_more_by_a_refused_form(
    row: Workspace, charlie: Any, as_user: Any, verb: str
) -> None:
    answer = as_user(charlie).post(f"{row.get_absolute_url()}{verb}/", {})
    assert answer.status_code == 404
    assert "zebra" not in answer.content.decode()


def test_errors_keep_the_rail_for_who_is_signed_in(
    project: Any, alice: Any, vera: Any, as_user: Any, client: Any
) -> None:
    lost = as_user(alice).get("/projects/vision/workspaces/none0000/")
    gone = as_user(alice).get("/no/such/page")
    denied = as_user(vera).get("/projects/vision/activity")
    for answer, status in ((lost, 404), (gone, 404), (denied, 403)):
        page = answer.content.decode()
        assert answer.status_code == status
        assert RAIL in page
        assert project.name in page
    assert RAIL not in client.get("/no/such/page").content.decode()
