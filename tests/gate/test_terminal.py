"""A terminal through the gate: who gets one, what it shows, when it ends."""

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gate.conftest import PATIENCE_S, Running, screen, told, until
from tests.gate.fake_kube import FakeKube


async def test_the_owner_gets_a_shell_with_the_environment_of_the_main_process(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    path = f"/gate/terminal/{workspace.short_id}?cols=101&rows=33"
    async with gate.socket(path, await cookie(alice)) as ws:
        assert (await told(ws))["type"] == "ready"
        await ws.send(b"stty size; echo main=$BERTH_MAIN; pwd\n")
        seen = await screen(ws, b"main=yes")
        assert b"33 101" in seen
        await ws.send(json.dumps({"type": "resize", "cols": 90, "rows": 20}))
        await ws.send(b"stty size\n")
        await screen(ws, b"20 90")
        await ws.send(b"exit 7\n")
        ended = await told(ws)
        assert (ended["type"], ended["code"]) == ("ended", 7)


async def test_a_page_of_another_origin_gets_none(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    """B5."""
    mine = await cookie(alice)
    for origin in ("http://evil.example", "http://abc.nb.localhost:8001"):
        with pytest.raises(InvalidStatus) as refused:
            async with gate.socket(f"/gate/terminal/{workspace.short_id}", mine, origin):
                pass
        assert refused.value.response.status_code == 403


async def test_a_visitor_without_sign_in_gets_none(gate: Running, workspace: Any) -> None:
    for key in ("", "nonsense"):
        with pytest.raises(InvalidStatus) as refused:
            async with gate.socket(f"/gate/terminal/{workspace.short_id}", key):
                pass
        assert refused.value.response.status_code == 401


async def test_strangers_members_and_operators_are_kept_out(
    gate: Running, workspace: Any, bob: Any, charlie: Any, operator: Any, cookie: Any
) -> None:
    for user, code in ((charlie, "not-found"), (bob, "forbidden"), (operator, "forbidden")):
        path = f"/gate/terminal/{workspace.short_id}"
        async with gate.socket(path, await cookie(user)) as ws:
            said = await told(ws)
            assert (said["type"], said["code"]) == ("error", code)
            with pytest.raises(ConnectionClosed):
                await ws.recv()
            assert ws.close_code in {4403, 4404}


async def test_a_token_may_run_commands_unless_it_only_reads(
    gate: Running, workspace: Any, alice: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create

    path = f"/gate/exec/{workspace.short_id}?command=sh&command=-c&command=cat;exit%205"
    _token, secret = await sync_to_async(token_create)(who=principal(alice), name="all")
    async with gate.socket(path, token=secret, origin=None) as ws:
        assert (await told(ws))["type"] == "ready"
        await ws.send(b"\x00hello")
        await ws.send(b"\xff\x00")
        assert await ws.recv() == b"\x01hello"
        assert (await told(ws))["code"] == 5
    _token, secret = await sync_to_async(token_create)(
        who=principal(alice), name="reads", read_only=True
    )
    async with gate.socket(path, token=secret, origin=None) as ws:
        assert (await told(ws))["code"] == "forbidden"


async def test_opening_is_an_event(gate: Running, workspace: Any, alice: Any, cookie: Any) -> None:
    from events.models import Event

    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        await told(ws)
    found = await sync_to_async(Event.objects.filter(verb="workspace.terminal-opened").get)()
    assert found.actor_name == "alice"
    assert found.target_uid == str(workspace.uid)


async def test_a_stopped_workspace_says_so(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    workspace.phase = "stopped"
    await sync_to_async(workspace.save)()
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        assert (await told(ws))["code"] == "not-running"


async def test_what_it_is_instead_is_said_in_the_words_of_its_badge(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    workspace.phase = "stopped"
    await sync_to_async(workspace.save)()
    said = {}
    for language in ("en", "ja"):
        alice.language = language
        await sync_to_async(alice.save)()
        async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
            said[language] = (await told(ws))["message"]
    assert "(it is stopped)" in said["en"]
    assert ("(停止)" in said["ja"], "stopped" in said["ja"]) == (True, False)


async def test_a3_a_revoked_visitor_is_cut(
    gate: Running, workspace: Any, alice: Any, bob: Any, cookie: Any
) -> None:
    from work.models import Share

    share = await sync_to_async(Share.objects.create)(workload=workspace, user=bob)
    path = f"/gate/terminal/{workspace.short_id}"
    async with gate.socket(path, await cookie(bob)) as ws:
        await told(ws)
        await asyncio.sleep(1)
        await ws.send(b"echo still-$((40+2))\n")
        await screen(ws, b"still-42")
        await sync_to_async(share.delete)()
        said = await told(ws)
        assert (said["type"], said["code"]) == ("error", "forbidden")
    await until(lambda: not gate.gate.guard.streams)


async def test_a_session_that_ends_takes_its_terminals(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        await told(ws)
        alice.session_epoch += 1
        await sync_to_async(alice.save)()
        assert (await told(ws))["code"] == "signed-out"


async def test_a_stop_ends_the_terminal_with_a_sentence(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        await told(ws)
        workspace.desired, workspace.generation = "stopped", 2
        await sync_to_async(workspace.save)()
        said = await told(ws)
        assert said["code"] == "stopped"


async def test_a3_a_cluster_that_is_switched_off_lets_go_of_its_streams(
    gate: Running, workspace: Any, alice: Any, cookie: Any, operator: Any, principal: Any
) -> None:
    from clusters.models import Cluster
    from clusters.services.attach import cluster_update

    path = f"/gate/terminal/{workspace.short_id}"
    mine = await cookie(alice)
    async with gate.socket(path, mine) as ws:
        assert (await told(ws))["type"] == "ready"
        row = await sync_to_async(Cluster.objects.get)(key="k1")
        switch = sync_to_async(cluster_update)
        await switch(principal=principal(operator), cluster=row, values={"enabled": False})
        assert (await told(ws))["code"] == "cluster-off"
    async with gate.socket(path, mine) as ws:
        assert (await told(ws))["code"] == "cluster-off"


async def test_one_person_holds_a_bounded_number_of_streams(
    gate: Running, workspace: Any, alice: Any, cookie: Any, settings: Any
) -> None:
    settings.BERTH_GATE_STREAMS_PER_USER = 2
    mine, path = await cookie(alice), f"/gate/terminal/{workspace.short_id}"
    async with gate.socket(path, mine) as one, gate.socket(path, mine) as two:
        await told(one)
        await told(two)
        async with gate.socket(path, mine) as three:
            assert (await told(three))["code"] == "too-many-streams"
    await until(lambda: not gate.gate.guard.streams)
    async with gate.socket(path, mine) as again:
        assert (await told(again))["type"] == "ready"


async def test_closing_the_page_ends_the_command(
    gate: Running, workspace: Any, alice: Any, cookie: Any, kube: FakeKube
) -> None:
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        await told(ws)
        await until(lambda: kube.running)
    await until(lambda: not kube.running and not gate.gate.guard.streams)


async def test_an_image_without_a_shell_is_named(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    path = f"/gate/exec/{workspace.short_id}?command=/no/such/program"
    async with gate.socket(path, await cookie(alice)) as ws:
        await told(ws)
        ended = await told(ws)
        assert ended["code"] is None
        assert "no such file" in ended["message"]


async def test_c3_commands_that_could_never_run_are_refused(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    mine = await cookie(alice)
    for query in ("", "command=a%00b", "command=" + "x" * 5000):
        async with gate.socket(f"/gate/exec/{workspace.short_id}?{query}", mine) as ws:
            assert (await told(ws))["code"] == "invalid"


async def test_a_drain_tells_everybody_to_come_again(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    async with gate.socket(f"/gate/terminal/{workspace.short_id}", await cookie(alice)) as ws:
        await told(ws)
        await gate.gate.guard.drain(PATIENCE_S)
        assert (await told(ws))["code"] == "draining"
    await until(lambda: not gate.gate.guard.streams)


async def test_f2_a_handshake_that_can_not_be_read_is_closed(gate: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    head = "Upgrade: websocket\r\nConnection: Upgrade\r\nHost: localhost\r\n\r\n"
    writer.write(f"GET /gate/exec/x?command={'x' * 20000} HTTP/1.1\r\n{head}".encode())
    async with asyncio.timeout(PATIENCE_S):
        while await reader.read(1000):
            pass
    writer.close()
