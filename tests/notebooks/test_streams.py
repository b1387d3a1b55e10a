"""Following a log and a state by server-sent events."""

import asyncio
import gc
import json

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from clusters import streams

BASE = "/api/v1/projects/vision/workspaces"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def running(launch, alice, settle):
    return settle(launch(alice))


async def _stream(user, path, **headers):
    client = AsyncClient()
    await client.aforce_login(user, "allauth.account.auth_backends.AuthenticationBackend")
    return await client.get(path, headers={"accept": "text/event-stream", **headers})


def _event(block):
    lines = dict(line.split(": ", 1) for line in block.strip().split("\n") if ": " in line)
    return lines.get("event", ""), json.loads(lines.get("data", "{}"))


async def _take(response, wanted):
    """Read events until one is called ``wanted``; the stream is then closed."""
    found = []
    async for block in response:
        name, data = _event(block.decode())
        found.append((name, data))
        if name == wanted:
            break
    # what happens when the client has gone
    await response.events.aclose()
    del response
    gc.collect()
    return found


async def _none_is_open():
    """Return when what was left is cleaned up, which goes on after its reader has gone."""
    for _ in range(6000):
        if not streams.places:
            return
        await asyncio.sleep(0.01)


async def test_a_log_is_followed_from_an_offset_and_ends_with_the_workspace(running, alice):
    from clusters.registry import driver_for

    driver = await sync_to_async(driver_for)("local")
    driver.write_log(str(running.uid), "hello\n")
    response = await _stream(alice, f"{BASE}/{running.short_id}/logs?offset=0")
    assert response["Content-Type"] == "text/event-stream"
    _name, data = (await _take(response, "log"))[-1]
    del response
    assert data["text"].endswith("hello\n")
    await sync_to_async(type(running).objects.filter(pk=running.pk).update)(phase="stopped")
    again = await _stream(alice, f"{BASE}/{running.short_id}/logs?offset={data['offset']}")
    assert [n for n, _ in await _take(again, "end")][-1] == "end"
    del again
    gc.collect()
    await _none_is_open()
    assert not streams.places


async def test_the_browser_goes_on_where_it_was_after_a_break(running, alice):
    from clusters.registry import driver_for

    driver = await sync_to_async(driver_for)("local")
    driver.write_log(str(running.uid), "x" * 10)
    await sync_to_async(type(running).objects.filter(pk=running.pk).update)(phase="stopped")
    path = f"{BASE}/{running.short_id}/logs"
    whole = (await _take(await _stream(alice, path), "end"))[-1][1]["offset"]
    rest = await _take(await _stream(alice, path, **{"last-event-id": str(whole - 3)}), "end")
    assert [d["text"] for n, d in rest if n == "log"] == ["xxx"]


async def test_nobody_else_may_follow_a_log(running, bob, charlie):
    path = f"{BASE}/{running.short_id}/logs"
    assert (await _stream(bob, path)).status_code == 403
    assert (await _stream(charlie, path)).status_code == 404


async def test_the_state_is_told_at_once_and_ends_when_access_ends(running, alice, project):
    from projects.models import Membership

    response = await _stream(alice, f"{BASE}/{running.short_id}/events")
    name, data = (await _take(response, "state"))[-1]
    assert (name, data["phase"], data["id"]) == ("state", "running", running.short_id)
    response = await _stream(alice, f"{BASE}/{running.short_id}/events")
    await sync_to_async(Membership.objects.filter(project=project, user=alice).delete)()
    assert [n for n, _ in await _take(response, "never")] in ([""], [])


async def test_a_person_holds_a_bounded_number_of_streams(running, alice):
    held = [streams.places.take(str(alice.uid)) for _ in range(streams.places.most)]
    response = await _stream(alice, f"{BASE}/{running.short_id}/logs")
    assert response.status_code == 429
    assert json.loads(response.content)["code"] == "too-many-streams"
    assert response["Retry-After"]
    del held
    assert (await _stream(alice, f"{BASE}/{running.short_id}/logs")).status_code == 200
