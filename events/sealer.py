"""Chains hashes over the audit log, in batches, beside the writers and never in their way.

One process seals at a time (a lease held by the worker's duty); a link is unique by its last
event, so even two sealers make one chain. ``verify_chain`` reads everything again.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from common.clock import now
from events.models import Event, Seal

EVERY_S = 20.0
# A writer that took a number before ours may commit after it; most have by then. One that
# has not is found as "late" by a later link.
SETTLE = timedelta(seconds=5)
LATE_FOR = timedelta(hours=6)
BATCH = 2000
GENESIS = "0" * 64
_COLUMNS = (
    *("id", "uid", "at", "actor_uid", "actor_name", "via", "ip", "request_id", "verb", "outcome"),
    *("project_uid", "target_kind", "target_uid", "target_name", "message", "data"),
)


def seal(*, settle: timedelta = SETTLE) -> int:
    """Seal what is not sealed yet; returns how many events. Called every EVERY_S seconds."""
    total = 0
    while done := _seal_batch(settle):
        total += done
        if done < BATCH:
            break
    return total


def _seal_batch(settle: timedelta) -> int:
    last = Seal.objects.order_by("-last_event_id").first()
    after = last.last_event_id if last else 0
    fresh = list(
        Event.objects.filter(id__gt=after, at__lte=now() - settle)
        .order_by("id")
        .values(*_COLUMNS)[:BATCH]
    )
    if not fresh:
        return 0  # a link needs a number of its own: late ones wait for company
    late = _late_events()
    first, end = after + 1, fresh[-1]["id"]
    previous = last.digest if last else GENESIS
    gaps = gaps_in(first, end, [e["id"] for e in fresh])
    row = Seal(
        first_event_id=first,
        last_event_id=end,
        count=len(fresh) + len(late),
        gaps=gaps,
        late=[e["id"] for e in late],
        previous=previous,
        digest=digest(previous, gaps, [*fresh, *late]),
        at=now(),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return 0  # another sealer was quicker: its link stands
    return len(fresh)


def _late_events() -> list[dict[str, Any]]:
    """Return events that appeared in gaps of recent links and are in no link yet."""
    recent = list(Seal.objects.filter(at__gte=now() - LATE_FOR).order_by("id"))
    taken = {number for link in recent for number in link.late}
    found: list[dict[str, Any]] = []
    for link in recent:
        for low, high in link.gaps:
            rows = Event.objects.filter(id__gte=low, id__lte=high).exclude(id__in=taken)
            found += list(rows.order_by("id").values(*_COLUMNS)[:BATCH])
    return found


def gaps_in(first: int, last: int, ids: Iterable[int]) -> list[list[int]]:
    """Return the ranges of ``first``..``last`` that ``ids`` (sorted) leaves out."""
    gaps: list[list[int]] = []
    expected = first
    for number in ids:
        if number > expected:
            gaps.append([expected, number - 1])
        expected = number + 1
    if expected <= last:
        gaps.append([expected, last])
    return gaps


def digest(previous: str, gaps: list[list[int]], events: Iterable[dict[str, Any]]) -> str:
    """Return the SHA-256 of a link, over the previous one and every column of every event."""
    state = hashlib.sha256(previous.encode())
    state.update(json.dumps(gaps).encode())
    for event in events:
        plain = {k: (v if k in {"id", "data"} else _text(v)) for k, v in event.items()}
        text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        state.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return state.hexdigest()


def _text(value: Any) -> str:
    if hasattr(value, "astimezone"):
        return str(value.astimezone(UTC).isoformat(timespec="microseconds"))
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Verdict:
    """What reading the whole chain found. ``head`` can be kept elsewhere as a witness."""

    links: int
    sealed: int
    unsealed: int
    head: str
    problems: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return not self.problems


def verify_chain() -> Verdict:
    """Compute every link again and compare; proportional to the log, in batches."""
    previous, expected_first, sealed, links = GENESIS, 1, 0, 0
    problems: list[str] = []
    open_gaps: set[int] = set()
    for link in Seal.objects.order_by("last_event_id").iterator(chunk_size=200):
        links += 1
        sealed += link.count
        if link.previous != previous or link.first_event_id != expected_first:
            problems.append(f"link {link.pk} does not follow the one before it")
        if not _link_holds(link):
            problems.append(
                f"events {link.first_event_id}-{link.last_event_id} are not what was sealed"
            )
        open_gaps |= {n for low, high in link.gaps for n in range(low, min(high, low + 10_000) + 1)}
        open_gaps -= set(link.late)
        previous, expected_first = link.digest, link.last_event_id + 1
    unsealed = Event.objects.filter(id__gte=expected_first).count()
    numbers = sorted(open_gaps)
    strangers = sum(
        Event.objects.filter(id__in=numbers[start : start + 500]).count()
        for start in range(0, len(numbers), 500)
    )
    return Verdict(
        links=links,
        sealed=sealed,
        unsealed=unsealed + strangers,
        head=previous,
        problems=tuple(problems),
    )


def _link_holds(link: Seal) -> bool:
    rows = Event.objects.filter(id__gte=link.first_event_id, id__lte=link.last_event_id)
    for low, high in link.gaps:
        rows = rows.exclude(id__gte=low, id__lte=high)
    found = list(rows.order_by("id").values(*_COLUMNS))
    late = {e["id"]: e for e in Event.objects.filter(id__in=link.late).values(*_COLUMNS)}
    if len(late) != len(link.late) or len(found) + len(late) != link.count:
        return False
    return digest(link.previous, link.gaps, [*found, *(late[n] for n in link.late)]) == link.digest


def has_head(head: str) -> bool:
    """Whether a hash noted earlier is still a link of the chain."""
    return Seal.objects.filter(digest=head).exists()
