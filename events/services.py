"""Writing events. Call inside the transaction of the act."""

from typing import Any, Protocol
from uuid import UUID

import structlog

from common.clock import now
from events.models import Event


class Actor(Protocol):
    """What an event needs to know of a principal (accounts.principal.Principal fits)."""

    @property
    def user(self) -> Any: ...
    @property
    def token(self) -> Any: ...
    @property
    def ip(self) -> str: ...


def record(  # noqa: PLR0913 - one column each
    *,
    actor: Actor | None,
    verb: str,
    target: Any = None,
    target_kind: str = "",
    target_name: str = "",
    project_uid: UUID | None = None,
    message: str = "",
    outcome: str = "done",
    data: dict[str, Any] | None = None,
) -> Event:
    """Append one event. ``actor`` None means Berth itself; never put a secret into ``data``."""
    context = structlog.contextvars.get_contextvars()
    kind = "" if target is None else type(target).__name__.lower()
    return Event.objects.create(
        at=now(),
        actor_uid=actor.user.uid if actor else None,
        actor_name=actor.user.username if actor else "",
        via=_via(actor, context),
        ip=actor.ip if actor else "",
        request_id=str(context.get("request_id", ""))[:40],
        verb=verb,
        outcome=outcome,
        project_uid=project_uid,
        target_kind=target_kind or getattr(target, "KIND", "") or kind,
        target_uid=str(getattr(target, "uid", "") or ""),
        target_name=(target_name or str(target if target is not None else ""))[:160],
        message=message[:500],
        data=data or {},
    )


def _via(actor: Actor | None, context: dict[str, Any]) -> str:
    if actor is None:
        return "engine"
    if actor.token is not None:
        return f"token:{actor.token.prefix}"[:24]
    return str(context.get("via", "page"))[:24]
