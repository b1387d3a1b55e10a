"""How much a workload is used: what it pushes, and what its kernels answer when asked.

Asked straight at the workload's address, not through the proxy, with a token that opens this
one server only (its owner can read what we send), and with ``no_track_activity`` so that the
question itself is not use.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from asgiref.sync import async_to_sync
from django.db.models import Case, F, Q, Value, When

from common import trust
from common.clock import now
from hubapi import services
from hubapi.models import Activity, Client, NotebookToken, TokenKind
from hubapi.registry import base_path
from runtime.models import Route

POLL_S = 60.0
# The longest that an answer counts: a kernel is asked each minute.
FRESH = timedelta(minutes=3)
AT_ONCE = 32
_TIMEOUT = httpx.Timeout(5.0)
_MAX_ANSWER = 512 * 1024
_PUSH_EVERY = timedelta(seconds=30)
_PAGE_OPEN = timedelta(seconds=60)  # it tells each 15 s, and each second or third time is written
_PAGE_TELLS = timedelta(minutes=2)
_BATCH = 400


def note_push(*, uid: UUID, last_activity: datetime | None) -> bool:
    """Keep what a server told; more often than twice a minute is not even written.

    JupyterLab asks its server for something every ten seconds, for as long as it is open, and its
    server takes that for use. So while a page tells itself whether somebody is at it, that counts.
    """
    at = now()
    due = Activity.objects.filter(uid=uid).filter(
        Q(pushed_at=None) | Q(pushed_at__lt=at - _PUSH_EVERY)
    )
    if last_activity is None:
        return bool(due.update(pushed_at=at))
    silent = Q(page_at=None) | Q(page_at__lt=at - _PAGE_TELLS)
    return bool(due.update(pushed_at=at, last_activity=_newest(last_activity, silent)))


def note_page(*, uid: UUID, idle_s: float) -> None:
    """Keep that a page is open, and when somebody last pressed or moved something in it."""
    at = now()
    used = at - timedelta(seconds=idle_s)
    due = (
        Q(page_at=None) | Q(page_at__lt=at - _PUSH_EVERY) | Q(last_activity__lt=used - _PUSH_EVERY)
    )
    Activity.objects.filter(due, uid=uid).update(page_at=at, last_activity=_newest(used))


def page_is_open(uid: UUID) -> bool:
    return Activity.objects.filter(uid=uid, page_at__gte=now() - _PAGE_OPEN).exists()


def _newest(moment: datetime, only: Q | None = None) -> Case:
    """Return an expression for the newer one of a moment and the one that is kept."""
    newer = Q(last_activity=None) | Q(last_activity__lt=moment)
    newer = newer if only is None else newer & only
    return Case(When(newer, then=Value(moment)), default=F("last_activity"))


def note_used(uids: Sequence[UUID | str]) -> None:
    """Keep that somebody or something was at work in these just now; also of what has no server
    of its own that tells of use.
    """
    at = now()
    Activity.objects.bulk_create(
        [Activity(uid=uid, last_busy_at=at) for uid in uids],
        update_conflicts=True,
        unique_fields=["uid"],
        update_fields=["last_busy_at"],
        batch_size=_BATCH,
    )


@dataclass(frozen=True)
class Question:
    """One workload to ask."""

    uid: UUID
    address: str  # http://host:port/prefix/
    token: str


@dataclass(frozen=True)
class Reading:
    """What one workload answered; ``answered`` False when it did not, or not sensibly."""

    uid: UUID
    answered: bool
    kernels: int = 0
    busy: int = 0
    terminals: int = 0
    connections: int = 0
    last_activity: datetime | None = None


def poll() -> int:
    """Ask every routed workload once; return how many answered."""
    questions = _questions()
    if not questions:
        return 0
    readings = async_to_sync(_ask_all)(questions)
    _keep(readings)
    return sum(reading.answered for reading in readings)


def _questions() -> list[Question]:
    routes = dict(Route.objects.values_list("uid", "target"))
    short_ids = dict(
        Client.objects.filter(revoked_at=None).values_list("uid", "short_id").iterator()
    )
    tokens = NotebookToken.objects.filter(kind=TokenKind.SERVICE, revoked_at=None)
    found = []
    for uid, launch, known in tokens.values_list("uid", "launch", "digest").iterator():
        if uid in routes and uid in short_ids:
            address = routes[uid].rstrip("/") + base_path(short_ids[uid])
            token = services.derive_matching("service", uid, launch, known)
            found.append(Question(uid, address, token))
    return found


async def _ask_all(questions: Iterable[Question]) -> list[Reading]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(client: httpx.AsyncClient, question: Question) -> Reading:
        async with gate:
            return await _ask(client, question)

    # A workload is not trusted: no redirects, no proxy of ours, small answers only.
    async with httpx.AsyncClient(
        verify=trust.public(), timeout=_TIMEOUT, trust_env=False, follow_redirects=False
    ) as client:
        return list(await asyncio.gather(*(one(client, question) for question in questions)))


async def _ask(client: httpx.AsyncClient, question: Question) -> Reading:
    try:
        async with asyncio.timeout(10):
            kernels = await _list(client, question, "kernels")
            terminals = await _list(client, question, "terminals")
        return reading_of(question.uid, kernels, terminals)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError):
        return Reading(question.uid, answered=False)


async def _list(client: httpx.AsyncClient, question: Question, what: str) -> list[Any]:
    url = f"{question.address}api/{what}?no_track_activity=1"
    # Nothing compressed: a small answer could unfold to more memory than there is.
    headers = {"Authorization": f"token {question.token}", "Accept-Encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as response:
        if what == "terminals" and response.status_code == httpx.codes.NOT_FOUND:
            return []  # a server without terminals
        if response.status_code != httpx.codes.OK:
            raise ValueError(response.status_code)
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > _MAX_ANSWER:
                raise ValueError(what)
    answer = json.loads(body)
    if not isinstance(answer, list):
        raise ValueError(what)  # noqa: TRY004 - one kind of error for every bad answer
    return answer


def reading_of(uid: UUID, kernels: list[Any], terminals: list[Any]) -> Reading:
    """Make sense of two lists that a stranger may have written. Pure."""
    kernels = [k for k in kernels if isinstance(k, dict)]
    terminals = [t for t in terminals if isinstance(t, dict)]
    moments = [_moment(one.get("last_activity")) for one in (*kernels, *terminals)]
    return Reading(
        uid=uid,
        answered=True,
        kernels=len(kernels),
        busy=sum(k.get("execution_state") == "busy" for k in kernels),
        terminals=len(terminals),
        connections=sum(_count(k.get("connections")) for k in kernels),
        last_activity=max((m for m in moments if m), default=None),
    )


def _count(value: Any) -> int:
    return min(value, 1000) if type(value) is int and value > 0 else 0


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(moment.astimezone(UTC), now())
    except (TypeError, ValueError, OverflowError):
        return None


def _keep(readings: list[Reading]) -> None:
    """Write what was answered; two statements for a batch, however many there are."""
    at = now()
    silent = [r.uid for r in readings if not r.answered]
    answered = {r.uid: r for r in readings if r.answered}
    uids = list(answered)
    for start in range(0, len(silent), _BATCH):
        Activity.objects.filter(uid__in=silent[start : start + _BATCH]).update(failed_at=at)
    for start in range(0, len(uids), _BATCH):
        rows = list(Activity.objects.filter(uid__in=uids[start : start + _BATCH]))
        for row in rows:
            _apply(row, answered[row.uid], at)
        Activity.objects.bulk_update(rows, _POLLED)


_POLLED = (
    *("polled_at", "last_activity", "last_busy_at"),
    *("kernels", "busy_kernels", "terminals", "connections"),
)


def _apply(row: Activity, reading: Reading, at: datetime) -> None:
    row.polled_at = at
    row.kernels = reading.kernels
    row.busy_kernels = reading.busy
    row.terminals = reading.terminals
    row.connections = reading.connections
    if reading.busy:
        row.last_busy_at = at
    if reading.last_activity and (
        row.last_activity is None or row.last_activity < reading.last_activity
    ):
        row.last_activity = reading.last_activity
