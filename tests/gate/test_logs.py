"""Following a log through the gate."""

import json
from typing import Any

from tests.gate.conftest import Running
from tests.gate.fake_kube import FakeKube


async def test_the_owner_follows_the_log_until_the_container_ends(
    gate: Running, workspace: Any, alice: Any, cookie: Any, kube: FakeKube
) -> None:
    kube.log = "héllo\n".encode()
    async with gate.client(await cookie(alice)) as client:
        got = await client.get(f"/gate/logs/{workspace.short_id}")
    assert got.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in got.text.split("\n\n") if block.startswith("event")]
    assert [e[0] for e in events] == ["event: reset", "event: end"]
    assert json.loads(events[0][1][6:])["text"] == "héllo\n"


async def test_logs_are_the_owners(
    gate: Running, workspace: Any, bob: Any, charlie: Any, operator: Any, cookie: Any
) -> None:
    for user, status in ((bob, 403), (operator, 403), (charlie, 404)):
        async with gate.client(await cookie(user)) as client:
            got = await client.get(f"/gate/logs/{workspace.short_id}")
            assert got.status_code == status
