"""The pages, without a script: empty, full of words that somebody else chose, and every tab."""

from clusters.models import Cluster
from common.clock import now
from events.models import Event
from volumes.models import Volume
from volumes.services import create

BASE = "/projects/vision/volumes/"
NAUGHTY = "<script>alert(1)</script>"


def test_an_empty_list_offers_the_first_volume(as_user, bob, vera, project):
    assert "No volume yet" in as_user(bob).get(BASE).content.decode()
    assert "New volume" in as_user(bob).get(BASE).content.decode()
    assert "New volume" not in as_user(vera).get(BASE).content.decode()


def test_the_form_asks_for_name_and_size_only_and_loses_nothing(as_user, bob, project):
    client = as_user(bob)
    page = client.get(f"{BASE}new/").content.decode()
    assert 'name="place"' not in page  # one class: nothing to choose
    wrong = client.post(f"{BASE}new/", {"name": "Not Good", "size": "2", "description": "kept"})
    assert wrong.status_code == 422
    text = wrong.content.decode()
    assert "Small letters" in text
    assert "kept" in text
    assert client.post(f"{BASE}new/", {"name": "x", "size": "0.5"}).status_code == 422
    assert client.post(f"{BASE}new/", {"name": "x", "size": "NaN"}).status_code == 422
    assert client.post(f"{BASE}new/", {"name": "x", "size": "1e400"}).status_code == 422
    assert client.post(f"{BASE}new/", {"name": "good", "size": "2"}).status_code == 302


def test_every_tab_opens_for_those_who_may(as_user, make, bob, vera, mona, charlie):
    row = make(bob, description=NAUGHTY)
    tails = ("", "snapshots/", "events/", "usage/", "yaml/", "settings/")
    for user in (bob, mona, vera):
        for tail in tails:
            answer = as_user(user).get(f"{BASE}{row.uid}/{tail}")
            assert answer.status_code == 200, (user, tail)
            assert NAUGHTY not in answer.content.decode()
    for tail in tails:
        assert as_user(charlie).get(f"{BASE}{row.uid}/{tail}").status_code == 404
    assert "/settings/" not in as_user(vera).get(f"{BASE}{row.uid}/").content.decode().replace(
        'href="/settings/', ""
    )


def test_who_has_it_mounted_is_a_link(as_user, make, bob, held):
    row = make(bob)
    with held(row):
        page = as_user(bob).get(f"{BASE}{row.uid}/").content.decode()
    assert '<a href="/somewhere">lab</a>' in page
    assert "Nothing uses it now" in as_user(bob).get(f"{BASE}{row.uid}/").content.decode()


def test_a_volume_says_the_name_of_its_cluster(as_user, make, bob):
    row = make(bob)
    Cluster.objects.filter(key=row.cluster_key).update(name="Rack one")
    assert "<dd>Rack one</dd>" in as_user(bob).get(f"{BASE}{row.uid}/").content.decode()
    Cluster.objects.filter(key=row.cluster_key).delete()
    assert "<dd>local</dd>" in as_user(bob).get(f"{BASE}{row.uid}/").content.decode()


def test_settings_change_what_was_touched_and_only_that(as_user, make, bob):
    row = make(bob, size_mib=2049)  # no whole number of hundredths of a GiB
    client = as_user(bob)
    page = client.get(f"{BASE}{row.uid}/settings/").content.decode()
    assert 'value="2"' in page
    form = {"name": "set", "size": "2", "description": "new", "write_policy": "managers"}
    assert client.post(f"{BASE}{row.uid}/settings/", form).status_code == 302
    row.refresh_from_db()
    assert (row.size_limit_mib, row.description, row.write_policy) == (2049, "new", "managers")
    big = client.post(f"{BASE}{row.uid}/settings/", {**form, "size": "3"})
    assert big.status_code == 302
    row.refresh_from_db()
    assert row.size_limit_mib == 3072


def test_a_live_part_is_the_state_alone(as_user, make, bob):
    row = make(bob)
    part = as_user(bob).get(f"{BASE}{row.uid}/", headers={"HX-Request": "true"})
    text = part.content.decode()
    assert text.lstrip().startswith('<div id="volume-state"')
    assert f'data-live="volume:{row.uid}"' in text


def test_only_members_hear_of_changes(make, bob, charlie):
    from portal.streams import authorise

    row = make(bob)
    topic = f"volume:{row.uid}"
    assert authorise(bob, "", [topic]) == [topic]
    assert authorise(charlie, "", [topic]) == []


def test_a_home_says_whose_it_is_and_offers_no_deletion(
    as_user, bob, mona, project, principal, settle
):
    home = create.home_ensure(principal=principal(bob), project=project, owner=bob)
    settle()
    page = as_user(mona).get(f"{BASE}{home.uid}/settings/").content.decode()
    assert "delete-volume" not in page
    assert 'name="name"' not in page
    assert as_user(mona).post(f"{BASE}{home.uid}/settings/", {"size": "5"}).status_code == 302
    home.refresh_from_db()
    assert home.size_limit_mib == 5120
    assert as_user(bob).get(f"{BASE}{home.uid}/snapshots/").status_code == 200


def test_its_page_starts_work_with_it_and_loads_into_it(as_user, make, bob, alice, vera):
    row = make(bob, write_policy="managers")
    launch = f'href="/projects/vision/workspaces/launch/?volume={row.uid}"'
    load = f'href="/projects/vision/loads/new/?volume={row.uid}"'
    page = as_user(bob).get(f"{BASE}{row.uid}/").content.decode()
    assert launch in page
    assert load in page
    reader = as_user(vera).get(f"{BASE}{row.uid}/").content.decode()
    assert launch not in reader
    assert load not in reader


def test_a_full_volume_or_one_that_goes_offers_nothing_that_cannot_start(as_user, make, bob):
    row = make(bob)
    full, gone = {"used_bytes": row.size_bytes}, {"desired": "absent"}
    Volume.objects.filter(pk=row.pk).update(**full)
    page = as_user(bob).get(f"{BASE}{row.uid}/").content.decode()
    assert f"workspaces/launch/?volume={row.uid}" in page  # to delete files
    assert f"?volume={row.uid}" not in page.replace(f"workspaces/launch/?volume={row.uid}", "")
    Volume.objects.filter(pk=row.pk).update(**gone)
    assert f"?volume={row.uid}" not in as_user(bob).get(f"{BASE}{row.uid}/").content.decode()


def test_the_events_page_says_where_it_ends_and_leads_to_the_others(as_user, make, bob, project):
    row = make(bob)
    page = as_user(bob).get(f"{BASE}{row.uid}/events/").content.decode()
    assert "Only the newest" not in page
    told = {"target_kind": "volume", "target_uid": str(row.uid), "project_uid": project.uid}
    Event.objects.bulk_create(Event(verb="volume.changed", at=now(), **told) for _ in range(100))
    page = as_user(bob).get(f"{BASE}{row.uid}/events/").content.decode()
    assert "Only the newest 100 events are shown." in page
    assert page.count("changed the volume") == 100
    assert 'href="/projects/vision/activity?verb=volume"' in page
