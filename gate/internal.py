"""The internal listener: what the portal's other processes may ask of the world.

``POST /internal/<name>`` with the token of ``BERTH_GATE_TOKEN`` runs the handler that an app put
into ``runtime.gateway``. ``/livez``, ``/readyz`` and ``/metrics`` are for operators' tools.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import connection
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from common.errors import BerthError, Invalid, Unavailable
from common.metrics import REGISTRY
from common.streams import closing, look
from gate.web import alive
from runtime import gateway
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from gate.service import Gate

THREADS = 16
OUTSIDE_THREADS = 4  # wait for servers that people name; the rest never waits behind them
MAX_QUESTION = 1024 * 1024
log = structlog.get_logger(__name__)
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="gate-ask")
_outside = ThreadPoolExecutor(OUTSIDE_THREADS, thread_name_prefix="gate-ask-outside")


def app(gate: Gate) -> ASGIApp:
    async def ready(request: Request) -> Response:
        del request
        # ready when the database answers and the gate takes new streams
        try:
            await look(_touch_database)
        except Exception:  # noqa: BLE001 - whatever it is, it is not ready
            return PlainTextResponse("database\n", status_code=503)
        if gate.guard.draining:
            return PlainTextResponse("draining\n", status_code=503)
        return PlainTextResponse("ok\n")

    return Starlette(
        routes=[
            Route("/livez", alive),
            Route("/readyz", ready),
            Route("/metrics", _metrics),
            Route("/internal/{name:path}", _ask, methods=["POST"]),
        ]
    )


async def _ask(request: Request) -> Response:
    token = settings.BERTH_GATE_TOKEN
    given = request.headers.get("authorization", "")
    if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return PlainTextResponse("Not for you.\n", status_code=401)
    try:
        name = request.path_params["name"]
        handler = gateway.handler_of(name)
        pool = _outside if gateway.is_outside(name) else _pool
        payload = await _payload(request)
        loop = asyncio.get_running_loop()
        # whoever reads the answer speaks it: a process of ours says it in one plain word
        said = request.headers.get("accept-language", "")
        asker = said if said in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE
        answer = await loop.run_in_executor(pool, closing, partial(handler, payload), asker)
    except BerthError as error:
        return JSONResponse(gateway.told(error), status_code=error.status)
    except DriverError as error:
        return JSONResponse(gateway.told(Unavailable(str(error))), status_code=503)
    except Exception:
        log.exception("gate.ask_failed", name=request.path_params["name"])
        return JSONResponse({"message": ""}, status_code=500)
    return JSONResponse(dict(answer))


async def _payload(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_QUESTION:
            raise Invalid("The question is too large.")
    try:
        said = json.loads(bytes(body) or b"{}")
    except ValueError as error:
        raise Invalid("The question is not JSON.") from error
    if not isinstance(said, dict):
        raise Invalid("The question is not a JSON object.")
    return said


def _touch_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


async def _metrics(request: Request) -> Response:
    """Answer who has the token, where there is one: workloads of one machine reach this port."""
    token = settings.BERTH_METRICS_TOKEN
    given = request.headers.get("authorization", "")
    if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return PlainTextResponse("the token for metrics is needed\n", status_code=403)
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
