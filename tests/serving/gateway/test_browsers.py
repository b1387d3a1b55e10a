"""Pages that call an endpoint with a key: their browser asks first, without one (CORS)."""

from __future__ import annotations

import httpx
import pytest

from serving.fields import ORIGINS
from serving.gateway.table import Endpoint, Row
from tests.serving.gateway.conftest import Running
from tests.serving.gateway.replica import Replica

OURS = "https://app.example.org"
ASKS = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type,x-stainless-os",
}


def told(answer: httpx.Response) -> dict[str, str]:
    return {
        name.removeprefix("access-control-"): value
        for name, value in answer.headers.items()
        if name.startswith("access-control-")
    }


async def test_a_page_of_an_origin_that_it_names_asks_calls_and_reads_refusals(
    gateway: Running, replica: Replica
) -> None:
    await gateway.route(replica, origins=(OURS, "http://localhost:3000"))
    async with httpx.AsyncClient(base_url=gateway.url, headers={"Origin": OURS}) as browser:
        asked = await browser.options("/v1/models/digits:predict", headers=ASKS)
        assert asked.status_code == 204
        assert asked.headers["Vary"] == "Origin"
        assert told(asked) == {
            "allow-origin": OURS,
            "allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
            "allow-headers": ASKS["Access-Control-Request-Headers"],
            "expose-headers": "Retry-After, X-Berth-Version",
            "max-age": "600",
        }
        assert replica.seen == [], "nothing of it reaches the model, or wakes it"
        called = await browser.post("/v1", headers={"Authorization": "Bearer good"})
        assert (called.text, told(called)["allow-origin"]) == ("first", OURS)
        refused = await browser.post("/v1", headers={"Authorization": "Bearer wrong"})
        assert (refused.status_code, told(refused)["allow-origin"]) == (401, OURS)
        bare = await browser.options("/v1")  # no question of a browser
        assert bare.status_code == 401
        await gateway.route(replica, origins=("*",))
        theirs = {"Origin": "null", "Authorization": "Bearer good"}
        called = await browser.post("/v1", headers=theirs)
        assert told(called)["allow-origin"] == "null"


async def test_a10_pages_of_other_origins_learn_nothing_and_servers_say_nothing_about_it(
    gateway: Running, replica: Replica
) -> None:
    replica.headers = "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n"
    other = Endpoint("e2", "theirs", "secret", Row("r9", "v1", (replica.address,)), origins=(OURS,))
    await gateway.route(replica, others=(other,))
    foreign = [OURS, "https://app.example.org.evil.test", "https://APP.example.org", "*", "null"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}") as browser:
        for origin in foreign:
            here = await browser.options("/e/team/digits/v1", headers={**ASKS, "Origin": origin})
            none = await browser.options("/e/team/none/v1", headers={**ASKS, "Origin": origin})
            assert (here.status_code, here.content) == (401, none.content)
            assert told(here) == told(none) == {}
            key = {"Authorization": "Bearer good", "Origin": origin}
            called = await browser.post("/e/team/digits/v1", headers=key)
            assert (called.text, told(called)) == ("first", {})
    for origin in foreign[1:]:
        async with httpx.AsyncClient(headers={**ASKS, "Origin": origin}) as browser:
            asked = await browser.options(f"http://127.0.0.1:{gateway.port}/e/theirs/secret/v1")
            assert (asked.status_code, told(asked)) == (401, {})


def test_origins_are_written_as_browsers_write_them() -> None:
    said = "https://App.example.org, http://localhost:3000\n https://app.example.org"
    assert ORIGINS.clean(said) == "https://app.example.org http://localhost:3000"
    assert ORIGINS.clean("") == ""
    assert ORIGINS.clean("*") == "*"
    wrong = ["app.example.org", "https://a.b/path", "https://a b", "* https://a.b", "https://a;b"]
    for one in [*wrong, "https://*.b", "null", "https://a.b:", "x" * 1001, 'https://a"b', None]:
        with pytest.raises(Exception, match=r"origin|such thing"):
            ORIGINS.clean(one)
