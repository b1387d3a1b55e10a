"""Whatever a page leads a browser to, nobody but the portal is sent the portal's cookies there.

Cookies know hosts, no ports: who listens at another port of the portal's host would be sent them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from django.conf import settings

from tests.architecture import world
from tests.architecture.routes import every_route

ADDRESS = re.compile(r"(?:(?:https?|wss?):|(?<![^\"'\s]))//[^\s\"'<>;,]+")
ATTRIBUTE = re.compile(r"=\s*(?:\"([^\"]*)\"|'([^']*)')")


def named(answer: Any) -> Iterator[str]:
    """The addresses that a browser goes to from this answer, or is allowed to."""
    said = [answer.headers.get(name, "") for name in ("Location", "Content-Security-Policy")]
    if not answer.streaming:
        kind, body = answer.headers.get("Content-Type", ""), answer.content.decode()
        said += ["".join(one) for one in ATTRIBUTE.findall(body)] if "html" in kind else [body]
    for one in said:
        yield from ADDRESS.findall(unescape(one))


@pytest.fixture
def sent(alice: Any, client: Any) -> Callable[[str], str]:
    """What a browser in which alice signed in sends as its cookies to an address."""
    form = {"login": alice.username, "password": "correct horse battery"}
    made = client.post("/accounts/login/", form).cookies.values()
    came = httpx.Response(
        200,
        headers=[("Set-Cookie", one.OutputString()) for one in made],
        request=httpx.Request("POST", settings.BERTH_PUBLIC_URL),
    )
    jar = httpx.Cookies()
    jar.extract_cookies(came)

    def to(address: str) -> str:
        asked = httpx.Request(
            "GET", re.sub("^ws", "http", urljoin(settings.BERTH_PUBLIC_URL, address))
        )
        jar.set_cookie_header(asked)
        return str(asked.headers.get("Cookie", ""))

    return to


@pytest.mark.django_db
def test_no_page_leads_the_portals_cookies_to_another_listener(
    project: Any, alice: Any, client: Any, sent: Callable[[str], str]
) -> None:
    from clusters.models import Cluster
    from notebooks.models import Workspace

    ids = world.build(project, alice)
    Cluster.objects.filter(key=ids["cluster"]).update(driver="kubernetes", reachable=True)
    Workspace.objects.update(
        cluster_key=ids["cluster"], phase="running", desired="running", observed_generation=1
    )
    alice.platform_role = "operator"
    alice.save()
    pages = [r for r in every_route() if r.is_ours and not r.is_api and "GET" in r.verbs]
    asked = [world.address(route, ids) for route in pages]
    asked += [f"/tickets/{part}/{ids['workspace']}" for part in ("logs", "files", "terminal")]
    found = {(url, address) for url in asked for address in named(client.get(url))}
    portal = urlsplit(settings.BERTH_PUBLIC_URL)[:2]
    assert sent(settings.BERTH_PUBLIC_URL)
    assert sent("ws://localhost:8004/gate/terminal/x")  # so it would be there
    # The gateway is named for programs; it asks for a key and gives no cookie on (tests/serving/gateway).
    gateway = urlsplit(settings.BERTH_GATEWAY_URL)[:2]
    others = {(url, to) for url, to in found if urlsplit(to)[:2] not in {portal, gateway}}
    wrong = {(url, to) for url, to in others if sent(to)}
    assert not wrong
    gate = urlsplit(settings.BERTH_GATE_PAGES_URL).netloc
    led = {urlsplit(to).path.split("/")[2] for _url, to in found if f"//{gate}/gate/" in to}
    assert led == {"terminal", "files", "logs", "volumes"}  # all that pages name was looked at
