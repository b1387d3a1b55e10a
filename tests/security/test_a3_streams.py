"""A3: a stream that is held open ends when what opened it ends."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.test import AsyncClient

from accounts.models import ApiToken
from clusters import streams
from common.clock import now
from tests.loaders.conftest import load  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("logs", "events", "load")


@pytest.fixture(autouse=True)
def machine(transactional_db: None, monkeypatch: Any) -> Any:
    from clusters import registry

    monkeypatch.setattr(streams, "RECHECK_S", -1.0)
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(streams, "POLL_S", 0.01)
    monkeypatch.setattr(streams, "LIFE_S", 5.0)
    registry.reset()
    yield
    registry.reset()


@pytest.fixture
def paths(launch: Any, load: Any, alice: Any, settle: Any) -> dict[str, str]:  # noqa: F811
    row, copied = settle(launch(alice)), settle(load(alice))
    base = "/api/v1/projects/vision"
    one = f"{base}/workspaces/{row.short_id}"
    logs = f"{base}/loads/{copied.uid}/logs"
    return {"logs": f"{one}/logs", "events": f"{one}/events", "load": logs}


async def rest_of(response: Any, end: Any) -> str:
    """Read one part, let ``end`` happen, and read on; fails when the stream lives its life."""
    said, ended = "", False
    async for block in response:
        said += block.decode()
        if not ended:
            await sync_to_async(end)()
            ended = True
        assert said.count("still here") < 20, "the stream goes on"
    return said


@pytest.mark.parametrize("what", PATHS)
async def test_a3_a_stream_ends_with_its_session(
    what: str, paths: dict[str, str], alice: Any
) -> None:
    client = AsyncClient()
    await client.aforce_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    response = await client.get(paths[what], headers={"accept": "text/event-stream"})
    await rest_of(response, Session.objects.all().delete)


@pytest.mark.parametrize("what", PATHS)
@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
async def test_a3_a_stream_ends_with_its_token(
    column: str, what: str, paths: dict[str, str], alice: Any
) -> None:
    from accounts.principal import Principal
    from accounts.services.tokens import token_create

    _, secret = await sync_to_async(token_create)(who=Principal(user=alice), name="t")
    client = AsyncClient()
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {secret}"}
    response = await client.get(paths[what], headers=headers)

    def end() -> None:
        ApiToken.objects.update(**{column: now()})

    await rest_of(response, end)


@pytest.mark.parametrize("what", ["logs", "load"])
async def test_a3_a_stream_ends_with_its_person(
    what: str, paths: dict[str, str], alice: Any
) -> None:
    client = AsyncClient()
    await client.aforce_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    response = await client.get(paths[what], headers={"accept": "text/event-stream"})

    def end() -> None:
        type(alice).objects.update(is_active=False)

    await rest_of(response, end)
