"""What is done from the list: to one workspace by its menu, to several after one question."""

import pytest

from notebooks.models import Workspace
from runtime.protocol import Phase
from tests.notebooks.addresses import BASE, url
from tests.support.workspaces import workspace_launch


@pytest.fixture
def launched(presets, project, principal):
    def launch(user, *names):
        made = [
            workspace_launch(
                principal=principal(user),
                project=project,
                preset=presets["jupyterlab"],
            )
            for _ in names
        ]
        for row, name in zip(made, names, strict=True):
            Workspace.objects.filter(pk=row.pk).update(name=name)
            row.refresh_from_db()
        return made

    return launch


def test_a_row_has_the_acts_that_its_reader_may_do(as_user, launched, alice, bob):
    [row] = launched(alice, "mine")
    mine = as_user(alice).get(BASE).content.decode()
    assert f'formaction="{url(row, "stop/")}"' in mine
    assert f'value="{row.short_id}" aria-label="Choose mine"' in mine
    assert "act=delete&amp;id=" in mine
    theirs = as_user(bob).get(BASE).content.decode()  # a member sees it and can't end it
    assert "mine" in theirs
    assert "formaction" not in theirs
    assert "row-mark" not in theirs


def test_several_are_stopped_after_one_question(as_user, launched, alice):
    rows = launched(alice, "one", "two", "three")
    client = as_user(alice)
    asked = client.get(f"{BASE}act/", {"act": "stop", "id": [r.short_id for r in rows[:2]]})
    page = asked.content.decode()
    assert "Stop 2 workspaces" in page
    assert "one" in page
    assert "three" not in page
    answer = client.post(f"{BASE}act/", {"act": "stop", "id": [r.short_id for r in rows[:2]]})
    assert answer.status_code == 302
    wishes = dict(Workspace.objects.values_list("name", "desired"))
    assert wishes == {"one": "stopped", "two": "stopped", "three": "running"}
    said = client.get(BASE).content.decode()
    assert "2 workspaces are stopping." in said


def test_several_are_deleted_only_when_their_number_is_typed(as_user, launched, alice):
    rows = launched(alice, "one", "two")
    client, ids = as_user(alice), [row.short_id for row in rows]
    assert (
        "Type <strong>2</strong>"
        in client.get(f"{BASE}act/", {"act": "delete", "id": ids}).content.decode()
    )
    wrong = client.post(f"{BASE}act/", {"act": "delete", "id": ids, "confirm": "yes"})
    assert wrong.status_code == 422
    assert not Workspace.objects.filter(desired="absent").exists()
    client.post(f"{BASE}act/", {"act": "delete", "id": ids[:1], "confirm": "one"})
    client.post(f"{BASE}act/", {"act": "delete", "id": ids[1:], "confirm": "two"})
    assert Workspace.objects.filter(desired="absent").count() == 2


def test_what_is_not_ones_own_is_left_out_and_a_stranger_finds_nothing(
    as_user, launched, alice, bob, charlie
):
    [theirs], [mine] = launched(alice, "of alice"), launched(bob, "of bob")
    ids = [theirs.short_id, mine.short_id]
    page = as_user(bob).get(f"{BASE}act/", {"act": "stop", "id": ids}).content.decode()
    assert "Stop 1 workspace" in page
    assert "Left out" in page
    as_user(bob).post(f"{BASE}act/", {"act": "stop", "id": ids})
    assert Workspace.objects.get(pk=theirs.pk).desired == "running"
    assert Workspace.objects.get(pk=mine.pk).desired == "stopped"
    assert as_user(charlie).get(f"{BASE}act/", {"act": "stop", "id": ids}).status_code == 404
    for nothing in ({"act": "sell", "id": ids}, {"act": "stop"}):
        assert as_user(bob).get(f"{BASE}act/", nothing)["Location"] == BASE


@pytest.mark.parametrize("tab", ["logs/", "events/", "usage/", "yaml/", "settings/"])
def test_every_tab_has_state_open_and_stop_in_its_head(as_user, launched, alice, tab):
    [row] = launched(alice, "mine")
    Workspace.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, observed_generation=1)
    page = as_user(alice).get(url(row, tab)).content.decode()
    head = page.partition('id="head"')[2].partition("</nav>")[0]
    assert "Running" in head
    assert "Open" in head
    assert "Stop" in head
    part = as_user(alice).get(url(row, "state/?part=head")).content.decode()
    assert part.strip().startswith('<div id="head"')


def test_of_others_work_one_says_why_and_they_are_told(as_user, launched, alice, mona):
    rows = launched(alice, "one", "two")
    client, ids = as_user(mona), [row.short_id for row in rows]
    listed = client.get(BASE).content.decode()
    assert "formaction" not in listed  # nothing of another's is ended by one press
    assert "act=stop&amp;id=" in listed
    assert "is told it" in client.get(f"{BASE}act/", {"act": "stop", "id": ids}).content.decode()
    assert client.post(f"{BASE}act/", {"act": "stop", "id": ids}).status_code == 422
    assert set(Workspace.objects.values_list("desired", flat=True)) == {"running"}
    said = {"act": "stop", "id": ids, "reason": "The machine goes down at six."}
    assert client.post(f"{BASE}act/", said).status_code == 302
    assert set(Workspace.objects.values_list("desired", flat=True)) == {"stopped"}
    told = "".join(str(line.params) for line in alice.notifications.all())
    assert told.count("The machine goes down at six.") == 2
