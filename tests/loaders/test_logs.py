"""What the runs of a load wrote: who may read it, while it runs and afterwards."""

import asyncio
import gc
import html
import json

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from clusters import streams
from loaders.logs import KEPT
from loaders.models import Load, LoadRun, RunLog
from loaders.services import load_start

PAGES = "/projects/vision/loads/"
BASE = "/api/v1/projects/vision/loads"


@pytest.fixture
def told(api):
    """Return what the API tells of a log."""

    def ask(user, row, **query):
        words = "&".join(f"{name}={value}" for name, value in query.items())
        answer = api(user, "GET", f"{BASE}/{row.uid}/logs?{words}")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return ask


@pytest.fixture
def again(settle, principal):
    def run(row, user):
        load_start(principal=principal(user), row=row)
        return settle(row)

    return run


def test_what_a_run_wrote_is_there_while_it_runs_and_afterwards(
    load, alice, settle, end, fake, told
):
    row = settle(load(alice))
    fake.write_log(str(row.uid), "listing\n")
    live = told(alice, row)
    assert live["text"].endswith("listing\n")
    assert (live["run"], live["over"]) == (1, False)
    fake.write_log(str(row.uid), "killed\n")
    end(row, 4)
    rest = told(alice, row, offset=live["offset"])
    assert (rest["text"], rest["over"]) == ("killed\n", True)
    assert told(alice, row, offset=rest["offset"])["text"] == ""


@pytest.fixture
def twice(load, alice, settle, end, fake, again):
    """A load that ended once and runs again."""
    row = settle(load(alice))
    fake.write_log(str(row.uid), "of the first\n")
    row = again(end(row, 4), alice)
    fake.write_log(str(row.uid), "of the second\n")
    return row


def test_each_run_keeps_its_own(twice, alice, told):
    assert "of the first" in told(alice, twice, run=1)["text"]
    assert "of the first" not in told(alice, twice)["text"]


def test_lists_lead_to_what_each_run_wrote(twice, alice, as_user):
    row = twice
    page = as_user(alice).get(f"{PAGES}{row.uid}/history/").content.decode()
    assert f"{PAGES}{row.uid}/logs/?run=1" in page
    assert f"{PAGES}{row.uid}/logs/?run=2" in page
    page = as_user(alice).get(f"{PAGES}{row.uid}/logs/?run=1").content.decode()
    assert "of the first" in page
    saved = as_user(alice).get(f"{PAGES}{row.uid}/logs/download/?run=1")
    assert b"of the first" in saved.content
    assert saved["Content-Disposition"].startswith("attachment")


def test_an_open_page_of_a_run_tells_of_a_newer_one(load, alice, settle, end, again, fake, as_user):
    row = end(settle(load(alice)), 4)
    browser, path = as_user(alice), f"{PAGES}{row.uid}/logs/"
    link = f'<a href="{path}">Show the newest run</a>'
    page = browser.get(path).content.decode()
    assert f'data-live="load:{row.uid}" hx-get="{path}?run=1"' in page
    assert link not in page
    fake.fail("read_log", "unreachable", times=-1)  # what asks is not to read the log again

    def asked():
        answer = browser.get(f"{path}?run=1", headers={"HX-Request": "true"})
        assert (answer.status_code, b"<pre" in answer.content) == (200, False)
        return answer.content.decode()

    assert link not in asked()
    again(row, alice)
    assert link in asked()
    assert link in browser.get(f"{path}?run=1").content.decode()
    assert link not in browser.get(path).content.decode()


def test_a_run_that_waits_does_not_show_what_the_one_before_wrote(
    load, alice, settle, end, fake, told, principal
):
    row = settle(load(alice))
    fake.write_log(str(row.uid), "of the first\n")
    end(row, 4)
    load_start(principal=principal(alice), row=row)  # and the engine has not looked yet
    assert (told(alice, row)["run"], told(alice, row)["text"]) == (2, "")


def test_only_the_end_is_kept_and_offsets_stay(load, alice, settle, end, fake, told):
    row = settle(load(alice))
    fake.write_log(str(row.uid), "x" * 3 * KEPT + "the end\n")
    before = told(alice, row, limit=4 * KEPT)["offset"]
    end(row, 4)
    assert len(bytes(RunLog.objects.get().data)) == KEPT
    whole = told(alice, row, limit=4 * KEPT)
    assert (len(whole["text"]), whole["text"][-8:]) == (KEPT, "the end\n")
    assert whole["offset"] == before


def test_it_goes_with_its_run(load, alice, settle, end, again, monkeypatch):
    monkeypatch.setattr("loaders.listeners.RUNS_KEPT", 1)
    row = end(settle(load(alice)), 4)
    end(again(row, alice), 4)
    assert [kept.run.launch for kept in RunLog.objects.all()] == [2]
    assert LoadRun.objects.count() == 1


def test_a_log_that_can_t_be_read_holds_up_no_end(load, alice, settle, end, fake, as_user):
    row = settle(load(alice))
    fake.fail("read_log", "unreachable", times=-1)
    end(row, 4)
    assert LoadRun.objects.get().result == "failed"
    fake.heal()
    Load.objects.update(external_ref={})  # nor has the machine it any more
    page = html.unescape(as_user(alice).get(f"{PAGES}{row.uid}/logs/").content.decode())
    assert "It wrote nothing, or what it wrote is not kept any more." in page


def test_what_was_written_does_nothing_in_the_page(load, alice, settle, fake, as_user):
    row = settle(load(alice))
    fake.write_log(str(row.uid), "<script>alert(1)</script>\x1b[2J\x00\n")
    page = as_user(alice).get(f"{PAGES}{row.uid}/logs/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize("part", ["logs/", "logs/download/"])
def test_members_read_it_and_strangers_do_not_learn_that_it_is_there(
    part, twice, alice, vera, charlie, as_user, api
):
    row = twice
    for user, status in ((alice, 200), (vera, 200), (charlie, 404)):
        assert as_user(user).get(f"{PAGES}{row.uid}/{part}").status_code == status
        assert api(user, "GET", f"{BASE}/{row.uid}/logs").status_code == status


def test_of_a_load_into_a_home_its_owner_alone(load, alice, bob, project, settle, as_user, api):
    from volumes.services.create import home_ensure

    home_ensure(principal=None, project=project, owner=bob)
    row = settle(load(bob, volume="home"))
    for user, status in ((bob, 200), (alice, 403)):
        for part in ("logs/", "logs/download/"):
            assert as_user(user).get(f"{PAGES}{row.uid}/{part}").status_code == status
        assert api(user, "GET", f"{BASE}/{row.uid}/logs").status_code == status
        page = as_user(user).get(f"{PAGES}{row.uid}/history/").content.decode()
        assert (f"{PAGES}{row.uid}/logs/" in page) == (status == 200)
        assert f"{PAGES}{row.uid}/events/" in page


@pytest.mark.parametrize(("run", "status"), [("2", 404), ("99999999999", 400), ("x", 400)])
def test_a_run_that_is_not_there(run, status, load, alice, settle, as_user, api):
    row = settle(load(alice))
    assert api(alice, "GET", f"{BASE}/{row.uid}/logs?run={run}").status_code == status
    assert as_user(alice).get(f"{PAGES}{row.uid}/logs/?run={run}").status_code == 404


def test_a_load_that_never_ran_has_written_nothing(alice, api, shared, as_user):
    made = api(alice, "POST", BASE, {"url": "s3://bucket/a", "start": "no"}).json()
    body = api(alice, "GET", f"{BASE}/{made['id']}/logs").json()
    assert body == {"text": "", "offset": 0, "run": None, "over": True}
    assert "No run yet" in as_user(alice).get(f"{PAGES}{made['id']}/logs/").content.decode()


def test_what_was_done_to_a_load_stands_on_a_page_of_its_own(load, alice, settle, end, as_user):
    row = end(settle(load(alice)), 4)
    page = as_user(alice).get(f"{PAGES}{row.uid}/events/").content.decode()
    assert "load.ended-failed" in page
    assert 'aria-current="page"' in page


# --- followed -------------------------------------------------------------------------------------


async def _followed(user, path):
    client = AsyncClient()
    await client.aforce_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    return await client.get(path, headers={"accept": "text/event-stream"})


async def _all_of(response):
    """Return the events of a stream that ends by itself."""
    found = []
    async for block in response:
        lines = dict(line.split(": ", 1) for line in block.decode().split("\n") if ": " in line)
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    del response
    gc.collect()
    await asyncio.sleep(0.01)
    return found


@pytest.mark.django_db(transaction=True)
async def test_it_is_followed_to_the_last_words_of_the_run(
    load, alice, settle, end, fake, monkeypatch
):
    monkeypatch.setattr(streams, "POLL_S", 0.01)
    row = await sync_to_async(lambda: settle(load(alice)))()
    response = await _followed(alice, f"{BASE}/{row.uid}/logs")
    assert response["Content-Type"] == "text/event-stream"

    def last() -> None:
        fake.write_log(str(row.uid), "its last words\n")
        end(row, 4)

    ending = asyncio.create_task(sync_to_async(last)())
    events = await _all_of(response)
    await ending
    assert [name for name, _ in events][-1] == "end"
    assert "".join(data["text"] for name, data in events if name == "log").endswith(
        "its last words\n"
    )
    assert not streams.places


@pytest.mark.django_db(transaction=True)
async def test_following_ends_with_access(load, alice, bob, project, settle, monkeypatch):
    from projects.models import Membership

    monkeypatch.setattr(streams, "POLL_S", 0.01)
    monkeypatch.setattr(streams, "RECHECK_S", -1.0)
    row = await sync_to_async(lambda: settle(load(alice)))()
    response = await _followed(bob, f"{BASE}/{row.uid}/logs")
    await sync_to_async(Membership.objects.filter(project=project, user=bob).delete)()
    assert [name for name, _ in await _all_of(response)] == []
