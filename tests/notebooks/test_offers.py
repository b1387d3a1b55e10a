"""What pages offer is what their reader may do."""

from common.clock import now
from projects.models import Membership
from tests.notebooks.addresses import url


def offers(page):
    words = ("Resume", "Extend by one hour", 'name="username"', 'name="memory"')
    return [word in page for word in words]


def whole(text, user, row):
    return text(user) + text(user, url(row)) + text(user, url(row, "settings/"))


def test_an_owner_whose_role_was_lowered_is_offered_only_what_is_still_possible(
    text, launch, alice, settle, project, as_user
):
    runs, over = settle(launch(alice, "large")), settle(launch(alice, "large"))
    as_user(alice).post(url(over, "stop/"))
    settle(over)
    assert offers(whole(text, alice, over)) == [True, False, True, True]
    assert offers(whole(text, alice, runs)) == [True, True, True, True]  # the other's card
    Membership.objects.filter(project=project, user=alice).update(role="viewer")
    assert offers(whole(text, alice, over)) == [False] * 4
    assert offers(whole(text, alice, runs)) == [False] * 4
    settings = text(alice, url(runs, "settings/"))
    assert "You may look at this project but not start anything in it." in settings
    assert 'id="delete-workspace' in settings  # to give back what is held stays possible
    assert f'action="{url(runs, "stop/")}"' in text(alice, url(runs))
    for tail in ("start/", "extend/", "settings/", "share/"):
        assert as_user(alice).post(url(runs, tail)).status_code == 403


def test_in_an_archived_project_nothing_is_resumed_or_changed(
    text, launch, alice, settle, project, as_user
):
    row = settle(launch(alice))
    as_user(alice).post(url(row, "share/"), {"username": "bob"})
    as_user(alice).post(url(row, "stop/"))
    settle(row)
    project.archived_at = now()
    project.save()
    page = text(alice) + text(alice, url(row))
    assert "Resume" not in page
    assert "Take back" in page
    settings = text(alice, url(row, "settings/"))
    assert 'name="memory"' not in settings
    assert "The project is archived: nothing new starts in it." in settings
