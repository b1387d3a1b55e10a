"""What a notebook's page tells who sits in front of it: that it is about to end, and what helps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.principal import Principal
from common.errors import Conflict, Forbidden
from common.hooks import Hook
from hubapi.activity import note_page
from hubapi.api import body_json, holder_from, hub_api
from hubapi.models import TokenKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hubapi.selectors import Holder


_IDLE_DIGITS = 8  # three years of seconds


@dataclass(frozen=True)
class Act:
    """A button of a notice. ``do`` is a service: it decides whether that person may."""

    word: str
    label: str
    do: Callable[[Principal], Any] = field(repr=False)


@dataclass(frozen=True)
class Notice:
    """One notice in its reader's language. ``id`` is the same until what it tells is over.

    ``until``: when that happens, shown as a countdown. ``saves``: it ends then, so open documents
    are saved before.
    """

    id: str
    text: str
    level: str = "warning"  # info, warning, error
    until: datetime | None = None
    saves: bool = False
    acts: tuple[Act, ...] = ()


# The notices of a workload (its uid) for a reader; asked in the reader's language.
notices: Hook[[UUID, User], list[Notice]] = Hook()


def notices_of(uid: UUID, reader: User) -> list[Notice]:
    with translation.override(reader.reads_in):
        return [notice for found in notices(uid, reader) for notice in found]


@hub_api("GET", "POST", cors=True)
def workload_notices(request: HttpRequest, owner: str, server: str) -> HttpResponse:
    """Tell the notices of the workload whose page asks; POST presses a button of one.

    The page says beside it for how many seconds nobody has touched it (``?idle=``).
    """
    holder = holder_from(request, TokenKind.USER)
    if (owner, server) != (holder.info.owner_username, holder.info.short_id):
        raise Forbidden("This token is not valid here.")
    if (idle := request.GET.get("idle", "")).isdecimal() and len(idle) <= _IDLE_DIGITS:
        note_page(uid=holder.info.workload_uid, idle_s=int(idle))
    if request.method == "POST":
        asked = body_json(request)
        _press(holder, str(asked.get("id", "")), str(asked.get("act", "")))
    found = [_told(one, holder) for one in notices_of(holder.info.workload_uid, holder.user)]
    return JsonResponse({"notices": found})


def _press(holder: Holder, notice_id: str, word: str) -> None:
    if holder.user.pk != holder.info.owner_pk:
        raise Forbidden("Only its owner may press this.")
    principal = Principal(user=holder.user)
    with translation.override(holder.user.reads_in):
        for one in notices_of(holder.info.workload_uid, holder.user):
            for act in one.acts if one.id == notice_id else ():
                if act.word == word:
                    act.do(principal)
                    return
        raise Conflict(_("This is over: there is nothing to do any more."), code="over")


def _told(one: Notice, holder: Holder) -> dict[str, Any]:
    mine = holder.user.pk == holder.info.owner_pk
    return {
        "id": one.id,
        "level": one.level,
        "text": one.text,
        "until": one.until and one.until.timestamp(),
        "saves": one.saves,
        "acts": [{"act": act.word, "label": act.label} for act in one.acts if mine],
    }
