"""What the cluster itself holds of a workspace: its objects as YAML, and the latest events.

Asked by ``web`` through ``runtime.gateway`` after it has checked access; answered where the
credential is. No secret is in it: Secrets are never read, and the values of the environment are
left out for everybody but the owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.errors import BerthError, Unavailable
from runtime import gateway
from runtime.capabilities import SupportsInspection

NAME = "workspace/objects"
MOST_EVENTS = 100
TIMEOUT_S = 5.0  # so long a page waits for all of it
EVENTS_S = 2.5  # of which reading events may take so much


@dataclass(frozen=True)
class Seen:
    """``problem`` says why the rest is empty."""

    objects: tuple[Mapping[str, str], ...] = ()  # title and yaml of each
    events: tuple[Mapping[str, Any], ...] = ()
    more: bool = False  # there are other events, older ones
    unread: bool = False  # not all could be read in time: newer ones may be missing
    problem: str = ""


def register() -> None:
    gateway.register(NAME, answer)


def ask(cluster: str, objects: Mapping[str, str], *, with_env: bool) -> Seen:
    payload = {"cluster": cluster, "with_env": with_env, **objects}
    try:
        said = gateway.ask(NAME, payload, timeout_s=TIMEOUT_S)
    except BerthError as error:
        return Seen(problem=error.message)
    return Seen(
        objects=tuple(said["objects"]),
        events=tuple(said["events"]),
        more=bool(said.get("more")),  # a gate of the release before says neither
        unread=bool(said.get("unread")),
    )


def answer(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = driver_for(str(payload["cluster"]))
    if not isinstance(driver, SupportsInspection):
        raise Unavailable(_("This process holds no key to clusters."))
    found = driver.inspect(
        {part: str(payload[part]) for part in ("namespace", "name", "pod")},
        for_owner=bool(payload.get("with_env")),
        most=MOST_EVENTS,
        seconds=EVENTS_S,
    )
    return {
        "objects": [{"title": title, "yaml": _text(one)} for title, one in found.objects.items()],
        "events": list(found.events),
        "more": found.more,
        "unread": found.unread,
    }


def _text(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
