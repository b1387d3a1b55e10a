"""A2: no secret is anywhere but where it has to be.

Every secret gets a canary; then every GET route of the URL configuration is walked as every
kind of person, and answers, logs, payloads of tasks and of the bus, and the whole database are
searched.
"""

import base64
import logging
import logging.config
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.architecture import world
from tests.architecture.routes import Route, every_route
from tests.security import canaries
from tests.security.canaries import Planted

pytestmark = pytest.mark.django_db(transaction=True)

ODD = ("/no-such-page", "/api/v1/no-such", "/projects/nowhere/", "/projects/vision/workspaces/x/")
KINDS = ("workspaces", "jobs", "endpoints")
# what the holder himself is shown on purpose
OWN_PAGES = {
    "env": tuple(f"{where}/projects/vision/{kind}/" for where in ("", "/api/v1") for kind in KINDS),
    "recovery-seed": (),
}
# who may invite may copy the link again
INVITERS = {"alice", "mona", "olga"}
INVITATION_PAGE = "/projects/vision/members"


@pytest.fixture(autouse=True)
def machine(transactional_db: None) -> Iterator[None]:
    """A fresh fake machine and proxy, and fresh counters."""
    from django.core.cache import cache

    from accounts import fair_use
    from clusters import registry

    registry.reset()
    cache.clear()
    fair_use.forget()
    yield
    registry.reset()
    cache.clear()
    fair_use.forget()


@pytest.fixture
def logs(settings: Any) -> Iterator[list[str]]:
    """Every line that is logged, at every level, as it is written."""
    found: list[str] = []
    named = deepcopy(settings.LOGGING["formatters"]["json"])
    written = logging.config.DictConfigurator(settings.LOGGING).configure_formatter(named)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(written.format(record))

    handler, root = Keep(level=logging.DEBUG), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield found
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.fixture
def sent(monkeypatch: Any) -> Iterator[list[str]]:
    """Everything that goes to the worker or to browsers as a message."""
    from celery.signals import before_task_publish

    from runtime import bus

    found: list[str] = []

    def task(body: Any = None, **_other: Any) -> None:
        found.append(repr(body))

    def message(topics: list[str], data: dict[str, Any]) -> None:
        found.append(f"{topics} {data!r}")
        bus.send(topics, data)

    before_task_publish.connect(task, weak=False)
    monkeypatch.setattr(bus, "_send", message)
    yield found
    before_task_publish.disconnect(task)


@pytest.fixture
def planted(
    logs: list[str],
    sent: list[str],
    alice: Any,
    project: Any,
    launch: Any,
    settle: Any,
    settings: Any,
) -> Planted:
    del logs, sent
    return canaries.plant(
        owner=alice, project=project, launch=launch, settle=settle, settings=settings
    )


def forms(secret: str) -> tuple[str, ...]:
    """How a secret may hide: as it is, in base64, and without its shape."""
    return (secret, base64.b64encode(secret.encode()).decode().rstrip("="))


def found_in(text: str, planted: Planted) -> set[str]:
    return {name for name, value in planted.secrets.items() if any(f in text for f in forms(value))}


def allowed(name: str, who: str, path: str) -> bool:
    if name == "env":
        return who == "alice" and path.startswith(OWN_PAGES["env"])
    if name == "invitation":
        return who in INVITERS and path.startswith(INVITATION_PAGE)
    return False


def body_of(answer: Any) -> str:
    head = " ".join(f"{k}: {v}" for k, v in answer.items())
    cookies = str(answer.cookies)
    if answer.get("Content-Type", "").startswith("text/event-stream"):
        return head + cookies
    if answer.streaming:
        content = b"".join(part.encode() if isinstance(part, str) else part for part in answer)
    else:
        content = answer.content
    return f"{head} {cookies} {content.decode(errors='replace')}"


def addresses(planted: Planted, ids: dict[str, str]) -> list[tuple[Route, str]]:
    ids = {
        **ids,
        "workspace": planted.workspace.short_id,
        "workspace_uid": str(planted.workspace.uid),
        "job": planted.job,
    }
    return [
        (route, world.address(route, ids))
        for route in every_route()
        if "stream" not in route.path and "follow" not in route.path
    ]


def walk(who: str, client: Client, places: list[tuple[Route, str]], planted: Planted) -> list[str]:
    """Ask every route.

    That one has no GET is said before anything is looked up: the owner, who may see the most, asks
    those too.
    """
    wrong = []
    client.raise_request_exception = False
    read = [path for route, path in places if route.is_read or who == "alice"]
    asked = [("GET", path) for path in (*read, *ODD)]
    asked += [("OPTIONS", path) for route, path in places if "/api/" in route.path]
    for verb, path in asked:
        answer = client.generic(verb, path)
        # No gate asks outside here, which is told in a sentence like any other refusal.
        is_away = answer.status_code == 503 and "/mlflow/" in path
        assert not is_away or answer["Content-Type"] == "application/problem+json"
        assert answer.status_code < 500 or is_away, f"{who} {verb} {path}: {answer.status_code}"
        leaks = {n for n in found_in(body_of(answer), planted) if not allowed(n, who, path)}
        if leaks:
            wrong.append(f"{who} {verb} {path}: {sorted(leaks)}")
    return wrong


def database() -> Iterator[tuple[str, str]]:
    """Every value of every table, sessions also as what they hold."""
    from django.contrib.sessions.models import Session

    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    yield f"{table}.{name}", str(value)
    for session in Session.objects.all():
        yield "django_session.decoded", repr(session.get_decoded())


@pytest.mark.slow
def test_a2_no_answer_to_anybody_holds_a_secret_and_no_log_or_message(
    planted: Planted,
    logs: list[str],
    sent: list[str],
    project: Any,
    request: Any,
    as_user: Any,
    alice: Any,
) -> None:
    """What is logged and sent is that of planting and of all who ask."""
    ids = world.build(project, alice, mark="-guard")
    places = addresses(planted, ids)
    wrong: list[str] = []
    for name in ("alice", "bob", "mona", "vera", "charlie", "operator", "auditor"):
        person = request.getfixturevalue(name)
        wrong += walk(person.username, as_user(person), places, planted)
    wrong += walk("nobody", Client(), places, planted)
    token = Client(headers={"Authorization": f"Bearer {planted.api_token}"})
    api = [(route, path) for route, path in places if "/api/" in route.path]
    wrong += walk("alice", token, api, planted)
    assert not wrong, "\n".join(wrong)
    assert logs
    assert sent
    for name, lines in (("log", logs), ("message", sent)):
        wrong = [
            f"{sorted(leaks)} in {line[:600]}"
            for line in lines
            if (leaks := found_in(line, planted))
        ]
        assert not wrong, f"{name}:\n" + "\n".join(wrong[:10])


@pytest.mark.slow
def test_a2_the_work_itself_is_given_what_was_stored(planted: Planted) -> None:
    """The canaries are where they have to be, or the other tests would find nothing for nothing."""
    from notebooks.reconciler import WorkspaceReconciler

    spec = WorkspaceReconciler().spec_of(planted.workspace)
    handed = "\n".join([*spec.secret_files().values(), *spec.secret_env().values()])
    stored = {
        n for n in planted.secrets if n.split("-")[0] in {"s3", "gcs", "git", "ssh", "generic"}
    }
    assert len(stored) >= 7
    assert {n for n in stored if planted.secrets[n] not in handed.replace("\\n", "\n")} == set()
    assert not found_in(repr(spec.env), planted) - {"env"}


def test_a2_the_database_holds_no_secret_in_clear(planted: Planted) -> None:
    wrong = {
        f"{place}: {sorted(leaks)}"
        for place, value in database()
        if (leaks := found_in(value, planted))
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_a2_mail_carries_only_its_own_link(planted: Planted, mailoutbox: Any) -> None:
    from notifications.services import send_due

    send_due()
    assert mailoutbox
    for mail in mailoutbox:
        leaks = found_in(f"{mail.subject} {mail.body} {mail.extra_headers}", planted)
        assert leaks <= {"invitation"}, mail.body
        assert "invitation" not in leaks or mail.to == ["canary@example.org"]
