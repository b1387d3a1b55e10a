"""A page goes through the gate with a ticket; the portal's cookie means nothing there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from websockets.exceptions import InvalidStatus

from accounts import crypto
from tests.gate.conftest import PATIENCE_S, Running, told

ROOT = Path(__file__).resolve().parents[2]


def given(client: Any, way: str) -> str:
    answer = client.get(f"/tickets/{way}", headers={"Accept": "application/json"})
    assert answer.headers["Cache-Control"] == "no-store"
    return str(answer.json()["ticket"])


async def test_the_portals_cookie_opens_nothing_at_the_gate(
    gate: Running, workspace: Any, alice: Any, cookie: Any
) -> None:
    jar = {"berth_session": await cookie(alice)}
    own = {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(base_url=gate.url, cookies=jar, timeout=PATIENCE_S) as page:
        for path in (f"logs/{workspace.short_id}", f"files/{workspace.short_id}/list"):
            assert (await page.get(f"/gate/{path}", headers=own)).status_code == 401


async def test_what_the_portal_gives_out_opens_the_terminal(
    gate: Running, workspace: Any, alice: Any, as_user: Any
) -> None:
    client = await sync_to_async(as_user)(alice)
    way = f"terminal/{workspace.short_id}"
    ticket = await sync_to_async(given)(client, way)
    async with gate.socket(f"/gate/{way}?ticket={ticket}") as ws:
        assert (await told(ws))["type"] == "ready"


async def test_it_is_for_one_workspace_one_minute_and_one_session(
    gate: Running, workspace: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    client = await sync_to_async(as_user)(alice)
    way = f"files/{workspace.short_id}"
    ticket = await sync_to_async(given)(client, way)
    other = await sync_to_async(given)(client, "files/another")
    theirs = crypto.Ticket(client.cookies["berth_session"].value, bob.pk, workspace.short_id)
    async with httpx.AsyncClient(base_url=gate.url, timeout=PATIENCE_S) as page:

        async def status(sealed: str) -> int:
            return (await page.get(f"/gate/{way}/list?ticket={sealed}")).status_code

        assert await status(ticket) == 200
        assert await status(other) == 401
        assert await status(crypto.issue_ticket(theirs)) == 401
        assert await status(ticket[:-4] + "AAA=") == 401
        await sync_to_async(client.post)("/accounts/logout/")
        assert await status(ticket) == 401
    with pytest.raises(InvalidStatus):
        async with gate.socket(f"/gate/terminal/{workspace.short_id}?ticket={ticket}"):
            pass


def test_it_is_over_after_a_minute_and_hides_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    one = crypto.Ticket("a-secret-session-key", 7, "abc")
    sealed = crypto.issue_ticket(one)
    assert crypto.read_ticket(sealed) == one
    assert "secret" not in sealed
    later = (datetime.now(UTC) + timedelta(seconds=crypto.TICKET_AGE_S + 2)).timestamp()
    monkeypatch.setattr("time.time", lambda: later)
    assert crypto.read_ticket(sealed) is None


def test_what_is_sealed_at_rest_is_no_ticket() -> None:
    from accounts import crypto

    assert crypto.read_ticket(crypto.seal('["key", 7, "abc"]')) is None
    assert crypto.unseal(crypto.issue_ticket(crypto.Ticket("key", 7, "abc"))) is None


async def test_a_link_of_a_page_leads_through_the_portal_to_the_gate(
    gate: Running, workspace: Any, alice: Any, as_user: Any, kube: Any, settings: Any
) -> None:
    (kube.home / "a b").write_text("x")
    settings.BERTH_GATE_PAGES_URL = gate.url
    client = await sync_to_async(as_user)(alice)
    link = f"/tickets/files/{workspace.short_id}/download?path=a%20b"
    answer = await sync_to_async(client.get)(link, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 302
    async with httpx.AsyncClient(timeout=PATIENCE_S) as browser:
        assert (await browser.get(answer.headers["Location"])).text == "x"
    foreign = await sync_to_async(client.get)(link, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403


def test_it_leads_nowhere_but_to_the_gate(alice: Any, as_user: Any, client: Any) -> None:
    mine = as_user(alice)
    for odd in ("x", "/evil.example/x", "a/../../b", "a/b?c", "a/b/%2e%2e"):
        assert mine.get(f"/tickets/{odd}").status_code in {302, 404}, odd
    there = urlsplit(mine.get("/tickets/logs/abc?offset=5").headers["Location"])
    assert (there.netloc, there.path) == ("gate.nb.localhost:8004", "/gate/logs/abc")
    assert set(parse_qs(there.query)) == {"offset", "ticket"}
    assert "/accounts/login" in client.get("/tickets/logs/abc").headers["Location"]


async def test_a_stream_is_cut_when_the_session_of_its_ticket_ends(
    gate: Running, workspace: Any, alice: Any, as_user: Any
) -> None:
    client = await sync_to_async(as_user)(alice)
    way = f"terminal/{workspace.short_id}"
    ticket = await sync_to_async(given)(client, way)
    async with gate.socket(f"/gate/{way}?ticket={ticket}") as ws:
        await told(ws)
        await sync_to_async(client.post)("/accounts/logout/")
        said = await told(ws)
    assert (said["type"], said["code"]) == ("error", "signed-out")


def test_no_script_sends_its_cookies_there() -> None:
    said = {p.name: p.read_text() for p in (ROOT / "static/js").rglob("*.js")}
    sends = re.compile(r'withCredentials|credentials: "include"')
    assert not [name for name, text in said.items() if sends.search(text)]


@pytest.mark.parametrize(
    ("values", "pages"),
    [
        ({}, "http://gate.nb.localhost:8004"),
        ({"BERTH_PORT": "9000"}, "http://gate.nb.localhost:9004"),
        ({"BERTH_PUBLIC_URL": "https://b.example"}, "https://b.example"),
        (
            {"BERTH_PUBLIC_URL": "https://b.example:8000", "BERTH_NOTEBOOK_DOMAIN": "nb.b.example"},
            "https://gate.nb.b.example:8004",
        ),
        ({"BERTH_NOTEBOOK_ROUTING": "path"}, "http://127.0.0.1:8004"),
        ({"BERTH_GATE_URL": "https://g.example"}, "https://g.example"),
        ({"BERTH_GATE_PAGES_URL": "https://h.example/"}, "https://h.example"),
    ],
)
def test_pages_are_led_to_a_host_that_is_not_the_portals(
    values: dict[str, str], pages: str, tmp_path: Path
) -> None:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    code = "from portal.settings import base; print(base.BERTH_GATE_PAGES_URL)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**plain, "BERTH_VAR": str(tmp_path), **values},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == pages
