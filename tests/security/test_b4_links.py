"""B4: what people write never becomes a link with a scheme of its own, nor a way to elsewhere."""

from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from common.clock import now
from tests.accounts.conftest import PASSWORD
from tests.architecture import world
from tests.architecture.routes import every_route
from tests.hubapi.conftest import lookup, make_workload

__all__ = ["lookup", "make_workload"]  # fixtures
pytestmark = pytest.mark.django_db

SCRIPTS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "berth-app://token={token}",
)
ELSEWHERE = (
    *SCRIPTS,
    "https://evil.example/x",
    "//evil.example/x",
    "///evil.example/x",
    "/\\evil.example/x",
    "\\\\evil.example/x",
    "/\t/evil.example/x",
    "http:evil.example",
    "https:/evil.example",
    "http://testserver@evil.example/",
    "http://testserver.evil.example/",
    "http://evil.nb.localhost:8001/",
)
ADDRESSES = {"href", "src", "action", "formaction", "poster", "xlink:href", "hx-get", "hx-post"}
ADDRESSES |= {"data-open-url", "sse-connect", "hx-push-url", "data-url", "ping", "srcset"}
ALLOWED = {"", "http", "https", "mailto"}


@pytest.fixture(autouse=True)
def fresh_banners() -> Iterator[None]:
    """Announcements are kept in memory for some seconds."""
    from notifications.selectors import forget_announcements

    forget_announcements()
    yield
    forget_announcements()


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or (name == "http-equiv" and value == "refresh"):
                self.bad.append(f"<{tag} {name}={value}>")
            if name in ADDRESSES and value:
                self.found.append(value)


def scheme_of(address: str) -> str:
    """As a browser reads it: controls and space in front and tabs within do not count."""
    plain = "".join(c for c in address if c not in "\t\r\n").lstrip("".join(map(chr, range(33))))
    return urlsplit(plain).scheme.lower()


def links_of(answer: Any) -> Links:
    parser = Links()
    if answer.get("Content-Type", "").startswith("text/html") and not answer.streaming:
        parser.feed(answer.content.decode())
    return parser


def write_everywhere(text: str, project: Any, user: Any, operator: Any) -> None:
    from accounts.models import ApiToken, SshKey
    from notebooks.models import Preset, Workspace
    from notifications.models import Announcement, Notification

    at = now()
    Announcement.objects.create(message=text, starts_at=at - timedelta(minutes=1))
    Announcement.objects.create(message=f"see {text} .", starts_at=at - timedelta(minutes=1))
    Notification.objects.create(
        user=user, kind="workspace.failed", params={"name": text}, url=text, created_at=at
    )
    Preset.objects.update(name=text[:60], description=text, icon=text[:40])
    Workspace.objects.update(name=text[:60], message=text)
    ApiToken.objects.update(name=text)
    SshKey.objects.update(name=text, public_key=text)
    for person in (user, operator):
        person.display_name = text
        person.email = f"{person.username}@example.org"
        person.save()
    project.name, project.description = text[:60], text
    project.save()


@pytest.mark.parametrize(
    ("text", "is_asked_by_both"),
    [
        (SCRIPTS[0], False),
        *(
            pytest.param(
                SCRIPTS[n],
                True,
                marks=pytest.mark.long("another text, asked by its owner only, beside it"),
            )
            for n in (0, 3, 5)
        ),
    ],
)
def test_b4_no_page_links_to_what_people_wrote(
    text: str, is_asked_by_both: bool, project: Any, alice: Any, operator: Any, as_user: Any
) -> None:
    """Whose page it is looks at it; else both look at all."""
    ids = world.build(project, alice)
    write_everywhere(text, project, alice, operator)
    wrong: list[str] = []
    for person in (alice, operator):
        client = as_user(person)
        client.raise_request_exception = False
        for route in every_route():
            if "stream" in route.path or "/api/" in route.path:
                continue
            if person is operator and not route.is_read:
                continue  # what is refused so has no content, and alice looked at it
            if not is_asked_by_both and route.on_platform != (person is operator):
                continue
            path = world.address(route, ids)
            links = links_of(client.get(path))
            wrong += [f"{path}: {bad}" for bad in links.bad]
            wrong += [f"{path}: {one}" for one in links.found if scheme_of(one) not in ALLOWED]
    assert not wrong, "\n".join(wrong)


def test_b4_an_announcement_links_to_pages_only(alice: Any, as_user: Any) -> None:
    from notifications.models import Announcement

    words = " , ".join((*SCRIPTS, "https://status.example.org/today"))
    Announcement.objects.create(message=f"see {words} .", starts_at=now() - timedelta(hours=1))
    found = links_of(as_user(alice).get("/projects/")).found
    assert "https://status.example.org/today" in found
    assert {scheme_of(one) for one in found} <= ALLOWED


@pytest.mark.parametrize("target", ELSEWHERE)
def test_b4_a_notification_never_leads_elsewhere(target: str, alice: Any, as_user: Any) -> None:
    from notifications.models import Notification

    row = Notification.objects.create(
        user=alice, kind="workspace.failed", url=target, created_at=now()
    )
    answer = as_user(alice).post(f"/notifications/{row.uid}/open")
    assert answer.status_code == 302
    assert leads_home(answer["Location"])


def leads_home(location: str) -> bool:
    """As a browser reads it: a backslash is a slash, tabs and line ends are nothing."""
    plain = "".join(c for c in location if c not in "\t\r\n").replace("\\", "/").strip()
    parts = urlsplit(plain)
    if parts.scheme not in {"", "http", "https"}:
        return False
    return not plain.startswith("//") and parts.hostname in {None, "testserver", "localhost"}


@pytest.mark.parametrize("target", ELSEWHERE)
@pytest.mark.parametrize(
    ("verb", "path", "extra"),
    [
        ("post", "/accounts/login/", {"login": "alice", "password": PASSWORD}),
        ("post", "/accounts/logout/", {}),
        ("post", "/preferences", {"theme": "dark"}),
        ("get", "/accounts/login/", {}),
        ("get", "/hub/login", {}),
        ("get", "/hub/home", {}),
        ("get", "/hub/logout", {}),
        ("get", "/accounts/reauthenticate/", {}),
        ("post", "/accounts/reauthenticate/", {"password": PASSWORD}),
        ("get", "/settings/", {}),
    ],
)
def test_b4_next_never_leads_elsewhere(
    verb: str, path: str, extra: dict[str, str], target: str, alice: Any, as_user: Any
) -> None:
    client = Client() if path.startswith(("/accounts/login", "/hub/login")) else as_user(alice)
    asked = {**extra, "next": target, "url": target, "redirect_to": target}
    answer = getattr(client, verb)(path, asked, headers={"Referer": target})
    if "Location" in answer:
        assert leads_home(answer["Location"]), answer["Location"]
    found = links_of(answer).found
    assert not [one for one in found if not leads_home(one) and "evil" in one]
    assert {scheme_of(one) for one in found} <= ALLOWED


@pytest.mark.parametrize(
    "tail", ["/evil.example", "\\evil.example", "@evil.example", ".evil.example"]
)
def test_b4_hub_links_stay_at_portal_and_workspaces(
    tail: str, make_workload: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    own = make_workload(alice).public_url
    led = client.get(f"/hub/user-redirect/{tail}")["Location"]
    assert led.startswith(own)
    assert urlsplit(led.replace("\\", "/")).netloc == urlsplit(own).netloc
    for path in (f"/hub/spawn/{tail}", f"/hub/spawn/alice/{tail}"):
        answer = client.get(path)
        if "Location" in answer:
            assert leads_home(answer["Location"]), answer["Location"]
