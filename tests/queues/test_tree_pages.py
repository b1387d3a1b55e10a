"""The operators' pages of the tree: cells, the effect before saving, organisations, priorities."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from clusters.models import Claim, Device, Hold
from common.clock import now
from events.models import Event
from projects.models import Project
from queues.models import Guarantee, Priority, Queue
from queues.tree import entries

pytestmark = pytest.mark.django_db
TREE = "/console/queues/"


@pytest.fixture
def eight(machine: Any) -> Any:
    return machine(gpus=["H100"] * 8)


@pytest.fixture
def hunter(db: Any) -> Project:
    return Project.objects.create(slug="hunter", name="Hunter", phase="running")


@pytest.fixture
def allen(db: Any) -> Project:
    return Project.objects.create(slug="allen", name="Allen", phase="running")


@pytest.fixture
def console(as_user: Any, operator: Any) -> Any:
    return as_user(operator)


def claim(there: Any, project: Any, *, held: bool) -> Claim:
    row = Claim.objects.create(
        cluster=there,
        workload_uid=uuid4(),
        workload_kind="job",
        project_uid=project.uid,
        gpus=1,
        asked_at=now(),
        granted_at=now() if held else None,
    )
    if held:
        device = Device.objects.filter(hold__isnull=True).first()
        Hold.objects.create(claim=row, device=device)
    return row


def cells(**numbers: Any) -> dict[str, str]:
    """The fields of some rows: ``cells(guaranteed_KEY=2)`` and what is beside them, empty."""
    found: dict[str, str] = {}
    for name, value in numbers.items():
        column, _under, key = name.partition("_")
        key = key.replace("_", "-")
        for other in ("guaranteed", "most", "lends", "weight"):
            found.setdefault(f"{other}:{key}", "")
        found[f"{column}:{key}"] = str(value)
    return found


def row(project: Any, **numbers: Any) -> dict[str, str]:
    key = str(project.uid).replace("-", "_")
    return cells(**{f"{column}_{key}": value for column, value in numbers.items()})


def test_the_tree_shows_every_part_with_its_cells_and_what_it_holds(
    eight, hunter, allen, console, auditor, as_user
):
    for _n in range(3):
        claim(eight, hunter, held=True)
    claim(eight, allen, held=False)
    page = console.get(TREE).content.decode()
    assert f'name="guaranteed:{hunter.uid}"' in page
    assert "3 borrowed" in page
    assert "1 waited for" in page
    assert "0 of 8 promised" in page
    read = as_user(auditor).get(TREE).content.decode()
    assert re.search(rf'name="guaranteed:{hunter.uid}"[^>]*disabled', read)
    assert "Save" not in read


def test_the_effect_is_shown_before_anything_is_saved(eight, hunter, allen, console):
    for _n in range(8):
        claim(eight, hunter, held=True)
    claim(eight, allen, held=False)
    typed = {**row(allen, guaranteed=1), "preview": "1"}
    panel = console.post(TREE, typed, headers={"hx-request": "true"})
    text = panel.content.decode()
    assert panel.status_code == 200
    assert "1 starts" in text
    assert "1 is asked to give back" in text
    assert "1 of 8 promised" in text
    assert "<html" not in text
    assert not Queue.objects.exists()
    whole = console.post(TREE, typed).content.decode()  # without a script
    assert re.search(rf'name="guaranteed:{allen.uid}" value="1"', whole)
    assert "1 is asked to give back" in whole
    assert not Queue.objects.exists()


def test_what_is_saved_is_what_was_typed_and_only_that(eight, hunter, allen, console):
    revision = re.search(r'name="revision" value="(\w+)"', console.get(TREE).content.decode())
    assert revision
    typed = {
        **row(hunter, guaranteed=2, most=4, lends=1, weight="1.5"),
        **row(allen),
        "revision": revision[1],
    }
    answer = console.post(f"{TREE}?on=local/h100", typed)
    assert (answer.status_code, answer.url) == (302, f"{TREE}?on=local/h100")
    kept = Guarantee.objects.get()
    assert (kept.guaranteed, kept.most, kept.lends, str(kept.queue.weight)) == (2, 4, 1, "1.50")
    assert kept.queue.project == hunter
    # somebody else changed it meanwhile: nothing of the old page is written over it
    late = console.post(TREE, {**row(hunter, guaranteed=8), "revision": revision[1]})
    assert late.status_code == 409
    assert "Somebody else changed the tree" in late.content.decode()
    assert Guarantee.objects.get().guaranteed == 2


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"guaranteed": "-1"}, "Whole numbers from 0"),
        ({"guaranteed": "two"}, "Whole numbers from 0"),
        ({"guaranteed": "9" * 20}, "Whole numbers from 0"),
        ({"guaranteed": "3", "most": "2"}, "must not be less"),
        ({"guaranteed": "3", "lends": "4"}, "more can be lent"),
        ({"weight": "NaN"}, "weight"),
        ({"weight": "-2"}, "weight"),
    ],
)
def test_what_is_wrong_stands_at_its_row_and_nothing_is_kept(eight, hunter, console, numbers, said):
    answer = console.post(TREE, row(hunter, **numbers))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert said in page
    for column, value in numbers.items():
        assert re.search(rf'name="{column}:{hunter.uid}" value="{value}"', page)
    assert not Queue.objects.exists()


def test_an_organisation_is_made_moved_and_deleted_behind_its_name(eight, hunter, console):
    for name in ("Lab", "Group"):
        assert console.post(f"{TREE}new", {"name": name, "weight": "1"}).status_code == 302
    keys = {entry.name: entry.key for entry in entries().values()}
    group = f"{TREE}{keys['Group']}/"
    assert (
        console.post(group, {"name": "Group", "parent": keys["Lab"], "weight": "2"}).status_code
        == 302
    )
    move = {"parent": keys["Group"], "weight": "1"}
    preview = console.post(f"{TREE}{hunter.uid}/", {**move, "preview": "1"})
    assert preview.status_code == 200
    assert entries()[str(hunter.uid)].parent == ""
    console.post(f"{TREE}{hunter.uid}/", move)
    assert entries()[str(hunter.uid)].parent == keys["Group"]
    page = console.get(TREE).content.decode()
    assert 'class="share-depth-2"' in page
    # nothing that stands below it is offered as its place
    assert keys["Group"] not in re.findall(
        r'<option value="([^"]*)"', console.get(f"{TREE}{keys['Lab']}/").content.decode()
    )
    assert console.post(f"{group}delete", {"confirm": "Group"}).status_code == 409
    console.post(f"{TREE}{hunter.uid}/", {"parent": "", "weight": "1"})
    assert console.post(f"{group}delete", {"confirm": "group"}).status_code in {400, 422}
    assert keys["Group"] in entries()
    assert console.post(f"{group}delete", {"confirm": "Group"}).status_code == 302
    assert keys["Group"] not in entries()
    history = console.get(f"{TREE}history").content.decode()
    assert "made the organisation" in history
    assert "deleted the organisation" in history
    assert "stands below: - → Group" in history


def test_the_two_groups_are_shown_and_then_made(eight, hunter, allen, console):
    said = {
        "on": "local/h100",
        "name": "Pool",
        f"fixed:{hunter.uid}": "2",
        f"pool:{allen.uid}": "on",
    }
    page = console.post(f"{TREE}two-groups", {**said, "preview": "1"})
    assert "2 of 8 promised" in page.content.decode()
    assert not Queue.objects.exists()
    answer = console.post(f"{TREE}two-groups", said)
    assert answer.url == f"{TREE}?on=local%2Fh100"
    kept = Guarantee.objects.get()
    assert (kept.queue.project, kept.guaranteed, kept.most, kept.lends) == (hunter, 2, 2, 0)
    assert Queue.objects.get(project=allen).parent == Queue.objects.get(name="Pool")
    nobody = console.post(f"{TREE}two-groups", {"on": "local/h100", "name": "Other"})
    assert nobody.status_code == 422
    assert "Choose the projects" in nobody.content.decode()


def test_priorities_are_changed_on_their_page(console):
    page = console.get(f"{TREE}priorities/").content.decode()
    assert "Training" in page
    new = {"name": "night", "label": "Night", "value": "5", "who": "everybody", "purpose": ""}
    assert console.post(f"{TREE}priorities/new", new).status_code == 302
    one = f"{TREE}priorities/night/"
    assert console.post(one, {**new, "value": "7"}).status_code == 302
    assert Priority.objects.get(name="night").value == 7
    assert console.post(one, {**new, "purpose": "train"}).status_code == 422
    assert console.post(f"{one}delete", {"confirm": "night"}).status_code == 302
    assert not Priority.objects.filter(name="night").exists()
    assert Event.objects.filter(verb__startswith="priority.").count() == 3


def test_members_see_no_page_of_the_tree_but_their_own_line(
    eight, hunter, alice, as_user, project, console
):
    console.post(TREE, row(project, guaranteed=2))
    member = as_user(alice)
    for name in ("tree", "create", "history", "priorities", "two-groups"):
        assert member.get(reverse(f"queues:{name}")).status_code == 403
    claim(eight, project, held=True)
    claim(eight, hunter, held=True)
    page = member.get(f"/projects/{project.slug}/").content.decode()
    assert "2 guaranteed" in page
    assert "1 in use" in page
    assert "Hunter" not in page


def test_the_live_part_brings_numbers_and_no_cells(eight, hunter, console):
    claim(eight, hunter, held=True)
    part = console.get(TREE, headers={"hx-request": "true"}).content.decode()
    assert f'id="now-{hunter.uid}" hx-swap-oob="true"' in part
    assert "1 borrowed" in part
    assert "<input" not in part
