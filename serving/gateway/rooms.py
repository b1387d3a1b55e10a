"""How much room each replica of a row has, by the figures that its server publishes."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from serving.gateway.haproxy import WEIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWERS_WITHIN_S = 1.0
AT_ONCE = 16  # replicas are asked: a thousand that answer much or late hold up nothing else
LONGEST = 2**17
LEAST = 8  # a server that says it is full is still tried now and then: it may be wrong
MOST = 256
# What servers call them: Berth's own, vLLM of each age, Triton, text-generation-inference.
RUNNING = ("berth_model_requests_running", "vllm:num_requests_running", "tgi_batch_current_size")
WAITING = (
    "berth_model_requests_waiting",
    "vllm:num_requests_waiting",
    "nv_inference_pending_request_count",
    "tgi_queue_size",
)
CACHE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_NAMES = "|".join(re.escape(name) for name in (*RUNNING, *WAITING, *CACHE))
_LINE = re.compile(
    rf"^({_NAMES})(?:\{{[^}}\n]*\}})?[ \t]{{1,8}}([^\s]{{1,64}})(?=\s|$)", re.MULTILINE
)


@dataclass(frozen=True)
class Figures:
    running: float
    waiting: float
    cache: float = 0.0  # part of its cache that is taken, 0 to 1

    @property
    def room(self) -> float:
        """One while it is idle, near nothing when much waits or the cache is full."""
        return (1 - 0.9 * self.cache**2) / (1 + self.running + 2 * self.waiting)


def read_figures(text: str) -> Figures | None:
    """Read what a server published; None where it says nothing of its load, or nonsense."""
    found: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        try:
            number = float(value)
        except ValueError:
            return None
        if not (math.isfinite(number) and number >= 0):
            return None
        before = found.get(name, 0.0)
        found[name] = max(before, number) if name in CACHE else before + number
    if not found.keys() & {*RUNNING, *WAITING}:
        return None
    running = sum(found.get(name, 0.0) for name in RUNNING)
    waiting = sum(found.get(name, 0.0) for name in WAITING)
    cache = max(found.get(name, 0.0) for name in CACHE)
    return Figures(running, waiting, cache) if cache <= 1 else None


async def ask_figures(
    client: httpx.AsyncClient, address: str, path: str, turn: asyncio.Semaphore
) -> Figures | None:
    """Ask a replica; None where it does not answer in time, or not that."""
    try:
        async with (
            asyncio.timeout(ANSWERS_WITHIN_S),  # with its turn: all are asked within this time
            turn,
            client.stream("GET", f"http://{address}{path}") as answer,
        ):
            text = bytearray()
            async for part in answer.aiter_raw():
                text += part
                if len(text) > LONGEST:
                    return None
    except (httpx.HTTPError, OSError, TimeoutError):
        return None
    return read_figures(text.decode(errors="replace")) if answer.is_success else None


def weights(told: Mapping[str, Figures | None]) -> dict[str, int]:
    """Return what HAProxy multiplies by: those without figures count as the mean of the others."""
    rooms = [figures.room for figures in told.values() if figures is not None]
    if not rooms:
        return dict.fromkeys(told, WEIGHT)
    mean, most = sum(rooms) / len(rooms), max(rooms)
    return {
        address: max(LEAST, round(MOST * (mean if figures is None else figures.room) / most))
        for address, figures in told.items()
    }
