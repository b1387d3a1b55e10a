"""Claim, step, apply: how every row comes from what is to what is wanted.

Invariants (docs/dev/reconciler.md):

* one worker at a time holds a row, by a conditional UPDATE of ``lease_token``;
* no transaction is open while a step talks to the world;
* a result is applied only under the token it was made with, else dropped;
* a change made during a step makes the row due again at once.
"""

import copy
import random
import time
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, close_old_connections, models, transaction
from django.db.models import Case, F, Q, Value, When

from common.clock import now
from common.database import update_returning
from runtime import bus, leases, observe, reconcilers
from runtime.killpoints import killpoint
from runtime.ports import cluster_provider
from runtime.protocol import (
    Denied,
    Desired,
    DriverError,
    InvalidSpec,
    NoCapacity,
    NotYet,
    Phase,
    Unreachable,
)
from runtime.reasons import Reason
from runtime.reconcilers import Outcome, Reconciler, Transition

log = structlog.get_logger(__name__)

LEASE_S = 90.0
POISON_AFTER = 5  # claims that were never applied
ROUNDS = 4  # times one call follows a row that is due again at once
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
DENIED_RETRY_S = 60.0
NO_CAPACITY_RETRY_S = 30.0
RELEASE_PAUSES_S = (0.0, 0.2, 1.0, 3.0)
_MOMENT = models.DateTimeField(null=True)  # a field is dear to make in each pass


@dataclass(frozen=True)
class Claim:
    """A row held by this worker until ``until``."""

    reconciler: Reconciler
    row: Any
    token: uuid.UUID
    until: datetime
    generation: int
    attempts: int  # of this claim too


def claim(
    kind: str, pk: int, *, horizon_s: float = 0.0, token: uuid.UUID | None = None
) -> Claim | None:
    """Take the row if it is due and free. Exactly one of many callers wins."""
    reconciler = reconcilers.reconciler_for(kind)
    at = now()
    token, until = token or leases.new_token(), at + timedelta(seconds=LEASE_S)
    taken = reconcilers.rows_of(kind).filter(
        Q(lease_until__isnull=True) | Q(lease_until__lt=at),
        pk=pk,
        deleted_at__isnull=True,
        next_reconcile_at__lte=at + timedelta(seconds=horizon_s),
    )
    # next_reconcile_at becomes the end of the lease: whoever makes the row due meanwhile
    # writes an earlier time, which apply recognises; if we die, the row is due at that time.
    if not taken.update(
        lease_token=token,
        lease_until=until,
        next_reconcile_at=until,
        lease_attempts=F("lease_attempts") + 1,
    ):
        return None
    related = getattr(reconciler, "related", ())
    row = _whole(reconciler).select_related(*related).get(pk=pk)
    if row.lease_token != token:
        return None
    killpoint("claimed")
    return Claim(reconciler, row, token, until, row.generation, row.lease_attempts)


def reconcile_one(kind: str, pk: int, *, horizon_s: float = 0.0) -> bool:
    """Claim, step and apply until the row is not due. True when this call did something."""
    did = False
    for _round in range(ROUNDS):
        token = leases.new_token()
        try:
            held = claim(kind, pk, horizon_s=horizon_s, token=token)
            if held is None:
                return did
            did = True
            outcome, failures = attempt(held)
            killpoint("stepped")
            if not apply(held, outcome, failures=failures):
                return did
        except (OperationalError, InterfaceError):
            release(kind, pk, token)
            raise
    return did


def release(kind: str, pk: int, token: uuid.UUID) -> None:
    """Let go of a row that a broken connection left in our hands, so that it is due at once.

    Whether the claim or the result had been written is not known; under its token both are safe
    to undo. Without a database the row waits for the end of the lease.
    """
    rows = reconcilers.rows_of(kind).filter(pk=pk, lease_token=token)
    for pause in RELEASE_PAUSES_S:
        time.sleep(pause)
        try:
            rows.update(
                lease_token=None,
                lease_until=None,
                lease_attempts=F("lease_attempts") - 1,
                next_reconcile_at=now(),
            )
        except (OperationalError, InterfaceError) as error:
            log.info("engine.release_failed", kind=kind, pk=pk, error=repr(error))
            close_old_connections()  # the next try gets a fresh one
        else:
            return


def attempt(held: Claim) -> tuple[Outcome, int]:  # noqa: PLR0911 - one line per kind of error
    """Run the step; every error becomes an outcome. Returns (outcome, failures in a row)."""
    row, begun = held.row, time.monotonic()
    if held.attempts > POISON_AFTER:
        log.error("engine.quarantined", kind=row.KIND, uid=str(row.uid), attempts=held.attempts)
        if quarantine := getattr(held.reconciler, "quarantine", None):
            quarantine(row)
        return Outcome(Phase.FAILED, Reason.QUARANTINED), 0
    try:
        seen = observe.cached(held.row) if getattr(held.reconciler, "observes", False) else None
        return held.reconciler.step(row, seen), 0
    except NotYet as error:
        return _same(held, row.reason, row.message, error.retry_in), row.failures
    except Unreachable as error:
        reason = error.reason or Reason.UNREACHABLE
        return _same(held, reason, str(error), backoff(row.failures)), row.failures + 1
    except InvalidSpec as error:
        if cluster_provider().was_old(getattr(row, "cluster_key", ""), begun):
            return _same(held, row.reason, row.message, 0.0), row.failures
        return Outcome(Phase.FAILED, error.reason or Reason.INVALID_SPEC, str(error)), 0
    except Denied as error:
        # What runs or ends goes on with that; only what has yet to begin waits
        same = _same(held, error.reason or Reason.DENIED, str(error), jitter(DENIED_RETRY_S))
        return (same if _has_begun(held) else replace(same, phase=Phase.PENDING)), 0
    except NoCapacity as error:
        again = jitter(NO_CAPACITY_RETRY_S)
        return Outcome(
            Phase.PENDING, error.reason or Reason.NO_CAPACITY, str(error), requeue_s=again
        ), 0
    except (DriverError, Exception) as error:
        log.exception("engine.step_failed", kind=row.KIND, uid=str(row.uid), error=repr(error))
        return _same(held, Reason.INTERNAL_ERROR, "", backoff(row.failures)), row.failures + 1


def _same(held: Claim, reason: str, message: str, again: float) -> Outcome:
    """Keep the phase (a reconciler may know a truer one while intent is to stop)."""
    told = getattr(held.reconciler, "phase_on_error", None)
    phase = told(held.row) if told else Phase(held.row.phase)
    return Outcome(phase, reason, message, requeue_s=again)


def _has_begun(held: Claim) -> bool:
    row = held.row
    if row.desired != Desired.RUNNING:
        return True
    if hasattr(row, "launch"):  # of an older one its phase may still tell
        return row.launch in {row.external_ref.get("launch"), row.external_ref.get("ended")}
    closes = getattr(held.reconciler, "closes_when_denied", False)
    return bool(row.phase == Phase.RUNNING and not closes)


def apply(held: Claim, outcome: Outcome, *, failures: int = 0) -> bool:
    """Write the result under the token it was made with. True when the row is due again now."""
    at = now()
    due = None if outcome.requeue_s is None else at + timedelta(seconds=outcome.requeue_s)
    unchanged = When(
        generation=held.generation, next_reconcile_at=held.until, then=Value(due, _MOMENT)
    )
    values: dict[str, Any] = {
        **outcome.updates,
        "phase": outcome.phase,
        "reason": outcome.reason,
        "message": outcome.message,
        "failures": failures,
        "lease_token": None,
        "lease_until": None,
        "lease_attempts": 0,
        "updated_at": at,
        "next_reconcile_at": Case(unchanged, default=Value(at, _MOMENT), output_field=_MOMENT),
    }
    if failures == 0:
        values["observed_generation"] = held.generation
        values["last_observed_at"] = at
    if outcome.external_ref is not None:
        values["external_ref"] = dict(outcome.external_ref)
    if outcome.phase != held.row.phase:
        values["phase_since"] = at
    if outcome.gone:
        values.update(deleted_at=at, next_reconcile_at=None)
    if _is_quiet(held, outcome):
        return _apply_quietly(held, values)
    with transaction.atomic():
        written = _written(held, values)
        if written is None:
            return _dropped(held)
        if outcome.beside is not None:
            outcome.beside()
        row = _as_written(held, values, *written)
        _tell(held, row, outcome)
        killpoint("applied")
    killpoint("committed")
    return row.next_reconcile_at is not None and row.next_reconcile_at <= now() and not outcome.gone


def _is_quiet(held: Claim, outcome: Outcome) -> bool:
    """Whether nobody is to hear of it: the engine alone writes what these are compared with."""
    row = held.row
    same = (outcome.phase, outcome.reason, outcome.message) == (row.phase, row.reason, row.message)
    told = outcome.timeline or outcome.gone or outcome.held
    return same and not told and outcome.beside is None


def _apply_quietly(held: Claim, values: dict[str, Any]) -> bool:
    """The same with nothing beside it: usually one statement, a transaction of its own."""
    written = _written(held, values)
    if written is None:
        return _dropped(held)
    killpoint("applied")
    killpoint("committed")
    _generation, due = written
    return due is not None and due <= now()


def _written(held: Claim, values: dict[str, Any]) -> tuple[int, datetime | None] | None:
    """Write under our token; return (generation, when it is due) as they are now.

    What a kind keeps in a table of its own is written in the same transaction, once the token
    has held: our UPDATE keeps the row locked.
    """
    kind, model = held.reconciler.kind, held.reconciler.model
    rows = reconcilers.rows_of(kind).filter(pk=held.row.pk, lease_token=held.token)
    own = {field.name for field in model._meta.local_fields}  # noqa: SLF001
    apart = reconcilers.table_of(model) is not model
    detail = {name: value for name, value in values.items() if apart and name in own}
    common = {name: value for name, value in values.items() if name not in detail}
    with transaction.atomic() if detail else nullcontext():
        found = update_returning(rows, common, ("generation", "next_reconcile_at"))
        if found and detail:
            _whole(held.reconciler).filter(pk=held.row.pk).update(**detail)
    return (found[0][0], found[0][1]) if found else None


def _dropped(held: Claim) -> bool:
    log.info("engine.stale_result_dropped", kind=held.row.KIND, uid=str(held.row.uid))
    return False


def _as_written(held: Claim, values: dict[str, Any], generation: int, due: datetime | None) -> Any:
    """Return the row as it is now, locked by our UPDATE.

    Of most passes nobody has changed anything meanwhile; a kind may say that its rows need not be
    read once more then.
    """
    if not getattr(held.reconciler, "keeps_what_it_read", False):
        return _with_related(held, _whole(held.reconciler).get(pk=held.row.pk))
    if generation != held.generation:
        return _with_related(held, _whole(held.reconciler).get(pk=held.row.pk))
    row = copy.copy(held.row)
    for name, value in {**values, "next_reconcile_at": due}.items():
        setattr(row, name, value)
    return row


def _with_related(held: Claim, row: Any) -> Any:
    """Give ``row`` what the step had read beside the row, as far as it points there still."""
    for name in getattr(held.reconciler, "related", ()):
        field = row._meta.get_field(name.partition("__")[0])  # noqa: SLF001
        same = getattr(row, field.attname) == getattr(held.row, field.attname)
        if same and field.is_cached(held.row):
            field.set_cached_value(row, field.get_cached_value(held.row))
    return row


def _tell(held: Claim, row: Any, outcome: Outcome) -> None:
    before = held.row
    changed = (row.phase, row.reason) != (before.phase, before.reason) or outcome.gone
    if changed or outcome.timeline or outcome.held:
        phases = Phase(before.phase), Phase(row.phase)
        told = Transition(row, *phases, outcome, outcome.gone, before)
        for listener in reconcilers.listeners():
            listener(told)
    bus.publish(
        reconcilers.topics_of(held.reconciler, row), {"kind": row.KIND, "uid": str(row.uid)}
    )


def backoff(failures: int) -> float:
    """Return seconds to wait after the ``failures``-th failure in a row, with jitter."""
    return jitter(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures, 16)))


def jitter(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing


def _whole(reconciler: Reconciler) -> models.QuerySet[Any]:
    """Return the rows with all columns of their kind."""
    rows: models.QuerySet[Any] = reconciler.model._default_manager.all()  # noqa: SLF001
    return rows
