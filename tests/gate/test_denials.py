"""Who is refused at the gate is in the audit log, once a try and with what he wanted."""

import asyncio
from typing import Any

from asgiref.sync import sync_to_async

from tests.gate.conftest import PATIENCE_S, Running, told


def _refusals() -> list[tuple[str, str, str, str]]:
    """Return what was asked for, and why not, of each refusal that is on record."""
    from events.models import Event

    rows = Event.objects.filter(outcome="denied").order_by("id")
    return [(r.actor_name, r.verb, r.data["route"], r.data["id"]) for r in rows]


async def _recorded(count: int) -> list[tuple[str, str, str, str]]:
    async with asyncio.timeout(PATIENCE_S):
        while len(rows := await sync_to_async(_refusals)()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return rows


async def test_refused_logs_and_files_are_recorded(
    gate: Running, workspace: Any, volume: Any, bob: Any, vera: Any, charlie: Any, cookie: Any
) -> None:
    wanted = [
        (bob, f"/gate/logs/{workspace.short_id}", "gate/logs", workspace.short_id, 403),
        (charlie, f"/gate/logs/{workspace.short_id}", "gate/logs", workspace.short_id, 404),
        (bob, f"/gate/files/{workspace.short_id}/list", "gate/files", workspace.short_id, 403),
        (vera, f"/gate/volumes/{volume.uid}/list", "gate/volume-files", str(volume.uid), 403),
        (charlie, f"/gate/volumes/{volume.uid}/list", "gate/volume-files", str(volume.uid), 404),
    ]
    for user, url, _route, _id, status in wanted:
        async with gate.client(await cookie(user)) as client:
            assert (await client.get(url)).status_code == status
    verbs = {403: "access.forbidden", 404: "access.not-found"}
    expected = [(u.username, verbs[status], route, id_) for u, _, route, id_, status in wanted]
    assert sorted(await _recorded(len(wanted))) == sorted(expected)


async def test_a_refused_terminal_is_recorded(
    gate: Running, workspace: Any, bob: Any, cookie: Any
) -> None:
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(bob)) as ws:
        assert (await told(ws))["code"] == "forbidden"
    expected = ("bob", "access.forbidden", "gate/terminal", workspace.short_id)
    assert await _recorded(1) == [expected]


async def test_who_may_is_not_recorded_as_refused(
    gate: Running, workspace: Any, alice: Any, bob: Any, cookie: Any
) -> None:
    for user in (alice, bob):  # bob's refusal comes after it: then all before it are written
        async with gate.client(await cookie(user)) as client:
            await client.get(f"/gate/files/{workspace.short_id}/list")
    assert [who for who, *_ in await _recorded(1)] == ["bob"]
