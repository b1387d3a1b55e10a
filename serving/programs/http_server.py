"""One model behind HTTP: both protocols, and how many requests run and wait."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from .models import BrokenError, Model, WrongInputError
from .protocols import BINARY, infer_v2, predict_v1, signature

BODY_WITHIN_S = 60.0  # between two pieces of a body
LINGERS_S = 2.0  # for the rest of a body that is refused
WAITING_FOR_EACH = 64  # requests, for each that is answered at once
BODIES_HELD = 8  # largest bodies that are in memory at once
TOO_LATE, TOO_LARGE, GONE, FULL = 408, 413, 499, 503
BUSY = "Too many requests wait here; try again in a moment."
_LIST, _VALUE = 100, 64  # bytes of one that was read from JSON, an array of it included
_DIGITS = 18  # of a length
_LONGEST = 500  # sentence
SERVES = {"name": "berth-model-server", "version": "1", "extensions": ["binary_tensor_data"]}

TRACES_EACH_S = 10.0  # of what failed: a caller makes no log grow
BROKEN = 70  # the exit code of a process that can't answer any more

Body = bytes | bytearray
Predicts = Callable[[Body], tuple[bytes, int | None]]


class TurnedAwayError(Exception):
    """A request that is not answered by the model, and the status that says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Server:
    """Answers ``at_once`` requests in threads; a bounded number of others waits."""

    def __init__(
        self, model: Model, options: argparse.Namespace, at_once: int, memory: int
    ) -> None:
        self.model, self.name, self.version = model, options.name, options.version
        self.most_body = options.most_body_mib * 2**20
        self.drains_s = options.drain_seconds
        self.most_waiting = at_once * WAITING_FOR_EACH
        self.pool = ThreadPoolExecutor(at_once, "predict")
        self.inside, self.held, self.ending = 0, 0, False
        self.unpacked, self.most_unpacked = 0, memory // 2
        self.traced_at = -TRACES_EACH_S
        of = self.figures = CollectorRegistry()
        self.running = Gauge("berth_model_requests_running", "Answered now", registry=of)
        self.waiting = Gauge("berth_model_requests_waiting", "In the queue", registry=of)
        most = Gauge("berth_model_requests_at_once", "Answered at the same time", registry=of)
        most.set(at_once)
        self.answers = Counter("berth_model_answers", "By status", ["code"], registry=of)
        self.seconds = Histogram("berth_model_seconds", "From body to answer", registry=of)

    def application(self) -> Starlette:
        """Return the ASGI application."""
        v1, v2 = "/v1/models/{name}", "/v2/models/{name}"
        routes = [
            Route("/v1/models", self.models),
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            Route("/metrics", self.metrics),
        ]
        for version in ("", "/versions/{version}"):
            routes += [
                Route(f"{v1}{version}:predict", self.predict, methods=["POST"]),
                Route(f"{v2}{version}/infer", self.infer, methods=["POST"]),
                Route(f"{v2}{version}/ready", self.ready),
                Route(f"{v2}{version}", self.metadata),
                Route(f"{v1}{version}", self.ready),
            ]
        return Starlette(routes=routes)

    # --- Predictions ------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Answer KServe's v1."""
        return await self._answer(request, lambda body: (predict_v1(self.model, body), None))

    async def infer(self, request: Request) -> Response:
        """Answer Open Inference v2, with tensors as JSON or as bytes behind it."""
        said = request.headers.get(BINARY, "")[:_DIGITS]
        length = int(said) if said.isascii() and said.isdigit() else None
        return await self._answer(
            request,
            lambda body: infer_v2(self.model, self.name, self.version, body, length),
            length,
        )

    async def _answer(
        self, request: Request, predicts: Predicts, length: int | None = None
    ) -> Response:
        """``length``: how much of the body is JSON; None: all of it."""
        body, needs = bytearray(), 0
        self.inside += 1
        try:
            await self._body(request, body)
            needs = self._room(body, length)
            made, length = await self._in_turn(predicts, body)
            headers = {BINARY: str(length)} if length is not None else {}
            media = "application/octet-stream" if headers else "application/json"
            answer = Response(made, media_type=media, headers=headers)
        except TurnedAwayError as problem:
            answer = _problem(problem.status, str(problem))
        except WrongInputError as problem:  # which may quote what was sent
            answer = _problem(400, str(problem)[:_LONGEST])
        except (ValueError, TypeError) as problem:
            answer = _problem(400, f"The model does not take this: {first_line(problem)}")
        except BrokenError as problem:
            answer = _problem(500, str(problem))
            sys.stderr.write(f"berth: {problem} It ends, for another one to begin.\n")
            self.ending = True
            asyncio.get_running_loop().call_later(self.drains_s, os._exit, BROKEN)
        except Exception as problem:  # noqa: BLE001 - libraries and people's programs raise anything
            answer = _problem(500, f"The model failed: {first_line(problem)}")
            self._trace(problem)
        finally:
            self.inside -= 1
            self.held -= len(body)
            self.unpacked -= needs
        self.answers.labels(answer.status_code).inc()
        if self.ending:
            answer.headers["connection"] = "close"
        return answer

    def _trace(self, problem: Exception) -> None:
        """Say where it failed, without its words, which may have a request's values."""
        if time.monotonic() - self.traced_at < TRACES_EACH_S:
            return
        self.traced_at = time.monotonic()
        where = "".join(traceback.format_tb(problem.__traceback__)[-5:])
        kind = type(problem).__name__
        sys.stderr.write(f"berth: a prediction failed with {kind} at\n{where}")

    async def _body(self, request: Request, body: bytearray) -> None:
        """Fill ``body``, of bounded size, with all that are here at once; the caller lets it go."""
        if wrong := self._not_named(request):
            raise TurnedAwayError(404, wrong)
        full = TurnedAwayError(FULL, BUSY)
        if self.inside > self.most_waiting:
            raise full
        said = request.headers.get("content-length", "0")
        too_large = said.isascii() and said.isdigit() and int(said) > self.most_body
        stream, is_whole = aiter(request.stream()), False
        try:
            while not too_large and not is_whole:
                async with asyncio.timeout(BODY_WITHIN_S):
                    piece = await anext(stream)
                is_whole = not piece
                if self.held + len(piece) > BODIES_HELD * self.most_body:
                    raise full
                body += piece
                self.held += len(piece)
                too_large = len(body) > self.most_body
        except TimeoutError:
            raise TurnedAwayError(TOO_LATE, "The body did not come.") from None
        except ClientDisconnect:
            raise TurnedAwayError(GONE, "The sender went away.") from None
        if too_large:
            self.held -= len(body)
            body.clear()
            # Who is still sending hears the answer only once this is taken from the wire.
            with contextlib.suppress(TimeoutError, ClientDisconnect):
                async with asyncio.timeout(LINGERS_S):
                    async for _piece in stream:
                        pass
            raise TurnedAwayError(TOO_LARGE, f"A body may have {self.most_body // 2**20} MiB.")

    def _room(self, body: Body, length: int | None) -> int:
        """Take the memory that its values may need, as Python has them: up to forty times as much.

        Else two bytes, written often enough, would end the process.
        """
        end = len(body) if length is None else length
        needs = _LIST * (body.count(b"[", 0, end) + body.count(b"{", 0, end))
        needs += _VALUE * (body.count(b",", 0, end) + body.count(b":", 0, end))
        if needs > self.most_unpacked:
            raise TurnedAwayError(
                TOO_LARGE, "The body has more values than fit in memory: send fewer at once."
            )
        if self.unpacked + needs > self.most_unpacked:
            raise TurnedAwayError(FULL, BUSY)
        self.unpacked += needs
        return needs

    async def _in_turn(self, predicts: Predicts, body: Body) -> tuple[bytes, int | None]:
        def does() -> tuple[bytes, int | None]:
            self.waiting.dec()
            self.running.inc()
            try:
                return predicts(body)
            finally:
                self.running.dec()

        began = time.perf_counter()
        self.waiting.inc()
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, does)
        finally:
            self.seconds.observe(time.perf_counter() - began)

    # --- What is asked of it ----------------------------------------------------------------------

    def _not_named(self, request: Request) -> str:
        """Return what is wrong with the name or version in the path, nothing if all is right."""
        its = request.path_params
        if its.get("name", self.name) != self.name:
            return f"The model served here is {self.name}."
        if self.version and its.get("version", self.version) != self.version:
            return f"The version served here is {self.version}."
        return ""

    async def ready(self, request: Request) -> Response:
        """Say whether requests are taken: not any more once it ends."""
        if wrong := self._not_named(request):
            return _problem(404, wrong)
        if self.ending:
            return _problem(FULL, "It ends.")
        return _json({"name": self.name, "ready": True})

    async def live(self, _request: Request) -> Response:
        """Say that it runs."""
        return _json({"live": True})

    async def models(self, _request: Request) -> Response:
        """Say which model there is."""
        return _json({"models": [self.name]})

    async def server(self, _request: Request) -> Response:
        """Say what this is."""
        return _json(SERVES)

    async def metadata(self, request: Request) -> Response:
        """Say what the model takes and gives."""
        if wrong := self._not_named(request):
            return _problem(404, wrong)
        told = {"name": self.name, "versions": [self.version] if self.version else []}
        its = signature(self.model.inputs, self.model.outputs)
        return _json({**told, "platform": type(self.model).__name__, **its})

    async def metrics(self, _request: Request) -> Response:
        """Tell its figures to who shares requests out."""
        return Response(generate_latest(self.figures), media_type=CONTENT_TYPE_LATEST)

    # --- Its life ---------------------------------------------------------------------------------

    async def serve(self, host: str, port: int, ends_within: int) -> None:
        """Serve until SIGTERM; then go on a moment, for who does not know yet that it ends."""
        config = uvicorn.Config(
            self.application(),
            host=host,
            port=port,
            http="h11",  # the other one takes headers of any size
            access_log=False,  # what is asked here is in no log
            log_level="warning",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=ends_within,
        )
        server, loop = uvicorn.Server(config), asyncio.get_running_loop()

        def stop() -> None:
            server.should_exit = True

        def end(_number: int, _frame: FrameType | None) -> None:
            wait_s = 0.0 if self.ending else self.drains_s
            self.ending = True
            loop.call_soon_threadsafe(loop.call_later, wait_s, stop)

        server.handle_exit = end  # type: ignore[assignment,method-assign]
        await server.serve()
        self.pool.shutdown(wait=False, cancel_futures=True)


def _json(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")


def _problem(status: int, sentence: str) -> Response:
    answer = _json({"error": sentence})
    answer.status_code = status
    if status == FULL:
        answer.headers["retry-after"] = "1"
    if status in {TOO_LATE, TOO_LARGE}:
        answer.headers["connection"] = "close"
    return answer


def first_line(problem: Exception) -> str:
    """Return what a library says, on one line of bounded length."""
    said = next(iter(str(problem).strip().splitlines()), "")
    return f"{type(problem).__name__}: {said}"[:300]
