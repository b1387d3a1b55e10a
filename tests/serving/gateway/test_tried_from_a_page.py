# ruff: noqa: F401, F811 - fixtures of the tests beside it
"""The request that a page sends goes through a real gateway, with a key that nobody holds."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from tests.serving.gateway.conftest import PATIENCE_S
from tests.serving.gateway.replica import Replica
from tests.serving.gateway.test_program import answers, endpoint, url

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tries(url: str, settings: Any, endpoint: Any, principal: Any) -> Any:
    settings.BERTH_GATEWAY_URL = url.removesuffix("/e/vision")

    async def send(who: Any, path: str = "v1/models/digits:predict", body: str = "{}") -> Any:
        from serving.services import endpoint_try

        asked = {"method": "POST", "path": path, "body": body}

        def sent() -> Any:
            try:
                return endpoint_try(principal=principal(who), row=endpoint, **asked)
            finally:
                connection.close()

        return await asyncio.to_thread(sent)  # the gateway asks the database meanwhile

    return send


async def test_it_is_answered_as_any_program_is_and_counted_as_the_persons(
    tries: Any,
    endpoint: Any,
    bob: Any,
    replica: Replica,
) -> None:
    from serving import traffic
    from serving.models import EndpointKey
    from serving.services import keys_of

    await sync_to_async(answers)(endpoint, replica)
    for _twice in range(2):
        began = time.monotonic()
        answer = await tries(bob)
        assert answer.status == 200, answer
        assert answer.text
        assert 0 < answer.seconds <= time.monotonic() - began < 10
    live = await sync_to_async(lambda: list(EndpointKey.objects.values_list("prefix", "name")))()
    assert live == [("", "Bob")] * 2

    def told() -> list[Any]:
        return [(one.name, part.requests) for one, part in traffic.by_caller(endpoint, "hour")]

    async with asyncio.timeout(PATIENCE_S):
        while await sync_to_async(told)() != [("Bob", 2)]:  # noqa: ASYNC110 - rows
            await asyncio.sleep(0.2)
    from accounts.principal import Principal

    seen = await sync_to_async(lambda: list(keys_of(Principal(endpoint.owner), endpoint)))()
    assert seen == []


async def test_a_server_that_wants_a_key_of_its_own_is_asked_once(
    tries: Any, endpoint: Any, bob: Any, replica: Replica
) -> None:
    """Its 401 is an answer; only the gateway's own says that the key is not known yet."""
    await sync_to_async(answers)(endpoint, replica)
    replica.status = "401 Unauthorized"
    answer = await tries(bob)
    assert (answer.status, answer.text, answer.version != "") == (401, "first", True)
    assert len(replica.seen) == 1


async def test_who_may_not_call_sends_nothing(tries: Any, vera: Any) -> None:
    from common.errors import Forbidden
    from serving.models import EndpointKey

    with pytest.raises(Forbidden):
        await tries(vera)
    assert not await EndpointKey.objects.aexists()


@pytest.mark.parametrize("path", ["a b", "a\nb", "a\\b", "a\x00b", "../other/v1", "./v1"])
async def test_a_path_that_no_request_can_have_is_refused(tries: Any, bob: Any, path: str) -> None:
    from common.errors import Invalid

    with pytest.raises(Invalid):
        await tries(bob, path)


async def test_a_gateway_that_is_away_is_said(
    settings: Any,
    principal: Any,
    bob: Any,
    endpoint: Any,
) -> None:
    from serving.services import endpoint_try
    from serving.services.trying import NoAnswerError

    settings.BERTH_GATEWAY_URL = "http://127.0.0.1:9"
    asked = {"method": "GET", "path": "", "body": ""}
    with pytest.raises(NoAnswerError):
        await sync_to_async(endpoint_try)(principal=principal(bob), row=endpoint, **asked)
