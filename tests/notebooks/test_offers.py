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
    assert 'id="delete-work' in settings  # to give back what is held stays possible
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


def test_cards_form_plan_and_refusal_tell_of_the_same_limit(
    as_user, presets, project, alice, launch, settle
):
    from quotas.models import Limit

    settle(launch(alice))
    Limit.objects.create(project=project, resource="cpu_milli", amount=2500)
    said = "The project&#x27;s limit on CPU is 2.5 CPU: 2 CPU taken, 2 CPU asked for."
    client = as_user(alice)
    client.get("/projects/vision/")  # the one that the home page shows
    home = client.get("/").content.decode()
    card = home.split('id="preset-jupyterlab"')[1].split("</article>")[0]
    assert "Starts now" not in card
    assert said in card
    assert "<form" not in card
    assert "<form" not in home.split('id="preset-large"')[1].split("</article>")[0]
    url = "/projects/vision/workspaces/launch/"
    page = client.get(f"{url}?preset=jupyterlab").content.decode()
    assert page.count(said) == 1
    assert "It costs nothing" not in page
    # the card is older than what took the rest of the limit
    pressed = client.post(url, {"preset": "jupyterlab", "nonce": "n"})
    assert pressed.status_code in {403, 409}
    page = pressed.content.decode()
    assert page.count(said) == 1
    assert 'name="cpu" value="2' in page
    assert "It costs nothing" not in page
    # the form itself
    typed = client.post(url, {"preset": "jupyterlab", "nonce": "n", "cpu": "2", "memory": "4"})
    assert typed.content.decode().count(said) == 1
