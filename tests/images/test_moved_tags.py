"""C9: what a launch pinned stays until its owner takes what the tag means now."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest

from images import services
from notebooks.models import Workspace
from tests.images.conftest import Registry
from tests.images.test_launches import BASE, launch  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db
GONE = "The registry no longer has the image that this tag meant when it was pinned."
ADVICE = "Press “Take the newest image of this tag”, or run “berth workspace repin” with its name."


@pytest.fixture
def row(launch: Any, registry: Registry, settle: Any) -> Workspace:  # noqa: F811
    """A container that runs, of a tag that is pushed again meanwhile."""
    registry.image("dev", User="1000", Cmd=["old"])
    made: Workspace = settle(Workspace.objects.get(short_id=launch("dev").json()["id"]))
    assert made.phase == "running"
    return made


@pytest.fixture
def patch(as_user: Any, bob: Any) -> Any:
    def send(row: Workspace, query: str = "", **body: Any) -> Any:
        url = f"{BASE}/{row.short_id}{query}"
        return as_user(bob).patch(url, json.dumps(body), "application/json")

    return send


def page_of(row: Workspace, client: Any, tail: str = "") -> str:
    return unescape(
        client.get(f"/projects/vision/workspaces/{row.short_id}/{tail}").content.decode()
    )


def fresh(row: Workspace) -> Workspace:
    return Workspace.objects.get(pk=row.pk)


def test_c9_the_newest_image_of_a_tag_is_taken_where_one_asks_for_it(
    row: Workspace, registry: Registry, patch: Any
) -> None:
    pinned, since = row.image_digest, row.image_pinned_at
    assert since is not None
    newest = registry.image("dev", User="1000", Cmd=["new"])
    assert patch(row, image=row.image).json()["spec"]["image_digest"] == pinned  # said again
    answer = patch(row, newest_image=True)  # at once: not what was looked up a minute ago
    assert answer.status_code == 202, answer.content
    assert answer.json()["spec"]["image_digest"] == newest
    after = fresh(row)
    assert after.image_pinned_at is not None
    assert after.image_pinned_at > since
    assert after.launch == row.launch + 1


def test_c9_a_tag_that_still_means_the_same_restarts_nothing(row: Workspace, patch: Any) -> None:
    answer = patch(row, newest_image=True)
    assert answer.json()["spec"]["image_digest"] == row.image_digest
    assert (fresh(row).launch, fresh(row).image_pinned_at) == (row.launch, row.image_pinned_at)


def test_c9_what_is_pinned_stays_where_the_registry_does_not_say(
    row: Workspace, registry: Registry, patch: Any, monkeypatch: Any
) -> None:
    registry.things.pop("dev")
    refused = patch(row, newest_image=True)
    assert "no such image or tag" in refused.json()["fields"]["image"][0]
    from images.findings import Finding

    silent = Finding("unknown", row.image, "unreachable", "It sleeps.")
    monkeypatch.setattr(services, "_asked", lambda *_a: silent)
    unsaid = patch(row, newest_image=True)
    assert unsaid.status_code == 400
    assert "nothing was changed: It sleeps." in unsaid.json()["fields"]["newest_image"][0]
    assert (fresh(row).image_digest, fresh(row).launch) == (row.image_digest, row.launch)


def test_a_workspace_of_the_clusters_own_image_has_no_tag_to_take(
    row: Workspace, patch: Any
) -> None:
    Workspace.objects.filter(pk=row.pk).update(image="", image_digest="", variant="notebook")
    assert "newest_image" in patch(row, newest_image=True).json()["fields"]


def test_a_plan_tells_that_the_pin_may_change(row: Workspace, patch: Any) -> None:
    plan = patch(row, "?plan=1", newest_image=True).json()
    assert (plan["action"], plan["restarts"]) == ("update", True)
    assert plan["changes"] == [{"field": "image_digest", "from": row.image_digest, "to": None}]
    assert patch(row, "?plan=1").json()["action"] == "none"


def test_the_page_says_which_digest_runs_and_since_when(
    row: Workspace, as_user: Any, bob: Any
) -> None:
    client = as_user(bob)
    page = page_of(row, client)
    assert f'title="{row.image_digest}"' in page
    assert "Every start takes exactly this" in page
    assert "#id_newest_image" in page
    facts = page.partition("Pinned to")[2].partition("</dd>")[0]
    assert "<time" in facts
    Workspace.objects.filter(pk=row.pk).update(image_digest="", image_pinned_at=None)
    assert "every start takes what the tag means then" in page_of(row, client)


def test_c9_the_settings_take_the_newest_image_by_a_choice(
    row: Workspace, registry: Registry, as_user: Any, bob: Any
) -> None:
    client, path = as_user(bob), f"/projects/vision/workspaces/{row.short_id}/settings/"
    assert 'name="newest_image"' in page_of(row, client, "settings/")
    form = {"name": row.name, "image": row.image, "command": "app"}
    newest = registry.image("dev", User="1000", Cmd=["new"])
    assert client.post(path, form).status_code == 302
    assert fresh(row).image_digest == row.image_digest
    assert client.post(path, {**form, "newest_image": "on"}).status_code == 302
    assert (fresh(row).image_digest, fresh(row).launch) == (newest, row.launch + 1)
    said = client.post(path, {**form, "newest_image": "on"}, follow=True).content.decode()
    assert "The tag still means the image that is pinned." in said
    assert fresh(row).launch == row.launch + 1


def test_an_image_named_by_its_digest_has_no_such_choice(
    row: Workspace, as_user: Any, bob: Any
) -> None:
    name = f"{row.image.rpartition(':')[0]}@{row.image_digest}"
    Workspace.objects.filter(pk=row.pk).update(image=name)
    assert 'name="newest_image"' not in page_of(row, as_user(bob), "settings/")


def test_c9_a_digest_that_the_registry_removed_is_called_so_with_what_to_press(
    row: Workspace, registry: Registry, as_user: Any, bob: Any
) -> None:
    words = f"{row.image.rpartition(':')[0]}@{row.image_digest}: not found"
    Workspace.objects.filter(pk=row.pk).update(
        phase="failed", reason="image-not-found", message=words, observed_generation=row.generation
    )
    client = as_user(bob)
    told = client.get(f"{BASE}/{row.short_id}").json()["status"]
    assert (told["message"], told["advice"]) == (f"{GONE} {words}", ADVICE)
    page = page_of(row, client)
    assert GONE in page
    assert "Check the name and the tag" not in page
    newest = registry.image("dev", User="1000", Cmd=["new"])
    repin = f"/projects/vision/workspaces/{row.short_id}/repin/"
    assert f'action="{repin}"' in page
    said = client.post(repin, follow=True).content.decode()
    assert "takes the newest image of its tag" in said
    after = fresh(row)
    assert (after.image_digest, after.launch, after.desired) == (newest, row.launch + 1, "running")


def test_a_name_that_was_never_pinned_is_still_to_be_checked(
    row: Workspace, as_user: Any, bob: Any
) -> None:
    Workspace.objects.filter(pk=row.pk).update(
        phase="failed", reason="image-not-found", message="x", image_digest=""
    )
    page = page_of(row, as_user(bob))
    assert "Check the name and the tag" in page
    assert "/repin/" not in page
