"""Where lists of pages end, and which parts of a page are asked for alone."""

from datetime import timedelta

from common.clock import now
from events.models import Event
from notebooks.models import Workspace
from projects.models import Membership, Project
from tests.notebooks.addresses import BASE, url
from tests.support.workloads import insert
from work.models import Step


def test_home_says_that_there_are_more_workspaces_and_leads_to_them(text, launch, alice, project):
    first = launch(alice)
    more = f"{BASE}?mine=1"
    assert more not in text(alice)
    fields = {"owner": alice, "project": project, "home": first.home, "phase": "stopped"}
    rows = [Workspace(name=f"w{n}", desired="stopped", **fields) for n in range(24)]
    insert(rows)
    page = text(alice)
    assert "Only those used last are shown." in page
    assert more in page
    assert page.count("workspace-card") == 23  # and one that waits


def test_home_names_every_project_in_which_there_are_more(text, launch, alice, project):
    first = launch(alice)
    old = Project.objects.create(slug="old", name="Old")
    Membership.objects.create(project=old, user=alice, role="member")
    fields = {"owner": alice, "home": first.home, "phase": "stopped", "desired": "stopped"}
    long_ago = now() - timedelta(days=9)
    Workspace.objects.create(name="unused", project=old, last_used_at=long_ago, **fields)
    theirs = "/projects/old/workspaces/?mine=1"
    assert theirs not in text(alice)
    rows = [
        Workspace(name=f"w{n}", project=project, last_used_at=now(), **fields) for n in range(24)
    ]
    insert(rows)
    page = text(alice)
    assert (theirs in page, f"{BASE}?mine=1" in page, "unused" in page) == (True, True, False)


def test_the_events_page_says_where_it_ends_and_leads_to_the_others(text, launch, alice):
    row = launch(alice)
    few = text(alice, url(row, "events/"))
    assert "Only the newest" not in few
    assert few.count('<h2 class="section-title">') == 2  # each of two tables says what it is
    at = now() - timedelta(minutes=1)
    Event.objects.bulk_create(
        Event(verb="workspace.edited", target_kind="workspace", target_uid=str(row.uid), at=at)
        for _ in range(100)
    )
    Step.objects.bulk_create(
        Step(workload=row, launch=1, word="restarted", at=at) for _ in range(100)
    )
    page = text(alice, url(row, "events/"))
    assert "Only the newest 100 events are shown." in page
    assert "Only the newest 100 steps are shown." in page
    assert "/projects/vision/activity?verb=workspace" in page


def test_facts_are_a_part_that_can_be_asked_for_alone(text, launch, alice, settle):
    row = settle(launch(alice))
    assert f'hx-get="{url(row, "state/")}?part=facts"' in text(alice, url(row))
    alone = text(alice, url(row, "state/"), part="facts")
    assert "<html" not in alone
    assert "What it is" in alone
    assert "state-title" in text(alice, url(row, "state/"), part="unknown")
