"""The fields that are an endpoint's own, with the words that people read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from serving.gateway.table import ORIGIN
from serving.runtimes import RUNTIMES
from work import fields as f
from work import standard_fields as s

MAX_REPLICAS = 64
SLUG = r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?"


@dataclass(frozen=True, kw_only=True)
class AddressName(f.Name):
    """A name that is a part of an address."""

    longest: int = 50
    between: str = "-"

    def clean(self, value: Any) -> str:
        text = super().clean(value)
        if not re.fullmatch(SLUG, text):
            raise self.wrong(_t("Small letters, digits and hyphens: it is in the address."))
        return text


NAME = AddressName(
    name="name",
    label=_("Name"),
    help=_("In its address, which stays the same whatever it serves."),
    edit=f.Edit.NEVER,
)
MODEL = f.Line(
    name="model",
    label=_("Model"),
    help=_("MODEL or MODEL/VERSION; without a version its newest. Empty: its image has it."),
    longest=101,
    pattern=rf"{SLUG}(/{SLUG})?",
    refusal=_("The name of a model, or MODEL/VERSION."),
    example="mnist/v1",
    quiet=True,
)
RUNTIME = f.Choice(
    name="runtime",
    label=_("Model server"),
    help=_("What loads its files. As usual: the one for its framework."),
    choices=[("", _("As usual")), *((one.word, one.label) for one in RUNTIMES)],
    usual="",
    folded=True,
    quiet=True,
)
PORT = f.Count(
    name="port",
    label=_("Port"),
    help=_("Where a server of its own listens; it finds it in PORT, too."),
    low=1,
    high=65535,
    usual=8080,
    folded=True,
    quiet=True,
)
HEALTH = f.Line(
    name="health",
    label=_("Health path"),
    help=_("The path that a server of its own answers when it is ready. Empty: it listens."),
    pattern=r"/[^\s\x00-\x1f]*",
    refusal=_("A path, such as /health."),
    example="/health",
    folded=True,
    quiet=True,
)
MIN_REPLICAS = f.Count(
    name="min_replicas",
    label=_("Replicas at least"),
    low=1,
    high=MAX_REPLICAS,
    usual=1,
    edit=f.Edit.ALWAYS,
    quiet=True,
)
MAX_REPLICAS_FIELD = f.Count(
    name="max_replicas",
    label=_("Replicas at most"),
    help=_("Between the two it has as many as its requests need."),
    low=1,
    high=MAX_REPLICAS,
    usual=1,
    edit=f.Edit.ALWAYS,
    quiet=True,
)
CONCURRENCY = f.Count(
    name="concurrency",
    label=_("Requests at once"),
    help=_("That one replica answers well; with more, another replica starts."),
    low=1,
    high=10_000,
    usual=8,
    edit=f.Edit.ALWAYS,
    folded=True,
    quiet=True,
)
SLEEP_AFTER = f.Count(
    name="sleep_after_minutes",
    label=_("Sleeps after minutes"),
    help=_(
        "Without a request for so long it gives all it holds back; the next request wakes it and "
        "is answered. 0: never."
    ),
    unit=f.Unit.MINUTES,
    high=60 * 24 * 31,
    option="sleep-after",
    edit=f.Edit.ALWAYS,
    quiet=True,
)
WAIT = f.Count(
    name="wait_s",
    label=_("Seconds that a request waits"),
    help=_("For it to wake; after that the caller is told to try again."),
    low=1,
    high=900,
    usual=120,
    edit=f.Edit.ALWAYS,
    folded=True,
    quiet=True,
)


@dataclass(frozen=True, kw_only=True)
class Origins(f.Line):
    """Origins of pages, as browsers write them, with a space between."""

    def clean(self, value: Any) -> str:
        found = super().clean(value).lower().replace(",", " ").split()
        for origin in found:
            if not ORIGIN.fullmatch(origin) or (origin == "*" and len(found) > 1):
                raise self.wrong(
                    _t("“%(value)s” is no origin, such as https://app.example.org."), value=origin
                )
        return " ".join(dict.fromkeys(found))


ORIGINS = Origins(
    name="origins",
    label=_("Pages that may call it"),
    help=_(
        "Origins of web pages whose scripts may call it in a browser, with a key. Empty: none; "
        "programs need nothing here. *: every page."
    ),
    longest=1000,
    example="https://app.example.org",
    edit=f.Edit.ALWAYS,
    folded=True,
    quiet=True,
)
# What has a model needs neither.
IMAGE, COMMAND = replace(s.IMAGE, folded=True), replace(s.COMMAND, folded=True)
TABLE = f.Table(
    *(NAME, MODEL, RUNTIME, IMAGE, COMMAND, s.ARGS, PORT, HEALTH),
    *(*s.SIZE, *s.PLACE),
    *(MIN_REPLICAS, MAX_REPLICAS_FIELD, CONCURRENCY, SLEEP_AFTER, WAIT, ORIGINS),
    *(s.ENV, *s.ATTACHED),
)
