"""A3: a stream that is held open ends when what opened it ends."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.test import AsyncClient

from accounts.models import ApiToken
from common.clock import now
from notebooks import streams
from tests.notebooks.conftest import launch, presets, settle  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db(transaction=True)
PATHS = ("logs", "events")


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
def path(launch: Any, alice: Any, settle: Any) -> str:  # noqa: F811
    row = settle(launch(alice))
    return f"/api/v1/projects/vision/workspaces/{row.short_id}/"


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
async def test_a3_a_stream_ends_with_its_session(what: str, path: str, alice: Any) -> None:
    client = AsyncClient()
    await client.aforce_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    response = await client.get(path + what, headers={"accept": "text/event-stream"})
    await rest_of(response, Session.objects.all().delete)


@pytest.mark.parametrize("what", PATHS)
@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
async def test_a3_a_stream_ends_with_its_token(
    column: str, what: str, path: str, alice: Any
) -> None:
    from accounts.principal import Principal
    from accounts.services import token_create

    _, secret = await sync_to_async(token_create)(who=Principal(user=alice), name="t")
    client = AsyncClient()
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {secret}"}
    response = await client.get(path + what, headers=headers)

    def end() -> None:
        ApiToken.objects.update(**{column: now()})

    await rest_of(response, end)


async def test_a3_a_stream_ends_with_its_person(path: str, alice: Any) -> None:
    client = AsyncClient()
    await client.aforce_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    response = await client.get(path + "logs", headers={"accept": "text/event-stream"})

    def end() -> None:
        type(alice).objects.update(is_active=False)

    await rest_of(response, end)
